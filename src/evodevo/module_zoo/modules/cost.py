"""What a module of a zoo costs: exact parameters, and the work of one call on one sample.

``build.py`` builds exactly these parameters; tests recount them, and the products. A counter alone would
not do: PyTorch's gives 0 for fused attention and for an LSTM.

Legend: L positions, w channels that a node reads, h hidden units, k taps.
"""

from __future__ import annotations

from evodevo.module_zoo.modules.graph import sources, widths
from evodevo.module_zoo.modules.spec import (
    INPUT,
    AttentionNode,
    ConvolutionNode,
    FeedForwardNode,
    GateNode,
    LayerNode,
    LSTMNode,
    ModuleGenotype,
    Node,
    NormNode,
    ProjectionNode,
    SqueezeExciteNode,
)
from evodevo.operators.layers.cost import Work, layer_parameters, layer_work, total_work


def genotype_parameters(genotype: ModuleGenotype) -> int:
    """Trainable numbers of a module.

    Raises:
        GenomeError: the graph cannot be built.
    """
    return sum(node_parameters(node, given) for node, given in _nodes(genotype))


def genotype_work(genotype: ModuleGenotype, length: int) -> Work:
    """FLOPs of one call on one sample of L real positions, all that is computed.

    Raises:
        GenomeError: the graph cannot be built.
    """
    return total_work(node_work(node, given, length) for node, given in _nodes(genotype))


def _nodes(genotype: ModuleGenotype) -> list[tuple[Node, int]]:
    """Each node with the channels that it reads, those of its first input."""
    found = {INPUT: genotype.width, **widths(genotype.graph, genotype.width)}
    inputs = sources(genotype.graph)
    return [(node, found[inputs[node.id][0]]) for node in genotype.graph.nodes]


def looks_at_others(node: Node) -> bool:
    """Whether what a node answers at a position depends on other positions: such a node is not causal."""
    if isinstance(node, ConvolutionNode):
        return node.kernel > 1
    return isinstance(node, AttentionNode | LSTMNode | SqueezeExciteNode | LayerNode)


def squeezed(node: SqueezeExciteNode, w: int) -> int:
    """Units between squeezing and exciting."""
    return max(1, w // node.reduction)


def node_parameters(node: Node, w: int) -> int:
    """Parameters of a node that reads w channels."""
    if isinstance(node, AttentionNode):
        return 4 * w * w + 4 * w
    if isinstance(node, FeedForwardNode):
        return 2 * w * node.hidden + node.hidden + w
    if isinstance(node, ConvolutionNode):
        return node.kernel * w * node.width + node.width
    if isinstance(node, ProjectionNode):
        return w * node.width + node.width
    if isinstance(node, LSTMNode):
        biases = 8 * _directions(node) * node.hidden * node.layers
        return _lstm_weights(node, w) + biases + _directions(node) * node.hidden * w + w
    if isinstance(node, SqueezeExciteNode):
        return 2 * w * squeezed(node, w) + squeezed(node, w) + w
    if isinstance(node, LayerNode):
        return layer_parameters(node.layer, w, causal=False)
    return 2 * w if isinstance(node, NormNode) else w if isinstance(node, GateNode) else 0


def node_work(node: Node, w: int, length: int) -> Work:
    """Work of a node that reads w channels at L positions."""
    if isinstance(node, AttentionNode):
        return Work(8 * length * w * w + 4 * length * length * w)
    if isinstance(node, FeedForwardNode):
        return Work(4 * length * w * node.hidden)
    if isinstance(node, ConvolutionNode):
        return Work(2 * length * node.kernel * w * node.width)
    if isinstance(node, ProjectionNode):
        return Work(2 * length * w * node.width)
    if isinstance(node, LSTMNode):
        return Work(2 * length * (_lstm_weights(node, w) + _directions(node) * node.hidden * w))
    if isinstance(node, SqueezeExciteNode):
        return Work(4 * w * squeezed(node, w), length * w)
    if isinstance(node, LayerNode):
        return layer_work(node.layer, w, length, causal=False, visible=False)
    return Work(0, length * w) if isinstance(node, GateNode) else Work()


def _directions(node: LSTMNode) -> int:
    return 2 if node.both_ways else 1


def _lstm_weights(node: LSTMNode, w: int) -> int:
    """Numbers in all matrices of the gates; a later layer reads every direction of the one before."""
    total = 0
    for _ in range(node.layers):
        total += 4 * _directions(node) * node.hidden * (w + node.hidden)
        w = _directions(node) * node.hidden
    return total
