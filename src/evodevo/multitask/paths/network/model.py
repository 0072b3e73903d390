"""A network of the library as a path: its parts from components, and a norm and a head on its representation.

Source: docs/spec/munet.md#components; ``multitask/paths/network/spec.py`` describes the structure.

Legend: B samples, h channels of a sample's representation, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from evodevo.errors import DataError, UsageError
from evodevo.multitask.paths.dense import DenseInput
from evodevo.multitask.paths.network.dense import network_input
from evodevo.multitask.paths.network.spec import HEAD, KIND, LOOSE, NORM, NetworkStructure
from evodevo.networks.base import Batch, Network, Representation
from evodevo.networks.build import build_network
from evodevo.networks.newborns import newborns
from evodevo.randomness import integer_seed
from evodevo.tasks.inputs import InputSpec
from evodevo.training.parts import packed_name


class NetworkPath(nn.Module):
    """A network with its weights; its representation is normed and classified by a linear head, if there is one.

    Args:
        structure: structure of the path.
        seed: seed of the norm and the head; the parts of the network are set by ``put``.

    Raises:
        UsageError: a structure that is no network of this library.
    """

    kind = KIND

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

    def dense_inputs(self) -> dict[str, DenseInput]:
        """Its one entry of a batch, the whole; see ``Multipath.dense_inputs``."""
        return {"": network_input(self.structure)}

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
        packed = {packed_name(name, one): one for one in own}
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
        logits: Tensor = head(norm(pooled.to(head.weight.dtype)))
        return logits

    def represent(self, batch: Batch) -> Representation:
        """Representation of the network itself."""
        return self.network.represent(batch)

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
        learning = {role for role, part in self._parts.items() if any(each.requires_grad for each in part.parameters())}
        if not learning:
            self.network.eval()
        for role, part in self._parts.items():
            if role not in learning and not isinstance(part, Loose):
                part.eval()
        return self


class Loose(nn.Module):
    """Tensors that lie in a network itself, as one component; it shares them with the network."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        for name, parameter in network.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        kept = network.state_dict()
        for name, buffer in network.named_buffers(recurse=False):
            self.register_buffer(name, buffer, persistent=name in kept)


def skeleton(structure: NetworkStructure) -> Network:
    """The network of a structure before it has its weights; it can ``represent``.

    Raises:
        UsageError: no network of this library.
    """
    inputs = tuple(
        InputSpec(**{key: value for key, value in values.model_dump().items() if key not in ("tokenizer", "use")})
        for values in structure.inputs
    )
    spec, outputs = structure.network()
    network = build_network(spec, inputs, outputs, seed=0)
    young = structure.newborns
    network.take_state_extras(newborns(young.births, young.twins, beside=young.beside))
    return network.eval()


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


def zero_head(width: int, classes: int) -> nn.Linear:
    """A head by which every class is equally likely at first."""
    head = nn.Linear(width, classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head
