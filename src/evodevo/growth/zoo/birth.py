"""With what a newborn module begins: its parents' weights, so that it answers as they do where it can.

Source: docs/spec/architect_thyself.md#inheritance.

Exact, to rounding and without dropout, are: a copy; more hidden units of feed-forward nodes and LSTMs; wider
convolutions inside a residual branch, and larger kernels; further kernels and channels of a CNN; a smaller reduction of
squeeze-excite; the second way of an LSTM; more blocks of a transformer (but in the form ``paper``) and of a ResNet1D;
any change of dropout; every ``insert`` of a splice. Not exact are: fewer of anything; other heads, activations, forms;
more blocks of an MLP or layers of an LSTM, which have no residual; another operator; every ``replace``.

Everything follows from the newborn's seed, the genotypes and the parents' weights, bit for bit; see ``rebuild``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from evodevo.errors import DataError, EvodevoError
from evodevo.growth.edit_spec import TensorSource
from evodevo.growth.spec import BirthSettings
from evodevo.growth.zoo.correspondence import Correspondence
from evodevo.module_zoo.modules.build import build_module, part_name
from evodevo.module_zoo.modules.graph import sources
from evodevo.module_zoo.modules.nodes.inheritance import Map, Match, copy_of
from evodevo.module_zoo.modules.spec import INPUT, ModuleGenotype
from evodevo.operators.base import Operator
from evodevo.randomness import integer_seed

_Rule = Literal["copied", "padded", "blended", "twinned"]
State = Mapping[str, Tensor]
Origin = tuple[str, str]
"""Id of a parent, and of the node there."""


@dataclass(frozen=True)
class ModuleParent:
    """A module that a newborn begins from.

    Attributes:
        genotype: its architecture.
        state: its weights, by name.
        digest: SHA-256 of the blob that holds them (``training.parts``); None where there is none.
    """

    genotype: ModuleGenotype
    state: State
    digest: str | None = None


def same_nodes(child: ModuleGenotype, parent: ModuleGenotype, name: str) -> dict[str, Origin]:
    """Correspondence of nodes after a mutation: those of one id and kind. ``name`` is the parent's id."""
    kinds = {node.id: node.type for node in parent.graph.nodes}
    return {node.id: (name, node.id) for node in child.graph.nodes if kinds.get(node.id) == node.type}


def inherit(
    child: Operator,
    genotype: ModuleGenotype,
    parents: Mapping[str, ModuleParent],
    how: BirthSettings,
    correspondence: Mapping[str, Origin],
    seed: int,
    *,
    twins: float | None = None,
) -> tuple[TensorSource, ...]:
    """Fill a newborn with its parents' weights.

    Args:
        child: fresh and on the CPU, as ``build_module(genotype, seed)`` makes it; tensors that no parent hands down
            stay.
        genotype: its architecture.
        parents: id -> parent; the first is the fitter.
        how: ``inheritance``, ``keep``, ``noise`` and ``blend``.
        correspondence: node of the child -> its origin; ``same_nodes``, or ``Splice.correspondence``.
        seed: seed of the newborn, from which noise is drawn.
        twins: new units are copies of old ones that share what is read of these, with so much noise, as a multiple of a
            fresh module's spread; None for fresh units that nobody reads yet.

    Returns:
        Where each tensor is from, in the order of the child's; one that two parents blend in occurs twice.
    """
    birth = _Birth(genotype, parents, how, correspondence, seed, twins)
    with torch.no_grad():
        return tuple(source for name, tensor in child.state_dict().items() for source in birth.fill(name, tensor))


def former_places(
    child: Operator,
    genotype: ModuleGenotype,
    parents: Mapping[str, ModuleParent],
    how: BirthSettings,
    correspondence: Mapping[str, Origin],
) -> dict[str, tuple[str, tuple[Map, ...]]]:
    """Tensor -> its ancestor's name, and for each axis the indices there; arguments as for ``inherit``."""
    birth = _Birth(genotype, parents, how, correspondence, 0)
    places = {name: birth.former(name, tensor) for name, tensor in child.state_dict().items()}
    return {name: place for name, place in places.items() if place is not None}


