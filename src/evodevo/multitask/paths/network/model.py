"""A network of the library as a path: its parts from components, and a norm and a head on its representation.

Source: docs/spec/munet.md#components; ``multitask/paths/network/spec.py`` describes the structure.

Legend: B samples, h channels of a sample's representation, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from evodevo.backbone.model import Backbone
from evodevo.backbone.settings import LanguageModelSettings
from evodevo.backbone.space import BackboneSettings, BackboneSpace
from evodevo.errors import DataError, UsageError
from evodevo.h_model.model import HModel
from evodevo.module_zoo.model import ModuleZoo
from evodevo.multitask.paths.network.spec import HEAD, LOOSE, NORM, NetworkStructure, Newborns
from evodevo.networks.base import Batch, Network, Representation
from evodevo.networks.build import build_network
from evodevo.networks.routing.pools import masked_mean
from evodevo.networks.spec import NetworkEnvelope
from evodevo.operators.dense import affine
from evodevo.randomness import integer_seed
from evodevo.settings import validate
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

ANSWERS: Mapping[str, tuple[str, ...]] = {
    "h_model": ("outputs",),
    "stack": ("outputs",),
    "module_zoo": ("heads", "alignment"),
    "baseline": ("heads", "side_heads"),
    "backbone": ("head",),
}
"""Kind of a network -> its children that ``represent`` never asks. Ensembles are taken whole, with their answers."""


class NetworkPath(nn.Module):
    """A network with its weights; its representation is normed and classified by a linear head, if there is one.

    Args:
        structure: structure of the path.
        seed: seed of the norm and the head; the parts of the network are set by ``put``.

    Raises:
        UsageError: a structure that is no network of this library.
    """

    def __init__(self, structure: NetworkStructure, seed: int = 0) -> None:
        super().__init__()
        self.structure = structure
        self.network = skeleton(structure)
        self.own = nn.ModuleDict()
        if structure.classes:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(integer_seed(seed, "component", HEAD))
                self.own[NORM] = nn.LayerNorm(structure.width, structure.norm_epsilon)
                self.own[HEAD] = zero_head(structure.width, structure.classes)
        self._parts = {part.role: part_of(self.network, part.name) for part in structure.parts}

    def put(self, role: str, state: Mapping[str, Tensor]) -> None:
        """Give a component its weights.

        Args:
            role: role of the component.
            state: as ``components()[role].state_dict()``, or a blob in which a checkpoint keeps several small parts,
                where each name begins with the part's and a slash.

        Raises:
            DataError: weights of another component.
        """
        part, name = self.components()[role], getattr(self.structure.part(role), "name", role)
        own = part.state_dict()
        packed = {f"{name}/{own_name}": own_name for own_name in own}
        if packed and packed.keys() <= state.keys():
            state = {own_name: state[stored] for stored, own_name in packed.items()}
        try:
            part.load_state_dict(dict(state))
        except RuntimeError as error:
            raise DataError(f"the stored component does not fit as {role!r} of this network: {error}") from None

    def forward(self, batch: Batch) -> Tensor:
        """Inputs by name -> logits (B, C), or without a head the representation of each sample (B, h)."""
        pooled = self.represent(batch).pooled
        if HEAD not in self.own:
            return pooled
        norm, head = self.own[NORM], self.own[HEAD]
        assert isinstance(norm, nn.LayerNorm)
        assert isinstance(head, nn.Linear)
        return affine(norm(pooled.to(head.weight.dtype)), head)

    def represent(self, batch: Batch) -> Representation:
        """Representation of the network itself."""
        return represented(self.network, batch)

    @property
    def input_spec(self) -> dict[str, Any]:
        """See ``NetworkStructure.input_spec``."""
        return self.structure.input_spec

    def components(self) -> dict[str, nn.Module]:
        """Role -> component, in the order in which a sample passes them."""
        return {**self._parts, **dict(self.own.items())}

    def train(self, mode: bool = True) -> NetworkPath:
        """A network none of whose parts learns answers as it was published, and so does each part that does not."""
        super().train(mode)
        learning = {role for role, part in self._parts.items() if any(_learn(part))}
        if not learning:
            self.network.eval()
        for role, part in self._parts.items():
            if role not in learning and not isinstance(part, Loose):
                part.eval()
        return self


class Reader(Backbone):
    """A language model that reads texts as other networks do: the mean over real tokens represents a text.

    Padding is on the right. The model is causal, so no token depends on later ones.
    """

    name: str

    def represent(self, batch: Batch) -> Representation:
        """Tokens (B, L) of the one input."""
        tokens, mask = batch[self.name], batch.get(f"{self.name}/mask")
        hidden = self.hidden(tokens)
        return Representation(hidden, mask, masked_mean(hidden, mask))


class Loose(nn.Module):
    """Tensors that lie in a network itself, as one component; it shares them with the network."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        for name, parameter in network.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        kept = network.state_dict()
        for name, buffer in network.named_buffers(recurse=False):
            self.register_buffer(name, buffer, persistent=name in kept)


def skeleton(structure: NetworkStructure) -> nn.Module:
    """The network of a structure before it has its weights; it can ``represent``.

    Raises:
        UsageError: no network of this library.
    """
    if structure.source == "backbone":
        return _backbone(structure)
    inputs = tuple(
        InputSpec(**{key: value for key, value in spec.model_dump().items() if key not in ("tokenizer", "use")})
        for spec in structure.inputs
    )
    outputs = tuple(OutputSpec(**spec.model_dump()) for spec in structure.outputs)
    envelope = validate(NetworkEnvelope, structure.genome, what="an imported network")
    network = build_network(envelope.network, inputs, outputs, seed=0)
    _let_be_born(network, structure.newborns)
    return network.eval()


def represented(network: nn.Module, batch: Batch) -> Representation:
    """Representation of a batch by a network or a ``Reader``."""
    assert isinstance(network, Network | Reader)
    return network.represent(batch)


def part_of(network: nn.Module, name: str) -> nn.Module:
    """A part of a network as ``training.checkpoints`` cuts it.

    Raises:
        UsageError: it has none.
    """
    if name == LOOSE:
        return Loose(network)
    try:
        return network.get_submodule(name)
    except AttributeError:
        raise UsageError(f"the network has no part {name!r}; it was made by another version of evodevo.") from None


def unread_parts(kind: str, network: nn.Module) -> tuple[str, ...]:
    """Children of a network that ``represent`` never asks."""
    if isinstance(network, HModel) and network.structure.halting.rule != "none":
        return ()  # its answers may say when it has thought enough
    return ANSWERS.get(kind, ())


def zero_head(width: int, classes: int) -> nn.Linear:
    """A head by which every class is equally likely at first."""
    head = nn.Linear(width, classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def _backbone(structure: NetworkStructure) -> Reader:
    space = BackboneSpace(validate(BackboneSettings, structure.model["space"], what="the space of a backbone"))
    settings = validate(LanguageModelSettings, structure.model["model"], what="the settings of a backbone")
    genome = space.from_json(structure.genome)
    space.check(genome)
    with torch.random.fork_rng(devices=[]):
        model = Reader(space.plan(genome), space.settings.dimensions, settings)
    model.name = structure.inputs[0].name
    return model.eval()


def _let_be_born(network: Network, newborns: Newborns) -> None:
    if isinstance(network, ModuleZoo):
        network.births, network.twins = dict(newborns.births), dict(newborns.twins)
    elif isinstance(network, HModel):
        network.births = {int(place): factor for place, factor in newborns.births.items()}


def _learn(part: nn.Module) -> Iterator[bool]:
    return (parameter.requires_grad for parameter in part.parameters())
