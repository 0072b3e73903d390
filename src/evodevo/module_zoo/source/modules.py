"""The class of generated files for one module of a zoo: its graph, node by node (``module_zoo.modules.build``)."""

from __future__ import annotations

from collections.abc import Iterator

from evodevo.module_zoo.modules.build import part_name
from evodevo.module_zoo.modules.graph import order, sources, widths
from evodevo.module_zoo.modules.spec import INPUT, OUTPUT, ModuleGenotype
from evodevo.module_zoo.modules.zoo import words
from evodevo.operators.source.sheet import SourceSheet, identifier


def module_source(sheet: SourceSheet, genotype: ModuleGenotype) -> str:
    """The expression of a module; equal graphs have one class.

    Raises:
        UsageError: A node without source.
    """
    nodes = tuple(node.model_copy(update={"lineage": ""}) for node in genotype.graph.nodes)
    graph = genotype.graph.model_copy(update={"nodes": nodes})
    title = "".join(word.capitalize() for word in genotype.archetype.replace("-", "_").split("_"))
    key = ("module", genotype.width, graph.model_dump_json())
    return f"{sheet.write(key, f'{title}Module', lambda name: chr(10).join(_lines(sheet, genotype, name)))}()"


def _lines(sheet: SourceSheet, genotype: ModuleGenotype, name: str) -> Iterator[str]:
    graph, width = genotype.graph, genotype.width
    channels = {INPUT: width, **widths(graph, width)}
    read = sources(graph)
    values = {INPUT: "x"}
    for number, node in enumerate(order(graph)):
        plain = identifier(node.id).lower()
        taken = plain in (*values.values(), "x", "mask", "self", "torch", "nn")
        values[node.id] = f"{plain}_{number}" if taken else plain
    yield f"class {name}(nn.Module):"
    yield f'    """{words(genotype)}: (B, L, D) -> (B, L, D)."""'
    yield ""
    yield "    def __init__(self):"
    yield "        super().__init__()"
    yield "        self.parts = nn.ModuleDict({"
    for node in order(graph):
        if not node.joins:
            yield f'            "{part_name(node.id)}": {node.source(sheet, channels[read[node.id][0]])},'
    yield "        })"
    yield ""
    yield "    def forward(self, x, mask):"
    for node in order(graph):
        given = [values[source] for source in read[node.id]]
        if node.joins:
            yield f"        {values[node.id]} = {node.join_source(given)}"
        else:
            yield f'        {values[node.id]} = self.parts["{part_name(node.id)}"]({given[0]}, mask)'
    yield f"        return {values[read[OUTPUT][0]]}"
