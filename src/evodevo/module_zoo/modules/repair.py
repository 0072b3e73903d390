"""From any graph to one that is a module: what makes no sense goes, and projections come where channels differ."""

from __future__ import annotations

from evodevo.errors import GenomeError
from evodevo.module_zoo.modules.graph import check_graph, order, reaching, sources
from evodevo.module_zoo.modules.nodes.base import MAX_CHANNELS, NodeSpec
from evodevo.module_zoo.modules.nodes.projection import ProjectionNode
from evodevo.module_zoo.modules.spec import INPUT, MAX_NODES, OUTPUT, ModuleGraph

MAX_EDGES = 4 * MAX_NODES
Edge = tuple[str, str]


def repair_graph(graph: ModuleGraph, width: int) -> ModuleGraph:
    """The graph itself if it is valid, else a valid one near it.

    Of two nodes with one id the first stays, of several edges into a node that reads one value the first, and no edge
    that closes a cycle. Nodes without an input or without a way to ``out`` go. Where ``out`` has no input, it reads the
    last node. Heads become the largest number below that divides the channels; a layer that cannot be at its channels
    goes; projections bring summands to the width of the first, and the module's output to d.

    Raises:
        NotFoundError, DataError: files of a pretrained layer are not there or not readable.
    """
    try:
        check_graph(graph, width)
    except GenomeError:
        return _fitted(_connected(graph), width)
    return graph


def _connected(graph: ModuleGraph) -> ModuleGraph:
    """Edges that make sense, and the nodes from and to which a way leads."""
    nodes: dict[str, NodeSpec] = {}
    for node in graph.nodes[: MAX_NODES - 1]:  # room for one projection
        if node.id not in (INPUT, OUTPUT):
            nodes.setdefault(node.id, node)
    kept = _restricted(nodes, _sensible(graph.edges, nodes))
    if not sources(kept)[OUTPUT]:
        walked = order(kept)
        last = walked[-1].id if walked else INPUT
        kept = ModuleGraph(nodes=kept.nodes, edges=(*kept.edges, (last, OUTPUT)))
    leading_to_output = reaching(sources(kept), OUTPUT)
    return ModuleGraph(
        nodes=tuple(node for node in kept.nodes if node.id in leading_to_output),
        edges=tuple(edge for edge in kept.edges if edge[1] in leading_to_output),
    )


def _sensible(edges: tuple[Edge, ...], nodes: dict[str, NodeSpec]) -> dict[str, list[str]]:
    """Reader -> its sources: edges between nodes that are there, as many as it reads, and without cycles."""
    inputs: dict[str, list[str]] = {name: [] for name in (*nodes, OUTPUT)}
    for begin, end in edges[: MAX_EDGES - 2]:  # room for a projection before ``out``
        known = (begin == INPUT or begin in nodes) and end in inputs
        if not known or begin in inputs[end] or (inputs[end] and (end == OUTPUT or not nodes[end].joins)):
            continue
        if end not in reaching(inputs, begin):
            inputs[end].append(begin)
    return inputs


def _restricted(nodes: dict[str, NodeSpec], inputs: dict[str, list[str]]) -> ModuleGraph:
    """Those to which a way leads from ``in``."""
    readers: dict[str, list[str]] = {}
    for end, begins in inputs.items():
        for begin in begins:
            readers.setdefault(begin, []).append(end)
    reached_from_input = reaching(readers, INPUT)
    return ModuleGraph(
        nodes=tuple(node for node in nodes.values() if node.id in reached_from_input),
        edges=tuple(
            (begin, end) for end, begins in inputs.items() for begin in begins if {begin, end} <= reached_from_input
        ),
    )


class _Fitting:
    """A graph that grows node by node, each at channels where it can be."""

    def __init__(self, graph: ModuleGraph, width: int) -> None:
        self.nodes: list[NodeSpec] = []
        self.edges: list[Edge] = []
        self.channels = {INPUT: width}
        self.replacement = {INPUT: INPUT}  # a removed node is replaced by its source
        self.taken = {node.id for node in graph.nodes}
        # One node and one edge stay free for a projection before ``out``.
        self.spare_nodes = MAX_NODES - 1 - len(graph.nodes)
        self.spare_edges = MAX_EDGES - 1 - len(graph.edges)

    def add(self, node: NodeSpec, begins: list[str]) -> None:
        """Add a node that reads the replacements of these nodes."""
        given = list(dict.fromkeys(self.replacement[begin] for begin in begins))
        if node.joins:
            given = self._side_by_side(given) if node.side_by_side else self._of_one_width(given)
        fitting = node.fitted(self.channels[given[0]])
        if fitting is None:
            self.replacement[node.id] = given[0]
            return
        self._put(fitting, given)

    def _put(self, node: NodeSpec, given: list[str]) -> None:
        self.nodes.append(node)
        self.edges += [(begin, node.id) for begin in given]
        self.channels[node.id] = node.answer_width([self.channels[begin] for begin in given])
        self.replacement[node.id] = node.id

    def project(self, begin: str, width: int) -> str:
        """The id of a new projection of a value."""
        number = 1
        while f"fit-{number}" in self.taken:
            number += 1
        node = ProjectionNode(id=f"fit-{number}", width=width)
        self.taken.add(node.id)
        self._put(node, [begin])
        return node.id

    def _of_one_width(self, given: list[str]) -> list[str]:
        wanted = self.channels[given[0]]
        projected = []
        for begin in given:
            if self.channels[begin] == wanted:
                projected.append(begin)
            elif self.spare_nodes > 0 and self.spare_edges > 0:
                # Without room for a projection, a summand of another width is left out.
                self.spare_nodes -= 1
                self.spare_edges -= 1
                projected.append(self.project(begin, wanted))
        return projected

    def _side_by_side(self, given: list[str]) -> list[str]:
        pieces, total = [], 0
        for begin in given:
            if total + self.channels[begin] <= MAX_CHANNELS:
                pieces.append(begin)
                total += self.channels[begin]
        return pieces


def _fitted(graph: ModuleGraph, width: int) -> ModuleGraph:
    inputs, fitting = sources(graph), _Fitting(graph, width)
    for node in order(graph):
        fitting.add(node, inputs[node.id])
    last = fitting.replacement[inputs[OUTPUT][0]]
    if fitting.channels[last] != width:
        last = fitting.project(last, width)
    fitting.edges.append((last, OUTPUT))
    # A value that a sum or concat had no room for may now reach nothing.
    leading_to_output = reaching(sources(ModuleGraph(nodes=tuple(fitting.nodes), edges=tuple(fitting.edges))), OUTPUT)
    return ModuleGraph(
        nodes=tuple(node for node in fitting.nodes if node.id in leading_to_output),
        edges=tuple(edge for edge in fitting.edges if edge[1] in leading_to_output),
    )