def rebuild(
    genotype: ModuleGenotype,
    seed: int,
    tensors: Iterable[TensorSource],
    fetch: Callable[[str], State],
    *,
    before: Mapping[str, ModuleGenotype],
    how: BirthSettings,
) -> dict[str, Tensor]:
    """The weights that a newborn began with, bit for bit, from the record of its edit.

    Source: docs/spec/architect_thyself.md#edit-log.

    Args:
        genotype, seed: genotype and seed of the newborn.
        tensors: sources of the tensors in the edit.
        fetch: digest -> weights.
        before: id -> genotype of the parents, as the edit has them, in the same order.
        how: settings of the birth.

    Raises:
        DataError: the record is incomplete.
    """
    recorded = tuple(tensors)
    try:
        return _rebuilt(genotype, seed, recorded, fetch, before, how)
    except EvodevoError:
        raise
    except (LookupError, RuntimeError, StopIteration) as error:
        words = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise DataError(f"the record of a birth does not fit to the weights that it names: {words}") from None


def _rebuilt(
    genotype: ModuleGenotype,
    seed: int,
    recorded: tuple[TensorSource, ...],
    fetch: Callable[[str], State],
    before: Mapping[str, ModuleGenotype],
    how: BirthSettings,
) -> dict[str, Tensor]:
    child = build_module(genotype, seed)
    digests = {
        source.parent: source.digest for source in recorded if source.parent is not None and source.digest is not None
    }
    if any(source.rule == "bank" for source in recorded):
        child.load_state_dict(dict(fetch(next(iter(digests.values())))))
        if {source.tensor for source in recorded} != set(child.state_dict()) or len(digests) != 1:
            raise DataError("the record of a birth from the bank names other tensors than the module has.")
        return child.state_dict()
    parents = {
        name: ModuleParent(before[name], fetch(digests[name]), digests[name]) for name in before if name in digests
    }
    for parent in parents.values():
        build_module(parent.genotype, 0).load_state_dict(dict(parent.state))  # exactly its tensors, or an error
    nodes = {part_name(node.id): node.id for node in genotype.graph.nodes}
    origins: dict[str, Origin] = {}
    for source in recorded:
        if source.parent is not None and source.source is not None and source.parent in before:
            theirs = {part_name(node.id): node.id for node in before[source.parent].graph.nodes}
            origins.setdefault(nodes[_part(source.tensor)], (source.parent, theirs[_part(source.source)]))
    if inherit(child, genotype, parents, how, origins, seed) != recorded:
        raise DataError("the record of a birth does not fit to its genotypes and settings; was it edited?")
    return child.state_dict()


def _part(tensor: str) -> str:
    """Name of the part that a tensor belongs to; names of tensors are ``parts.<part>.<own name>``."""
    return tensor.split(".", 2)[1]


