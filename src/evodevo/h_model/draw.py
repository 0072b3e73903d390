"""An H-Model for people: its structure as a drawing, and as short sentences."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.h_model.diagrams.structure import LayerMark, h_model_diagram
from evodevo.h_model.spec import HModelStructure, InferenceStructure
from evodevo.operators.layers.base import LayerSpec
from evodevo.operators.layers.cost import layer_parameters


def draw_structure(
    structure: HModelStructure,
    title: str = "",
    subtitle: str = "",
    inputs: Sequence[str] = ("inputs",),
    outputs: Sequence[str] = ("outputs",),
) -> str:
    """A structure as an SVG string; the tooltip of a layer holds its number of parameters."""
    return h_model_diagram(
        [layer_mark(layer, structure) for layer in structure.hidden],
        structure.iterations,
        describe_structure(structure),
        inputs,
        outputs,
        title,
        subtitle,
        ordered=structure.window is not None,
    )


def layer_mark(layer: LayerSpec, structure: HModelStructure) -> LayerMark:
    """What the drawing needs to know of one hidden layer."""
    width = layer.width or structure.width
    details = [layer.sizes(width)]
    if layer.width is not None:
        details.append(f"width {layer.width}")
    if layer.router is not None:
        details.append(f"{layer.router} router")
    count = "" if layer.reads_files else f"{layer_parameters(layer, structure.width, structure.causal):,} parameters"
    return LayerMark(layer.label, layer.family(width), ", ".join(filter(None, details)), title=count)


def describe_structure(structure: HModelStructure) -> list[str]:
    """What the drawing does not show: alpha, aggregation, window, inference, halting."""
    facts = [f"alpha {structure.alpha:g}"]
    if structure.alpha_rate != 1:
        facts.append(f"alpha rate {structure.alpha_rate:g}")
    facts.append("attention over messages" if structure.aggregation == "attention" else "sum of messages")
    if structure.window is not None:
        facts.append(f"{'ring' if structure.ring else 'window'} of {structure.window}")
    facts.append(inference_words(structure.inference, len(structure.hidden)))
    if structure.halting.rule != "none":
        facts.append(f"halting: {structure.halting.rule}")
    if structure.causal:
        facts.append("causal")
    if structure.disabled:
        facts.append(f"{len(structure.disabled)} switched off")
    return facts


def inference_words(inference: InferenceStructure, hidden: int) -> str:
    """Which connections count when the model answers, in few words."""
    return {
        "dense": "answers with all connections",
        "source_topk": f"each layer keeps its {inference.k} strongest",
        "target_topm": f"{inference.m} of {hidden} layers run",
        "threshold": f"connections below {inference.threshold:g} are cut",
        "budget": f"at most {inference.flops:.3g} FLOPs",
    }[inference.mode]
