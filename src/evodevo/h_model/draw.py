"""An H-Model for people: its structure as a drawing, and in sentences."""

from __future__ import annotations

from evodevo.h_model.diagrams.structure import LayerMark, h_model_diagram
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.draw import family
from evodevo.module_zoo.modules.zoo import words as genotype_words
from evodevo.networks.draw import ends_words, layers_words
from evodevo.operators.layers.cost import liv_operator
from evodevo.operators.layers.spec import GenotypeLayer, Layer, LIVLayer

FAMILIES = {
    "transformer": "attention",
    "mlp": "memoryless",
    "convolution": "convolution",
    "lstm": "recurrence",
    "pretrained": "attention",
}


def h_model_words(structure: HModelStructure) -> list[str]:
    """An H-Model in sentences."""
    times = f"run {structure.iterations} times" if structure.iterations != 1 else "run once"
    around = ends_words(structure.input_blocks, structure.output_blocks)
    routing = f"Router {structure.router.head}, gate {structure.router.gate}, alpha {structure.alpha:g}"
    return [
        f"Hidden layers of width {structure.width}: {layers_words(structure.hidden)}, {times}; {around}.",
        f"{routing}; it answers in the mode {structure.inference.mode}.",
    ]


def h_model_drawing(structure: HModelStructure, *, title: str, subtitle: str) -> str:
    """The structure as SVG."""
    mode = structure.inference.mode
    kept = {"target_topm": f", m = {structure.inference.m}", "source_topk": f", k = {structure.inference.k}"}
    facts = [
        f"alpha {structure.alpha:g}, rate {structure.alpha_rate:g}",
        f"router {structure.router.head}, aggregation {structure.aggregation}",
        f"answers {mode}{kept.get(mode, '')}",
    ]
    marks = [_mark(layer, structure.width) for layer in structure.hidden]
    ordered = structure.window is not None
    return h_model_diagram(marks, structure.iterations, facts, title=title, subtitle=subtitle, ordered=ordered)


def _mark(layer: Layer, width: int) -> LayerMark:
    detail = "" if layer.width in (None, width) else f"width {layer.width}"
    if isinstance(layer, LIVLayer):
        return LayerMark(layer.operator, liv_operator(layer, layer.width or width)[0].family, detail)
    if isinstance(layer, GenotypeLayer):
        return LayerMark(layer.module.id, family(layer.module.genotype), genotype_words(layer.module.genotype))
    return LayerMark(layer.kind, FAMILIES.get(layer.kind, "other"), detail)