class _Birth:
    """The inheritance of one newborn."""

    def __init__(
        self,
        genotype: ModuleGenotype,
        parents: Mapping[str, ModuleParent],
        how: BirthSettings,
        correspondence: Mapping[str, Origin],
        seed: int,
        twins: float | None = None,
    ) -> None:
        self.parents, self.how, self.seed, self.twins = parents, how, seed, twins
        self.nodes = {node.id: node for node in genotype.graph.nodes}
        self.by_part = {part_name(name): name for name in self.nodes}
        self.origins = {name: origin for name, origin in correspondence.items() if origin[0] in parents}
        exact = how.inheritance in ("function_preserving", "split")
        recorded = {name for name in self.origins if not (self.nodes[name].joins or self.nodes[name].opaque)}
        self.silenced_sources = _silenced_sources(genotype, frozenset(recorded)) if exact and recorded else {}
        self.matches: dict[str, dict[str, Match]] = {}
        for parent, module_parent in parents.items():
            own = {name: node for name, (theirs, node) in self.origins.items() if theirs == parent and name in recorded}
            beside = Correspondence(genotype, module_parent.genotype, own)
            self.matches |= {name: beside.tensors(name) for name in own}

    def fill(self, name: str, tensor: Tensor) -> list[TensorSource]:
        """Fill one tensor; returns the sources of its numbers."""
        part = _part(name)
        node, short = self.by_part[part], name.split(".", 2)[2]
        if short in self.silenced_sources.get(node, ()):
            tensor.zero_()
            return [TensorSource(tensor=name, rule="padded")]
        ancestor = self._ancestor(node, short, tensor)
        if ancestor is None:
            return [TensorSource(tensor=name, rule="fresh")]
        match, value = ancestor
        parent, own = self.origins[node]
        digest = self.parents[parent].digest
        source = f"parts.{part_name(own)}.{match.source}"
        whole = all(places == tuple(range(len(places))) for places in match.maps) and tensor.shape == value.shape
        other = self._relative(node, short, tensor) if whole else None
        if other is not None:
            relative, second, theirs = other
            tensor.copy_(self.how.blend * value.to(tensor) + (1 - self.how.blend) * second.to(tensor))
            both = ((parent, source, digest), (relative, theirs, self.parents[relative].digest))
            return [
                TensorSource(tensor=name, rule="blended", parent=origin, source=its, digest=blob)
                for origin, its, blob in both
            ]
        rule = self._inherited(name, tensor, value, match, whole=whole)
        return [TensorSource(tensor=name, rule=rule, parent=parent, source=source, digest=digest)]

    def former(self, name: str, tensor: Tensor) -> tuple[str, tuple[Map, ...]] | None:
        """Name of a tensor's ancestor and the indices there; None for one that has none."""
        part = _part(name)
        node, short = self.by_part[part], name.split(".", 2)[2]
        if short in self.silenced_sources.get(node, ()):
            return None
        ancestor = self._ancestor(node, short, tensor)
        if ancestor is None:
            return None
        match, _ = ancestor
        return f"parts.{part_name(self.origins[node][1])}.{match.source}", match.maps

    def _ancestor(self, node: str, short: str, tensor: Tensor) -> tuple[Match, Tensor] | None:
        """Correspondence of a tensor with its ancestor, and the ancestor."""
        if node not in self.origins:
            return None
        parent, own = self.origins[node]
        state, prefix = self.parents[parent].state, f"parts.{part_name(own)}."
        match = self.matches.get(node, {}).get(short)
        if match is None and self.nodes[node].opaque and prefix + short in state:
            theirs = next(other for other in self.parents[parent].genotype.graph.nodes if other.id == own)
            if self.nodes[node].same_settings(theirs) and state[prefix + short].shape == tensor.shape:
                maps = tuple(tuple(range(size)) for size in tensor.shape)
                match = Match(short, maps, (False,) * len(maps))
        return None if match is None else (match, state[prefix + match.source])

    def _relative(self, node: str, short: str, tensor: Tensor) -> tuple[str, Tensor, str] | None:
        """The same tensor of another parent's node of one lineage: parent, tensor, its name."""
        line, kind = self.nodes[node].lineage, self.nodes[node].type
        if self.how.blend == 1 or not line or not tensor.is_floating_point():
            return None
        for name, parent in self.parents.items():
            if name == self.origins[node][0]:
                continue
            for own in parent.genotype.graph.nodes:
                source = f"parts.{part_name(own.id)}.{short}"
                if own.lineage == line and own.type == kind and source in parent.state:
                    relative = parent.state[source]
                    return (name, relative, source) if relative.shape == tensor.shape else None
        return None

    def _inherited(self, name: str, tensor: Tensor, value: Tensor, match: Match, *, whole: bool) -> _Rule:
        spread = tensor.std(correction=0) if tensor.is_floating_point() else None  # of a fresh module
        padded = _padded(tensor, value.to(tensor), match)
        how = self.how
        if spread is None or how.inheritance in ("function_preserving", "split"):
            if self.twins is not None and spread is not None and _has_twins(match):
                source = torch.Generator().manual_seed(integer_seed(self.seed, "inherit", name))
                noise = self.twins * spread * torch.randn(tensor.shape, generator=source).to(tensor)
                tensor.copy_(_twinned(padded, value.to(tensor), match, noise))
                return "twinned"
            tensor.copy_(padded)
            return "copied" if whole else "padded"
        # One stream per tensor: its noise does not depend on which other tensors are inherited.
        source = torch.Generator().manual_seed(integer_seed(self.seed, "inherit", name))
        # Drawn on the CPU: the same numbers on every device.
        noise = how.noise * spread * torch.randn(tensor.shape, generator=source).to(tensor)
        if how.inheritance == "soft":
            tensor.copy_(how.keep * padded + (1 - how.keep) * noise)
        else:
            tensor.copy_(padded + noise)
        return "blended"


