"""From the genotype of a module to the module: any valid graph, node by node (docs/spec/architect_thyself.md#genotype).

Nothing here depends on a family: hybrids are built as archetypes are, from the graph alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.module_zoo.modules.graph import check_graph, order, sources, widths
from evodevo.module_zoo.modules.nodes.base_model import WholeSequence
from evodevo.module_zoo.modules.spec import INPUT, OUTPUT, ModuleGenotype
from evodevo.operators.base import Operator

MAX_PARAMETERS = 1 << 31
"""Largest number of parameters of one module: 8 GiB in float32."""


def build_module(genotype: ModuleGenotype, seed: int | None = None) -> Operator:
    """The module of a genotype: (B, L, d) -> (B, L, d).

    A row of the mask without any true gives finite numbers, which mean nothing.

    Args:
        genotype: any valid one.
        seed: seed of its parameters, in [0, 2**64); the global random stream then stays as it was. None draws from it.

    Raises:
        GenomeError: the graph is not valid.
        UsageError: it has more parameters than a machine holds.
        NotFoundError, DataError: files of a pretrained layer are not there or not readable.
    """
    check_graph(genotype.graph, genotype.width)
    count = genotype_parameters(genotype)
    if count > MAX_PARAMETERS:
        raise UsageError(f"a module of {count:,} parameters; at most {MAX_PARAMETERS:,}. Take smaller nodes.")
    if seed is None:
        return GraphModule(genotype)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GraphModule(genotype)


class GraphModule(WholeSequence):
    """The modules of a graph, run in order.

    Attributes:
        genotype: the genotype that it was built from.
        parts: module of each node, by ``part_name``; sums and concats have none.
    """

    def __init__(self, genotype: ModuleGenotype) -> None:
        super().__init__()
        graph, width = genotype.graph, genotype.width
        self.genotype = genotype
        self._order = order(graph)
        self._sources = sources(graph)
        self._last_readers = _last_readers([node.id for node in self._order], self._sources)
        channels = {INPUT: width, **widths(graph, width)}
        self.parts = nn.ModuleDict()
        for node in self._order:
            if not node.joins:
                self.parts[part_name(node.id)] = node.build(channels[self._sources[node.id][0]])

    def part(self, name: str) -> Operator:
        """Module of the node with that id."""
        module = self.parts[part_name(name)]
        assert isinstance(module, Operator)
        return module

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        values = {INPUT: x}
        for node in self._order:
            given = [values[source] for source in self._sources[node.id]]
            value = node.join(given) if node.joins else self.part(node.id)(given[0], mask=mask).y
            values[node.id] = value
            for name in self._last_readers.get(node.id, ()):
                del values[name]
        return values[self._sources[OUTPUT][0]]


def _last_readers(ids: list[str], inputs: dict[str, list[str]]) -> dict[str, list[str]]:
    """Node -> values that no later node reads, so that it need not be kept."""
    last = {name: reader for reader in ids for name in inputs[reader]}
    last.pop(inputs[OUTPUT][0], None)
    readers: dict[str, list[str]] = {}
    for name, reader in last.items():
        readers.setdefault(reader, []).append(name)
    return readers


def part_name(name: str) -> str:
    """The name of a node's part among its module's: ids hold dots and words of PyTorch, which names cannot."""
    return "/" + name.replace(".", "/")
