"""Which numbers of a newborn's tensors are which of its parent's: per node, tensor by tensor and axis by axis.

An axis of a tensor either answers or reads. What is new along an axis that answers (a hidden unit) may be anything;
what is new along an axis that reads (its outgoing weights, a tap of a kernel) must be 0, for the old units to answer as
before.

Legend: w channels, h hidden units, a map is for each place of the newborn the place of the parent, or -1 for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evodevo.module_zoo.modules.cost import squeezed
from evodevo.module_zoo.modules.graph import sources, widths
from evodevo.module_zoo.modules.spec import (
    INPUT,
    AttentionNode,
    ConcatNode,
    ConvolutionNode,
    FeedForwardNode,
    GateNode,
    LSTMNode,
    ModuleGenotype,
    Node,
    NormNode,
    ProjectionNode,
    SqueezeExciteNode,
    SumNode,
)

Map = tuple[int, ...]


@dataclass(frozen=True)
class Match:
    """A tensor and its ancestor.

    Attributes:
        source: name of the ancestor among those of its node.
        maps: of each axis.
        reads: of each axis, whether it reads.
    """

    source: str
    maps: tuple[Map, ...]
    reads: tuple[bool, ...]


class Correspondence:
    """A newborn's graph beside one parent's.

    Args:
        child, parent: genotypes.
        origins: node of the child -> node of this parent. Sums, concats and layers of the library need none: what
            a record says of tensors is enough.
    """

    def __init__(self, child: ModuleGenotype, parent: ModuleGenotype, origins: Mapping[str, str]) -> None:
        self.origins = origins
        self._nodes = tuple({node.id: node for node in one.graph.nodes} for one in (child, parent))
        self._inputs = tuple(sources(one.graph) for one in (child, parent))
        self._widths = tuple({INPUT: one.width, **widths(one.graph, one.width)} for one in (child, parent))
        self._known: dict[tuple[str, str], Map] = {}

    def tensors(self, name: str) -> dict[str, Match]:
        """Tensor of a node of the child -> its ancestor; nothing where the nodes differ in kind, or have none.

        Layers of the library correspond as a whole or not at all; see ``same_layer``.
        """
        node, own = self._nodes[0][name], self._nodes[1][self.origins[name]]
        begin, given = self._inputs[0][name][0], self._inputs[1][own.id][0]
        return _tensors(node, own, self._channels(begin, given), (self._widths[0][begin], self._widths[1][given]))

    def _channels(self, value: str, own: str) -> Map:
        """Channels of a value of the child -> those of a value of the parent."""
        pair = (value, own)
        if pair not in self._known:
            self._known[pair] = self._mapped(value, own)
        return self._known[pair]

    def _mapped(self, value: str, own: str) -> Map:
        count, theirs = self._widths[0][value], self._widths[1][own]
        here, there = self._nodes[0].get(value), self._nodes[1].get(own)
        if isinstance(here, ConcatNode) and isinstance(there, ConcatNode):
            return self._side_by_side(value, own)
        both_sum = isinstance(here, SumNode) and isinstance(there, SumNode)
        keeps = here is not None and not isinstance(here, ConvolutionNode | ProjectionNode | ConcatNode)
        if both_sum or (keeps and self.origins.get(value) == own):
            return self._channels(self._inputs[0][value][0], self._inputs[1][own][0])
        return leading(count, theirs)

    def _side_by_side(self, value: str, own: str) -> Map:
        starts, start = {}, 0
        for part in self._inputs[1][own]:
            starts[part] = start
            start += self._widths[1][part]
        parts, others = self._inputs[0][value], self._inputs[1][own]
        claimed = {self.origins[part] for part in parts if part in self.origins}
        found: list[int] = []
        for place, part in enumerate(parts):
            theirs = self.origins.get(part)
            if theirs is None and len(parts) == len(others) and others[place] not in claimed:
                theirs = others[place]
            if theirs in starts:
                found += [one + starts[theirs] if one >= 0 else -1 for one in self._channels(part, theirs)]
            else:
                found += [-1] * self._widths[0][part]
        return tuple(found)


def leading(count: int, theirs: int) -> Map:
    """The first of both are the same."""
    return tuple(place if place < theirs else -1 for place in range(count))


def centred(taps: int, theirs: int) -> Map:
    """Both kernels have one middle."""
    shift = (taps - theirs) // 2
    return tuple(tap - shift if 0 <= tap - shift < theirs else -1 for tap in range(taps))


def repeated(one: Map, times: int, theirs: int, count: int) -> Map:
    """Some equal blocks, one after the other: gates, directions.

    Args:
        one: of a block.
        times: blocks of the newborn.
        theirs: length of a block of the parent.
        count: blocks of the parent.
    """
    return tuple(
        place + block * theirs if place >= 0 and block < count else -1 for block in range(times) for place in one
    )


def _affine(name: str, out: Map, read: Map, *, source: str | None = None) -> dict[str, Match]:
    source = name if source is None else source
    return {
        f"{name}.weight": Match(f"{source}.weight", (out, read), (False, True)),
        f"{name}.bias": Match(f"{source}.bias", (out,), (False,)),
    }


def _tensors(node: Node, own: Node, w: Map, channels: tuple[int, int]) -> dict[str, Match]:
    if isinstance(node, AttentionNode) and isinstance(own, AttentionNode):
        return _affine("project", repeated(w, 3, channels[1], 3), w) | _affine("out", w, w)
    if isinstance(node, FeedForwardNode) and isinstance(own, FeedForwardNode):
        hidden = leading(node.hidden, own.hidden)
        here, there = ("inside." if one.outer == "sigmoid" else "" for one in (node, own))
        return _affine(f"{here}inner", hidden, w, source=f"{there}inner") | _affine(
            f"{here}outer", w, hidden, source=f"{there}outer"
        )
    if isinstance(node, ConvolutionNode) and isinstance(own, ConvolutionNode):
        out, taps = leading(node.width, own.width), centred(node.kernel, own.kernel)
        weight = Match("convolution.weight", (out, w, taps), (False, True, True))
        return {"convolution.weight": weight, "convolution.bias": Match("convolution.bias", (out,), (False,))}
    if isinstance(node, ProjectionNode) and isinstance(own, ProjectionNode):
        return _affine("map", leading(node.width, own.width), w)
    if isinstance(node, SqueezeExciteNode) and isinstance(own, SqueezeExciteNode):
        units = leading(squeezed(node, channels[0]), squeezed(own, channels[1]))
        return _affine("squeeze", units, w) | _affine("excite", w, units)
    if isinstance(node, NormNode) and isinstance(own, NormNode):
        return {f"norm.{one}": Match(f"norm.{one}", (w,), (False,)) for one in ("weight", "bias")}
    if isinstance(node, GateNode) and isinstance(own, GateNode):
        return {"weight": Match("weight", (w,), (False,))}
    if isinstance(node, LSTMNode) and isinstance(own, LSTMNode):
        return _recurrent(node, own, w)
    return {}


def _recurrent(node: LSTMNode, own: LSTMNode, w: Map) -> dict[str, Match]:
    hidden, ways, theirs = leading(node.hidden, own.hidden), 1 + node.both_ways, 1 + own.both_ways
    gates, states = repeated(hidden, 4, own.hidden, 4), repeated(hidden, ways, own.hidden, theirs)
    found = _affine("out", w, states)
    for layer in range(min(node.layers, own.layers)):
        for way in ("", "_reverse")[: min(ways, theirs)]:
            end = f"l{layer}{way}"
            read = w if layer == 0 else states
            found[f"lstm.weight_ih_{end}"] = Match(f"lstm.weight_ih_{end}", (gates, read), (False, True))
            found[f"lstm.weight_hh_{end}"] = Match(f"lstm.weight_hh_{end}", (gates, hidden), (False, True))
            for bias in ("bias_ih", "bias_hh"):
                found[f"lstm.{bias}_{end}"] = Match(f"lstm.{bias}_{end}", (gates,), (False,))
    return found
