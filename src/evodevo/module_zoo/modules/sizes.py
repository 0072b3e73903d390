"""Larger modules: what wider and deeper is, by family and by kind of node, so that what is there can stay as it is.

Members of a family follow from their attributes: the family names the one that is its width or depth. Of a hybrid each
node that has units gets more of them. ``growth/zoo/birth`` fills the larger module so that it answers as before.
"""

from __future__ import annotations

from collections import defaultdict

from evodevo.errors import GenomeError, UsageError
from evodevo.module_zoo.modules.families import ARCHETYPES, Dimension, member
from evodevo.module_zoo.modules.graph import check_graph, widths
from evodevo.module_zoo.modules.nodes.base import NodeSpec
from evodevo.module_zoo.modules.spec import HYBRID, OUTPUT, ModuleGenotype, ModuleGraph
from evodevo.module_zoo.modules.zoo import descended


def wider(genotype: ModuleGenotype, factor: float) -> ModuleGenotype:
    """The module with about ``factor`` times as many units.

    Raises:
        UsageError: it has no units, or as many as it may have.
    """
    if genotype.archetype == HYBRID:
        return _wider_nodes(genotype, factor)
    return _enlarged(genotype, "width", factor)


def deeper(genotype: ModuleGenotype) -> ModuleGenotype:
    """The module with a further block behind the others.

    Raises:
        UsageError: it has no blocks, as many as it may have, or nothing that goes past them.
    """
    if genotype.archetype == HYBRID:
        raise UsageError("a hybrid has no depth: its graph is free")
    return _enlarged(genotype, "depth", 2.0)


def _enlarged(genotype: ModuleGenotype, what: str, factor: float) -> ModuleGenotype:
    if genotype.archetype not in ARCHETYPES:
        raise UsageError(f"a module of kind {genotype.archetype!r} is of no family, and so has no {what}")
    family = ARCHETYPES.get(genotype.archetype)
    dimension: Dimension = family.width if what == "width" else family.depth
    if not dimension.attribute:
        raise UsageError(f"{genotype.archetype} has no {what} to enlarge: {dimension.without}")
    for (name, value), reason in dimension.unless.items():
        if genotype.attributes.get(name) == value:
            raise UsageError(f"{genotype.archetype} has no {what} to enlarge: {reason}")
    kind, value = family.attributes[dimension.attribute], genotype.attributes[dimension.attribute]
    larger = kind.stepped(value, genotype.width, factor, up=not dimension.fewer)
    if larger is None:
        raise UsageError(f"{dimension.attribute.replace('_', ' ')} {value} is the most that {genotype.archetype} has")
    child = member(genotype.archetype, genotype.width, {**genotype.attributes, dimension.attribute: larger})
    return descended(child, genotype)


def _wider_nodes(genotype: ModuleGenotype, factor: float) -> ModuleGenotype:
    graph, channels = genotype.graph, widths(genotype.graph, genotype.width)
    for place, node in enumerate(graph.nodes):
        larger = node.widened(channels[node.id], factor)
        if larger is None or not _unheard(graph, node, larger, channels[node.id]):
            continue
        changed = graph.model_copy(update={"nodes": (*graph.nodes[:place], larger, *graph.nodes[place + 1 :])})
        try:
            check_graph(changed, genotype.width)
        except GenomeError:
            continue
        graph = changed
    if graph is genotype.graph:
        raise UsageError("no node of this hybrid can have more units without a change of what the module answers")
    return genotype.model_copy(update={"graph": graph})


def _unheard(graph: ModuleGraph, node: NodeSpec, larger: NodeSpec, width: int) -> bool:
    """Whether those that read a node can leave out what it answers in addition."""
    if larger.answer_width([width]) == node.answer_width([width]):
        return True
    nodes, readers = {other.id: other for other in graph.nodes}, defaultdict[str, list[str]](list)
    for begin, end in graph.edges:
        readers[begin].append(end)

    def leaves_out(name: str) -> bool:
        return all(
            end != OUTPUT and (nodes[end].reads_more or (nodes[end].side_by_side and leaves_out(end)))
            for end in readers[name]
        )

    return leaves_out(node.id)
