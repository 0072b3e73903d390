"""Networks of samples in sentences, and H-Models as the diagrams want them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from evodevo.experiments.trials import Arm
from evodevo.h_model.diagrams.structure import LayerMark, h_model_diagram
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.spec import EnsembleNetwork, HModelNetwork, NetworkSpec, StackNetwork, StackStructure
from evodevo.operators.layers.base import LayerSpec
from evodevo.registry import Registry, table

NETWORK_WORDS: Registry[Any] = table("words of a network", "evodevo.network_words")
"""Kind of a ``NetworkSpec`` -> ``words(structure) -> list[str]``, for kinds that are not told below."""


def arm_words(arm: Arm) -> list[str]:
    """A training in sentences."""
    how = f"Trained by {arm.procedure!r} at learning rate {arm.learning_rate:g}, seed {arm.seed}."
    return [f"{arm.group} ({arm.role.replace('_', '-')}).", *network_words(arm.network), how]


def network_words(network: NetworkSpec) -> list[str]:
    """A network in sentences."""
    if isinstance(network, EnsembleNetwork):
        members = network.structure.members
        return [f"{len(members)} stacks that answer together.", *(_stack_words(member) for member in members)]
    if isinstance(network, StackNetwork):
        return [_stack_words(network.structure)]
    if not isinstance(network, HModelNetwork):
        return NETWORK_WORDS.get(network.kind)(network.structure)  # type: ignore[no-any-return]
    hidden = network.structure
    times = f"run {hidden.iterations} times" if hidden.iterations != 1 else "run once"
    routing = f"Router {hidden.router.head}, gate {hidden.router.gate}, alpha {hidden.alpha:g}"
    return [
        f"Hidden layers of width {hidden.width}: {_made_of(hidden.hidden)}, {times}; {_around(hidden)}.",
        f"{routing}; it answers in the mode {hidden.inference.mode}.",
    ]


def _stack_words(stack: StackStructure) -> str:
    repeats = f", {stack.repeats} times over with the same weights" if stack.repeats > 1 else ""
    made = f"{_made_of(stack.layers)}{repeats}; {_around(stack)}."
    return f"Layers of width {stack.width}, one after the other: {made}"


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


def _mark(layer: LayerSpec, width: int) -> LayerMark:
    inner = layer.width or width
    detail = [layer.sizes(inner), "" if inner == width else f"width {inner}"]
    return LayerMark(layer.label, layer.family(inner), ", ".join(filter(None, detail)))


def _made_of(layers: tuple[LayerSpec, ...]) -> str:
    counts = Counter(layer.type_name for layer in layers)
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "no layer"


def _around(structure: HModelStructure | StackStructure) -> str:
    blocks = f"{structure.input_blocks} block{'' if structure.input_blocks == 1 else 's'}"
    return f"{blocks} in each input, {structure.output_blocks} in each output"
