"""An H-Model for people: its structure as a drawing, and in sentences."""

from __future__ import annotations

from evodevo.h_model.diagrams.structure import LayerMark, h_model_diagram
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.draw import ends_words, layers_words
from evodevo.operators.layers.base import LayerSpec


def h_model_words(structure: HModelStructure) -> list[str]:
    """An H-Model in sentences."""
    times = f"run {structure.iterations} times" if structure.iterations != 1 else "run once"
    if structure.stream == "carried":
        times = f"in {structure.iterations} iteration{'s' * (structure.iterations != 1)}"
    around = ends_words(structure.input_blocks, structure.output_blocks)
    hidden = f"Hidden layers of width {structure.width}: {layers_words(structure.hidden)}, {times}; {around}."
    own = [f"Hidden layers {list(entry.layers)} answer {entry.output} alone." for entry in structure.own]
    if structure.carried.routes is not None:
        symbols, used = len(structure.carried.routes.layers), len(set(structure.carried.routes.layers))
        table = f"a table of {symbols} symbols of the input {structure.carried.routes.input!r} names {used} layers"
        return [hidden, f"Carried stream, given routes: {table}; one runs per sample and iteration."]
    if structure.stream == "carried":
        carried, where = structure.carried, "position" if structure.causal else "sample"
        few = f"a message goes to {carried.m} of the layers, and at most {carried.most} run per {where} and iteration"
        who = "a router for each iteration" if carried.iteration_router else "one router for all"
        near = "" if structure.window is None else f", at most {structure.window} places away"
        return [hidden, f"Carried stream: {who}, alpha {structure.alpha:g}; {few}{near}.", *own]
    routing = f"Router {structure.router.head}, gate {structure.router.gate}, alpha {structure.alpha:g}"
    return [hidden, f"{routing}; it answers in the mode {structure.inference.mode}.", *own]


def h_model_drawing(structure: HModelStructure, *, title: str, subtitle: str) -> str:
    """The structure as SVG."""
    temperature = f"alpha {structure.alpha:g}, rate {structure.alpha_rate:g}"
    mode = structure.inference.mode
    kept = {"target_topm": f", m = {structure.inference.m}", "source_topk": f", k = {structure.inference.k}"}
    own = [f"{entry.output} alone: layers {', '.join(map(str, entry.layers))}" for entry in structure.own]
    facts = [
        temperature,
        f"router {structure.router.head}, aggregation {structure.aggregation.kind}",
        f"answers {mode}{kept.get(mode, '')}",
        *own,
    ]
    if structure.stream == "carried":
        facts = [
            temperature,
            "carried stream",
            f"m = {structure.carried.m}, at most {structure.carried.most} run",
            *own,
        ]
    if structure.carried.routes is not None:
        facts = ["carried stream", "given routes", "1 runs at a time"]
    marks = [_mark(layer, structure.width) for layer in structure.hidden]
    ordered = structure.window is not None
    return h_model_diagram(marks, structure.iterations, facts, title=title, subtitle=subtitle, ordered=ordered)


def _mark(layer: LayerSpec, width: int) -> LayerMark:
    inner = layer.width or width
    detail = [layer.sizes(inner), "" if inner == width else f"width {inner}"]
    return LayerMark(layer.label, layer.family(inner), ", ".join(filter(None, detail)))
