"""Correspondence of channels and tensors of a newborn's graph with those of one parent's.

Correspondence within one node is defined by its kind: ``module_zoo/modules/nodes/inheritance``.
"""

from __future__ import annotations

from collections.abc import Mapping

from evodevo.module_zoo.modules.graph import sources, widths
from evodevo.module_zoo.modules.nodes.inheritance import Map, Match, leading, shifted
from evodevo.module_zoo.modules.spec import INPUT, ModuleGenotype


class Correspondence:
    """A newborn's graph beside one parent's.

    Args:
        child, parent: genotypes.
        origins: node of the child -> node of this parent. Sums, concats and layers of the library need none: the record
            of their tensors is enough.
    """

    def __init__(self, child: ModuleGenotype, parent: ModuleGenotype, origins: Mapping[str, str]) -> None:
        self.origins = origins
        self._nodes = tuple({node.id: node for node in genotype.graph.nodes} for genotype in (child, parent))
        self._inputs = tuple(sources(genotype.graph) for genotype in (child, parent))
        self._widths = tuple(
            {INPUT: genotype.width, **widths(genotype.graph, genotype.width)} for genotype in (child, parent)
        )
        self._known: dict[tuple[str, str], Map] = {}

    def tensors(self, name: str) -> dict[str, Match]:
        """Tensor of a node of the child -> its ancestor; nothing where the nodes differ in kind, or have none.

        Layers of the library correspond as a whole or not at all; see ``same_layer``.
        """
        node, own = self._nodes[0][name], self._nodes[1][self.origins[name]]
        begin, given = self._inputs[0][name][0], self._inputs[1][own.id][0]
        if node.type != own.type:
            return {}
        return node.tensor_matches(own, self._channels(begin, given), (self._widths[0][begin], self._widths[1][given]))

    def _channels(self, value: str, own: str) -> Map:
        """Channels of a value of the child -> those of a value of the parent."""
        pair = (value, own)
        if pair not in self._known:
            self._known[pair] = self._mapped(value, own)
        return self._known[pair]

    def _mapped(self, value: str, own: str) -> Map:
        count, theirs = self._widths[0][value], self._widths[1][own]
        here, there = self._nodes[0].get(value), self._nodes[1].get(own)
        if here is None:
            return leading(count, theirs)
        both_join = there is not None and here.joins and here.type == there.type
        if both_join and here.side_by_side:
            return self._side_by_side(value, own)
        if here.keeps_channels and (both_join or self.origins.get(value) == own):
            return self._channels(self._inputs[0][value][0], self._inputs[1][own][0])
        return leading(count, theirs)

    def _side_by_side(self, value: str, own: str) -> Map:
        starts, start = {}, 0
        for part in self._inputs[1][own]:
            starts[part] = start
            start += self._widths[1][part]
        parts, others = self._inputs[0][value], self._inputs[1][own]
        claimed = {self.origins[part] for part in parts if part in self.origins}
        channels: list[int] = []
        for place, part in enumerate(parts):
            theirs = self.origins.get(part)
            if theirs is None and len(parts) == len(others) and others[place] not in claimed:
                theirs = others[place]
            if theirs in starts:
                channels += [shifted(channel, starts[theirs]) for channel in self._channels(part, theirs)]
            else:
                channels += [-1] * self._widths[0][part]
        return tuple(channels)
