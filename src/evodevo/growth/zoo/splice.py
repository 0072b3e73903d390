"""Hybrids of modules: a motif of one parent grafted into the other (Architect Thyself eqs. 22, 76, 77).

Source: docs/spec/architect_thyself.md#splices.

A motif is a connected part of a module's graph with one entry and one exit, so that it can replace another one.

    replace    T_child = (T_a without S_a) + S_b
    insert     T_child = T_a + S_b, beside S_a and behind a gate that starts at 0, so that nothing changes at birth

As eq. 76 is printed, S_a stays and S_b is added: that is ``insert``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from evodevo.errors import UsageError
from evodevo.growth.spec import BirthSettings
from evodevo.module_zoo.modules.graph import check_graph, graph_hash, order, sources, widths
from evodevo.module_zoo.modules.nodes.base import NodeSpec
from evodevo.module_zoo.modules.nodes.gate import GateNode
from evodevo.module_zoo.modules.nodes.joins import SumNode
from evodevo.module_zoo.modules.nodes.projection import ProjectionNode
from evodevo.module_zoo.modules.spec import HYBRID, INPUT, MAX_NODES, OUTPUT, ModuleGenotype, ModuleGraph, ZooModule
from evodevo.module_zoo.modules.zoo import crossover

MAX_EDGES = 4 * MAX_NODES
TRIES = 32
"""Draws of motifs until the child differs from both parents."""
Origin = tuple[str, str]
"""Id of a parent, and of the node there."""


@dataclass(frozen=True)
class Motif:
    """A part of a graph.

    Attributes:
        nodes: ids.
        entry: the one value outside that is read inside; a node, or ``in``.
        exit: the one node inside that is read outside.
    """

    nodes: frozenset[str]
    entry: str
    exit: str


@dataclass(frozen=True)
class Splice:
    """A hybrid, and the origins of its nodes. Nodes keep their lineage; those that no parent has begin without one.

    Attributes:
        child: a hybrid.
        kept: node of the child -> its origin in the parent that was grafted into; with recombined attributes a node may
            be the other parent's.
        grafted: node of the child -> its origin in the parent that gave the motif.
        removed: origins of the nodes that were removed; none for an ``insert``.
        projections: new nodes that bring one width to another.
        joints: the gate and the sum of an ``insert``.
    """

    child: ModuleGenotype
    kept: Mapping[str, Origin]
    grafted: Mapping[str, Origin]
    removed: tuple[Origin, ...]
    projections: tuple[str, ...]
    joints: tuple[str, ...]

    @property
    def correspondence(self) -> dict[str, Origin]:
        """Node of the child -> its origin."""
        return {**self.kept, **self.grafted}


def motifs(graph: ModuleGraph, most: int) -> tuple[Motif, ...]:
    """All motifs of at most so many nodes, small ones first.

    From each node backwards: while more than one value is read from outside, the last of them must be inside, too, and
    if a node outside reads it, there is no larger motif with this exit.
    """
    inputs = sources(graph)
    places = {name: place for place, name in enumerate([INPUT, *(node.id for node in order(graph))])}
    readers: dict[str, set[str]] = defaultdict(set)
    for begin, end in graph.edges:
        readers[begin].add(end)
    graftable = []
    for node in graph.nodes:
        inside = {node.id}
        while len(inside) <= most:
            outside = {begin for name in inside for begin in inputs[name]} - inside
            last = max(outside, key=lambda name: places[name])
            if len(outside) == 1:
                graftable.append(Motif(frozenset(inside), last, node.id))
            if last == INPUT or not readers[last] <= inside:
                break
            inside.add(last)
    return tuple(sorted(graftable, key=lambda motif: len(motif.nodes)))


def splice(
    a: ZooModule, b: ZooModule, rng: np.random.Generator, settings: BirthSettings, share: float | None = None
) -> Splice:
    """A hybrid of two modules: a with a motif of b.

    Parents of one family first recombine their attributes (eq. 77); an ``insert`` leaves them as they are, as it
    changes nothing at birth. A replacement leaves something of a that answers; where none can, as in modules of one
    node, or where none makes anything new, motifs are inserted after all.

    Args:
        share: lambda of eq. 77; drawn where it is left out.

    Raises:
        UsageError: different widths, or a parent that is too small or too large to be spliced.
    """
    if a.genotype.width != b.genotype.width:
        raise UsageError(
            f"modules of width {a.genotype.width} and {b.genotype.width} have no children; both must be of one zoo."
        )
    if settings.symmetric and rng.random() < 0.5:
        a, b = b, a
    child = _new(a, b, rng, settings, share, insert=False) if settings.splice == "replace" else None
    child = child or _new(a, b, rng, settings, share, insert=True)
    if child is None:
        raise UsageError(f"{a.id!r} and {b.id!r} are too large for a hybrid; a module has at most {MAX_NODES} nodes.")
    check_graph(child.child.graph, child.child.width)
    return child


def _new(
    a: ZooModule, b: ZooModule, rng: np.random.Generator, settings: BirthSettings, share: float | None, *, insert: bool
) -> Splice | None:
    """A hybrid that is neither of its parents, and no larger than a module may be; None where none was drawn."""
    host = a.genotype
    if not insert and host.archetype == b.genotype.archetype != HYBRID:
        host = crossover(host, b.genotype, rng, share)[0]
    parents = {graph_hash(module.genotype.graph) for module in (a, b)}
    if not insert and not _parts(host.graph, settings):
        return None
    for _ in range(TRIES):
        out = _drawn(host.graph, a.id, rng, settings, whole=insert)
        graft = _drawn(b.genotype.graph, b.id, rng, settings)
        spliced = _Splicing(host, out, a, b, graft).spliced(insert=insert)
        graph = spliced.child.graph
        small = len(graph.nodes) <= MAX_NODES and len(graph.edges) <= MAX_EDGES
        if small and graph_hash(graph) not in parents:
            return spliced
    return None


def _parts(graph: ModuleGraph, settings: BirthSettings) -> list[Motif]:
    """Motifs beside which something that answers is left: a parent of which nothing, or a norm, stays is none."""
    answering = {node.id for node in graph.nodes if node.computes}
    return [motif for motif in motifs(graph, settings.motif) if not answering <= motif.nodes]


def _drawn(
    graph: ModuleGraph, name: str, rng: np.random.Generator, settings: BirthSettings, *, whole: bool = True
) -> Motif:
    """Every size is as likely as every other, and every motif of a size; not ``whole``: of ``_parts``."""
    candidates = motifs(graph, settings.motif) if whole else tuple(_parts(graph, settings))
    if not candidates:
        raise UsageError(f"the module {name!r} has no nodes, and so no motif to splice.")
    sizes = sorted({len(motif.nodes) for motif in candidates})
    size = sizes[int(rng.integers(len(sizes)))]
    alike = [motif for motif in candidates if len(motif.nodes) == size]
    return alike[int(rng.integers(len(alike)))]


class _Splicing:
    """One splice: the host, of parent a, with the motif ``out``; the motif ``graft`` of parent b."""

    def __init__(self, host: ModuleGenotype, out: Motif, a: ZooModule, b: ZooModule, graft: Motif) -> None:
        self.host, self.out, self.a, self.b, self.graft = host, out, a, b, graft
        self.taken = {INPUT, OUTPUT, *(node.id for node in host.graph.nodes)}
        self.nodes: list[NodeSpec] = []
        self.edges: list[tuple[str, str]] = []
        self.projections: list[str] = []

    def spliced(self, *, insert: bool) -> Splice:
        """The child."""
        host, out, graph = self.host, self.out, self.host.graph
        gone: frozenset[str] = frozenset() if insert else out.nodes
        grafted, last = self._grafted()
        joints: tuple[str, ...] = ()
        if insert:
            gate, joint = self._free("graft-gate"), self._free("graft-sum")
            self.nodes += [GateNode(id=gate, start=0.0), SumNode(id=joint)]
            self.edges += [(last, gate), (out.exit, joint), (gate, joint)]
            joints, last = (gate, joint), joint
        outside = [edge for edge in graph.edges if edge[1] not in gone]
        instead = [(last if begin == out.exit and end not in out.nodes else begin, end) for begin, end in outside]
        # Not validated: a graph beyond the limits is refused by ``_new``, which draws again.
        child = ModuleGraph.model_construct(
            nodes=(*(node for node in graph.nodes if node.id not in gone), *self.nodes),
            edges=(*instead, *self.edges),
        )
        return Splice(
            child=ModuleGenotype(archetype=HYBRID, width=host.width, graph=child),
            kept={name: origin for name, origin in self._origins().items() if name not in gone},
            grafted={name: (self.b.id, own) for own, name in grafted.items()},
            removed=tuple((self.a.id, name) for name in sorted(gone)),
            projections=tuple(self.projections),
            joints=joints,
        )

    def _grafted(self) -> tuple[dict[str, str], str]:
        """Node of b -> node of the child; and the value that replaces the motif's exit."""
        graft, graph = self.graft, self.b.genotype.graph
        names = {node.id: self._free(node.id) for node in graph.nodes if node.id in graft.nodes}
        here = {INPUT: self.host.width, **widths(self.host.graph, self.host.width)}
        there = {INPUT: self.host.width, **widths(graph, self.host.width)}
        self.nodes += [node.model_copy(update={"id": names[node.id]}) for node in graph.nodes if node.id in graft.nodes]
        entry = self._projected("graft-in", self.out.entry, here[self.out.entry], there[graft.entry])
        begins = {**names, graft.entry: entry}
        self.edges += [(begins[begin], names[end]) for begin, end in graph.edges if end in names]
        last = self._projected("graft-out", names[graft.exit], there[graft.exit], here[self.out.exit])
        return names, last

    def _projected(self, name: str, begin: str, given: int, wanted: int) -> str:
        """The value itself where its width is the one that is wanted."""
        if given == wanted:
            return begin
        name = self._free(name)
        self.nodes.append(ProjectionNode(id=name, width=wanted))
        self.edges.append((begin, name))
        self.projections.append(name)
        return name

    def _free(self, name: str) -> str:
        """An id that no node has, nor had in the host: a removed node is not to be mistaken for a new one."""
        free = _free(name, self.taken)
        self.taken.add(free)
        return free

    def _origins(self) -> dict[str, Origin]:
        """Node of the host -> its origin: in a, or where attributes were recombined, in b."""
        origins: dict[str, Origin] = {}
        for module in (self.b, self.a):
            kinds = {node.id: node.type for node in module.genotype.graph.nodes}
            recombined = self.host is not self.a.genotype
            if module is self.a or recombined:
                own = [node.id for node in self.host.graph.nodes if kinds.get(node.id) == node.type]
                origins |= {name: (module.id, name) for name in own}
        return origins


def _free(name: str, taken: Collection[str]) -> str:
    if name not in taken:
        return name
    stem, number = name.rsplit("-g", 1)[0][:32], 1
    while f"{stem}-g{number}" in taken:
        number += 1
    return f"{stem}-g{number}"
