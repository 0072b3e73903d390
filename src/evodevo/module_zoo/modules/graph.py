"""Properties of a module's graph: validity, order of execution, width of each value, and hash.

Legend: d width of the zoo, w channels of one value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evodevo import canonical
from evodevo.errors import GenomeError, quoted_list
from evodevo.module_zoo.modules.nodes.base import NodeSpec
from evodevo.module_zoo.modules.spec import INPUT, OUTPUT, ModuleGenotype, ModuleGraph


def check_graph(graph: ModuleGraph, width: int) -> None:
    """Raise ``GenomeError`` where a graph is none of a module of width d; the message names node, value and what is
    allowed. ``NotFoundError`` and ``DataError`` come from files of pretrained layers alone.
    """
    ids = [node.id for node in graph.nodes]
    for name in ids:
        if name in (INPUT, OUTPUT):
            raise GenomeError(f"a node has the id {name!r}, an end of every graph; give it another.")
        if ids.count(name) > 1:
            raise GenomeError(f"the id {name!r} is on {ids.count(name)} nodes; each has its own.")
    _check_edges(graph, frozenset(ids))
    inputs = sources(graph)
    for node in graph.nodes:
        count = len(inputs[node.id])
        if count == 0:
            raise GenomeError(f"node {node.id!r} ({node.type}) has no input; give it an edge that ends there.")
        if count > 1 and not node.joins:
            raise GenomeError(
                f"node {node.id!r} ({node.type}) has {count} edges that end there; it reads one. "
                "Put a sum or a concat before it."
            )
    if len(inputs[OUTPUT]) != 1:
        raise GenomeError(f"{OUTPUT!r} has {len(inputs[OUTPUT])} edges that end there; exactly one is wanted.")
    order(graph)
    leading_to_output = reaching(inputs, OUTPUT)
    for name in ids:
        if name not in leading_to_output:
            raise GenomeError(f"node {name!r} does not reach {OUTPUT!r}; connect it or leave it out.")
    last = inputs[OUTPUT][0]
    answered = {INPUT: width, **widths(graph, width)}[last]
    if answered != width:
        raise GenomeError(
            f"the module answers with {answered} channels, of {last!r}, and its zoo has {width}; "
            f"put a projection to {width} before {OUTPUT!r}."
        )


def _check_edges(graph: ModuleGraph, ids: frozenset[str]) -> None:
    seen: set[tuple[str, str]] = set()
    for edge in graph.edges:
        begin, end = edge
        if begin not in ids and begin != INPUT:
            raise GenomeError(f"an edge begins at {begin[:80]!r}; nodes are {_names(ids)}, or {INPUT!r}.")
        if end not in ids and end != OUTPUT:
            raise GenomeError(f"an edge ends at {end[:80]!r}; nodes are {_names(ids)}, or {OUTPUT!r}.")
        if edge in seen:
            raise GenomeError(f"the edge from {begin!r} to {end!r} occurs twice; once is enough.")
        seen.add(edge)


def _names(ids: frozenset[str]) -> str:
    some = sorted(ids)[:20]
    return quoted_list(some) + (", …" if len(ids) > len(some) else "") if some else "none"


# Walking


def sources(graph: ModuleGraph) -> dict[str, list[str]]:
    """Id of a node, or ``out`` -> ids of the nodes that it reads, in the order of the edges."""
    inputs: dict[str, list[str]] = {name: [] for name in (*(node.id for node in graph.nodes), OUTPUT)}
    for begin, end in graph.edges:
        inputs[end].append(begin)
    return inputs


def reaching(inputs: Mapping[str, Sequence[str]], end: str) -> frozenset[str]:
    """All from which a way leads to ``end``, itself included."""
    reached, waiting = {end}, [end]
    while waiting:
        for name in inputs.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return frozenset(reached)


def order(graph: ModuleGraph) -> tuple[NodeSpec, ...]:
    """Nodes so that each comes after all that it reads; among those that could be next, the first of ``graph.nodes``.

    Raises:
        GenomeError: a cycle; the message names it.
    """
    inputs = sources(graph)
    done, waiting = {INPUT}, list(graph.nodes)
    ordered: list[NodeSpec] = []
    while waiting:
        following = next((node for node in waiting if done.issuperset(inputs[node.id])), None)
        if following is None:
            raise GenomeError(f"the nodes {_cycle(inputs, done, waiting[0].id)} form a cycle; take an edge away.")
        waiting.remove(following)
        done.add(following.id)
        ordered.append(following)
    return tuple(ordered)


def _cycle(inputs: Mapping[str, Sequence[str]], done: set[str], name: str) -> str:
    """Follows what is not done backwards until a node comes again."""
    way = [name]
    while True:
        name = next(source for source in inputs[way[-1]] if source not in done)
        if name in way:
            return " ← ".join([*way[way.index(name) :], name])
        way.append(name)


# Channels


def widths(graph: ModuleGraph, width: int) -> dict[str, int]:
    """Id of a node -> channels of its output, in a module that reads d channels.

    Raises:
        GenomeError: a cycle, or a node that cannot be at the channels that reach it.
    """
    inputs, channels = sources(graph), {INPUT: width}
    for node in order(graph):
        channels[node.id] = node.answer_width([channels[source] for source in inputs[node.id]])
    del channels[INPUT]
    return channels


# Names


def graph_hash(graph: ModuleGraph) -> str:
    """64 hexadecimal digits: equal for graphs that differ in ids, lineage, or the order of nodes and edges only.

    (The order in which a ``concat`` reads does count.) Nodes get a colour from what they are, then again and again from
    the colours of all that they read and that read them (Weisfeiler and Leman 1968). Nodes that stay alike are singled
    out one after the other, which separates graphs that colours alone do not.

    Raises:
        GenomeError: an edge with an unknown end.
    """
    _check_edges(graph, frozenset(node.id for node in graph.nodes))
    start = {INPUT: "in", OUTPUT: "out"} | {
        node.id: canonical.digest(node.model_dump(mode="json", exclude={"id", "lineage"})) for node in graph.nodes
    }
    neighbours = _neighbours(graph)
    colours = _refined(start, neighbours)
    marks = [sorted(colours.values())]
    values = list(colours.values())
    for name, colour in colours.items():
        if values.count(colour) > 1:
            marks.append(sorted(_refined(colours | {name: "this one"}, neighbours).values()))
    return canonical.digest([marks[0], sorted(marks[1:])])


def genotype_hash(genotype: ModuleGenotype) -> str:
    """64 hexadecimal digits, equal for genotypes that build the same module."""
    return canonical.digest([genotype.width, graph_hash(genotype.graph)])


def _neighbours(graph: ModuleGraph) -> dict[str, list[tuple[str, str]]]:
    """NodeSpec -> its neighbours, each with what it is to it: read at a place, or reader at a place."""
    neighbours: dict[str, list[tuple[str, str]]] = {name: [] for name in (INPUT, OUTPUT, *(n.id for n in graph.nodes))}
    places = {node.id: 0 for node in graph.nodes if node.ordered}
    for begin, end in graph.edges:
        place = places.get(end, 0)
        if end in places:
            places[end] += 1
        neighbours[end].append((f"reads {place}", begin))
        neighbours[begin].append((f"is read {place}", end))
    return neighbours


def _refined(colours: dict[str, str], neighbours: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, str]:
    """The colours, refined until their number stays."""
    while True:
        finer = {
            name: canonical.digest([colour, sorted([role, colours[other]] for role, other in neighbours[name])])
            for name, colour in colours.items()
        }
        if len(set(finer.values())) == len(set(colours.values())):
            return finer
        colours = finer
