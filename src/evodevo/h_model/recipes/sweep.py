"""One thing of an H-Model swept: alpha and its rate, depth, the mixture of its kinds of layers, or its stream.

Source: docs/spec/h_model.md#experiments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import ProbeSettings
from evodevo.experiments.trials import Variant
from evodevo.h_model.opponents import compute_matched
from evodevo.h_model.recipes.variants import AT_THE_END, evaluation, h_model, learning_rates, opponents, stack
from evodevo.h_model.spec import CarriedStructure, HModelStructure, RegularisationStructure
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.networks.stacks.spec import StackStructure
from evodevo.operators.layers.convolution import ConvolutionLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import Changes, Driver, Recipe, Size
from evodevo.settings import Settings, validate

PART = "sweep"
"""Name under which ``--set`` chooses: ``--set sweep.over=depth``."""
ALPHAS = (0.1, 0.3, 1.0, 3.0)
RATES = (0.7, 1.0, 1.4)
POINTER_RATE = 2e-3
"""The quick learning rate on pointers."""


class SweepSettings(Settings):
    """What ``h_model.sweep`` varies.

    Attributes:
        over: ``alpha`` (and its rate over iterations), ``depth`` (T, beside stacks as deep), ``mixture`` (convolutions
            and transformers, with equal and with unequal routers), or ``stream`` (the paper's, and the carried one with
            as many layers, few or all of which run).
    """

    over: Literal["alpha", "depth", "mixture", "stream"] = "alpha"


@dataclass(frozen=True)
class Sweep:
    """What one sweep has of its own.

    Attributes:
        title, arms, caveats: see ``Comparison``.
        evaluation: arguments of ``variants.evaluation``.
        rate: the quick learning rate.
    """

    title: str
    arms: tuple[Variant, ...]
    caveats: tuple[str, ...]
    evaluation: dict[str, Any]
    rate: float = 1e-3


def alpha(size: Size) -> Sweep:
    """Alpha and its rate on k-hop pointers, where depth is needed: accuracy, depth, and what is left after top-k."""
    full = size == "full"
    base = _on_pointers(4 if full else 2)
    cells = [(a, r) for a in ALPHAS for r in RATES] if full else [(0.1, 1.0), (1.0, 0.7)]
    arms = [h_model(base), *opponents(base, size)]
    arms += [
        h_model(base.model_copy(update={"alpha": a, "alpha_rate": r}), "H-Model, alpha", cell={"alpha": a, "rate": r})
        for a, r in cells
    ]
    if full:
        arms += [
            h_model(base.model_copy(update={"alpha": a, "alpha_end": 0.1}), "H-Model, annealed", cell={"alpha": a})
            for a in (1.0, 3.0)
        ]
    top = (ProbeSettings(name=f"top-{k}", inference=InferenceStructure(mode="source_topk", k=k)) for k in (1, 2))
    cut = ProbeSettings(name="c above 0.5", inference=InferenceStructure(mode="threshold", threshold=0.5))
    return Sweep(
        title="alpha and its rate, on k-hop pointers",
        arms=tuple(arms),
        caveats=(
            (
                "A small alpha does not make routing sparse but binary: before training about half of all c are "
                "above 0.5 at every alpha (docs/spec/h_model.md#starting-biases)."
            ),
        ),
        rate=POINTER_RATE,
        evaluation={"task": "pointer", "steps": 4_000 if full else 1_400, "probes": (*top, cut)},
    )


def depth(size: Size) -> Sweep:
    """T from 1 to 16 on k-hop pointers beside stacks as deep, and T in the test beyond T trained."""
    full = size == "full"
    base = _on_pointers(2)
    arms = [h_model(base), *opponents(base, size)]
    for iterations in (1, 2, 6, 8, 12, 16) if full else (12,):
        arms += _as_deep(base.model_copy(update={"iterations": iterations}))
    if full:
        random = RegularisationStructure(iterations_min=2, iterations_max=8)
        arms.append(h_model(base.model_copy(update={"regularisation": random}), "H-Model, random T"))
    return Sweep(
        title="stability over depth, on k-hop pointers",
        arms=tuple(arms),
        caveats=(
            "Each stack has as many blocks as the H-Model of its cell runs, and so T times its parameters.",
            "Norms of gradients per layer, before and after training, are among the facts of each individual.",
        ),
        rate=POINTER_RATE,
        evaluation={
            "task": "pointer",
            "steps": 4_000 if full else 1_200,
            "probes": tuple(ProbeSettings(name=f"T = {t}", iterations=t) for t in (2, 8, 16)),
        },
    )


def mixture(size: Size) -> Sweep:
    """Convolutions and transformers together: the paper's convolutions had the simpler router; here both have the same
    one, and that as it was.
    """
    full = size == "full"
    half = 3 if full else 2
    transformers, convolutions = (TransformerLayer(),) * half, (ConvolutionLayer(),) * half
    simple = (ConvolutionLayer(router="channel"),) * half
    base = HModelStructure(
        stream="paper", width=128 if full else 64, hidden=(*transformers, *convolutions), iterations=3
    )

    def of(*layers: TransformerLayer | ConvolutionLayer) -> HModelStructure:
        return base.model_copy(update={"hidden": layers})

    return Sweep(
        title="convolutions and transformers in one network, on images and captions",
        arms=(
            h_model(base, "H-Model, equal routers"),
            h_model(of(*transformers, *simple), "H-Model, channel routers of convolutions"),
            h_model(of(*transformers, *transformers), "H-Model, transformers alone"),
            h_model(of(*convolutions, *convolutions), "H-Model, convolutions alone"),
            *opponents(base, size),
        ),
        caveats=(
            (
                "The paper reads simpler routes of convolutions as their nature (Figure 16), but gave them a "
                "simpler router; where routes differ with equal routers too, they differ by the layer."
            ),
            "'Tr(I+H+O)' here is the same layers one after the other, convolutions among them.",
        ),
        evaluation={
            "task": "image_text",
            "steps": 10_000 if full else 900,
            "batch_size": 32,
            "task_settings": {"form": "both"},
        },
    )


def stream(size: Size) -> Sweep:
    """The paper's stream and the carried one, on k-hop pointers: with the same two or four layers, of which one, two or
    all run."""
    full = size == "full"
    arms: list[Variant] = []
    for count in (2, 4):
        base = _on_pointers(count)
        arms.append(h_model(base, "H-Model, paper's stream", cell={"H": float(count)}))
        for m in (1, 2, 4):
            if m <= count:
                changes = {
                    "stream": "carried",
                    "carried": CarriedStructure(m=m, iteration_router=True),
                    "regularisation": RegularisationStructure(balance=0.02 if m < count else 0.0),
                }
                cell: dict[str, str | float] = {"H": float(count), "m": float(m)}
                arms.append(h_model(base.model_copy(update=changes), "H-Model, carried stream", cell=cell))
    return Sweep(
        title="the paper's stream and the carried one, on k-hop pointers",
        arms=(*arms, *opponents(_on_pointers(2), size)),
        caveats=("With m below H a carried stream runs fewer layers than the paper's: compare at equal FLOPs too.",),
        rate=POINTER_RATE,
        evaluation={"task": "pointer", "steps": 4_000 if full else 2_000},
    )


SWEEPS: dict[str, Callable[[Size], Sweep]] = {"alpha": alpha, "depth": depth, "mixture": mixture, "stream": stream}


def sweep(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """The chosen sweep.

    Raises:
        UsageError: no such sweep, or options that no arm here has.
    """
    changes.refuse_strategists()
    changes.refuse_baselines()
    chosen = validate(SweepSettings, dict(changes.part), what=f"settings of {PART}").over
    made = SWEEPS[chosen](size)
    return ExperimentSettings(
        experiment=Comparison(
            title=made.title,
            arms=made.arms,
            learning_rates=learning_rates(size, made.rate),
            seeds=3 if size == "full" else 1,
            caveats=made.caveats,
        ),
        evaluation=evaluation(size, **made.evaluation),
    )


def _on_pointers(count: int) -> HModelStructure:
    """Transformer layers whose routers read where the task gives the number of hops; T = 4."""
    hidden = (TransformerLayer(),) * count
    return HModelStructure(stream="paper", hidden=hidden, iterations=4, output_blocks=0, router=AT_THE_END)


def _as_deep(structure: HModelStructure) -> list[Variant]:
    """The H-Model, and stacks of as many blocks, with and without residual connections."""
    cell: dict[str, str | float] = {"T": float(structure.iterations)}
    deep: StackStructure = compute_matched(structure)
    return [
        h_model(structure, "H-Model, deep", cell=cell),
        stack(deep, "stack", cell=cell),
        stack(deep.model_copy(update={"residual": False}), "stack without residuals", role="control", cell=cell),
    ]


SWEEP = Recipe(
    "h_model.sweep",
    "E5 to E7: alpha and its rate, depth beside deep stacks, convolutions and transformers mixed, or both streams",
    ("train",),
    sweep,
    part=PART,
)