def _padded(fresh: Tensor, value: Tensor, match: Match) -> Tensor:
    """The overlap from the ancestor, 0 where it would be read, fresh elsewhere."""
    if not match.maps:
        return value.clone()
    tensor = fresh.clone()
    maps = [torch.tensor(places, dtype=torch.long, device=fresh.device) for places in match.maps]
    for axis, (places, reads) in enumerate(zip(maps, match.reads, strict=True)):
        if reads:
            # New entries along an input axis are 0, so that old units compute the same as before.
            tensor.index_fill_(axis, (places < 0).nonzero().squeeze(1), 0)
    here = torch.meshgrid(*[(places >= 0).nonzero().squeeze(1) for places in maps], indexing="ij")
    there = torch.meshgrid(*[places[places >= 0] for places in maps], indexing="ij")
    tensor[here] = value[there]
    return tensor


def _has_twins(match: Match) -> bool:
    return any(entry < -1 for places in match.maps for entry in places)


def _twinned(padded: Tensor, value: Tensor, match: Match, noise: Tensor) -> Tensor:
    """New units as copies along output axes; along an input axis those that stand for one unit share its weights.

    The noise of those adds up to 0, so that their sum stays what it was.
    """
    axes = [torch.tensor([copy_of(entry) if entry < -1 else entry for entry in places]) for places in match.maps]
    here = torch.meshgrid(*[(places >= 0).nonzero().squeeze(1) for places in axes], indexing="ij")
    there = torch.meshgrid(*[places[places >= 0] for places in axes], indexing="ij")
    tensor = padded.clone()
    tensor[here] = value[there]
    for axis, (places, reads) in enumerate(zip(axes, match.reads, strict=True)):
        for unit in sorted(set(places.tolist())) if reads else ():
            alike = (places == unit).nonzero().squeeze(1)
            if unit >= 0 and len(alike) > 1:
                apart = noise.index_select(axis, alike)
                apart -= apart.mean(axis, keepdim=True)
                tensor.index_copy_(axis, alike, tensor.index_select(axis, alike) / len(alike) + apart)
    return tensor


def _silenced_sources(genotype: ModuleGenotype, inherited: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """New node -> its tensors that must be 0, so that the sum which reads it stays what it was."""
    nodes, inputs = {node.id: node for node in genotype.graph.nodes}, sources(genotype.graph)
    carrying: dict[str, bool] = {INPUT: True}

    def carries(name: str) -> bool:
        """Whether something that is not new goes through a value unchanged."""
        if name not in carrying:
            node = nodes[name]
            carrying[name] = any(carries(source) for source in inputs[name]) if node.joins else name in inherited
        return carrying[name]

    silenced_sources: dict[str, tuple[str, ...]] = {}
    for node in genotype.graph.nodes:
        if node.zero_is_neutral and carries(node.id):
            new = [source for source in inputs[node.id] if source in nodes and source not in inherited]
            silenced_sources |= {silenced: nodes[silenced].silencing_tensors for silenced in new}
    return silenced_sources
