"""E1: does a statement follow from facts and rules? With proofs deeper than any that were trained on."""

from __future__ import annotations

from typing import Any

from evodevo.evaluation.network_settings import Probe
from evodevo.recipes.base import Recipe, Size
from evodevo.recipes.experiments import Comparison, ExperimentSettings
from evodevo.recipes.h_model import paper_tables
from evodevo.recipes.h_model.arms import evaluation, h_model, learning_rates, opponents, stack
from evodevo.spaces.arms import ArmPlan
from evodevo.spaces.h_model_structure import HModelStructure
from evodevo.spaces.layers import TransformerLayer
from evodevo.spaces.networks import parameter_matched

AS_LANGUAGE: dict[str, Any] = {"form": "language"}
SIZES = ((2, 2), (4, 2), (4, 4), (4, 10))
"""(H, T) of the paper's Table 1."""


def proofs(size: Size) -> ExperimentSettings:
    """Trained on proofs of depth 0 to 2, measured on 0 to 5."""
    full = size == "full"
    width = 128 if full else 64
    base = HModelStructure(width=width, hidden=(TransformerLayer(),) * 2, iterations=4)
    arms = [h_model(base), *opponents(base, size), *_as_language(base)]
    if full:
        arms += _sweeps(base)
    return ExperimentSettings(
        experiment=Comparison(
            title="proofs: trained on depths 0 to 2, measured on 0 to 5",
            arms=tuple(arms),
            learning_rates=learning_rates(size),
            seeds=3 if full else 1,
            paper=(paper_tables.PROOFS,),
            caveats=(
                "Depths above 2 were never trained on; their accuracy is how far a network goes on by itself.",
                "'as language' predicts every token of theory, question and answer; the answer alone counts as right.",
            ),
        ),
        evaluation=evaluation(
            size,
            "proofs",
            steps=20_000 if full else 1_300,
            batch_size=32,
            task_settings={"wording": "english" if full else "terse"},
            probes=(Probe(name="T = 8", iterations=8),),
        ),
    )


def _as_language(structure: HModelStructure) -> list[ArmPlan]:
    causal = structure.model_copy(update={"causal": True})
    return [
        h_model(causal, "H-Model, as language", task=AS_LANGUAGE),
        stack(parameter_matched(causal), "Tr(I+H+O), as language", task=AS_LANGUAGE),
    ]


def _sweeps(base: HModelStructure) -> list[ArmPlan]:
    found = []
    for hidden, iterations in SIZES:
        sized = base.model_copy(update={"hidden": (TransformerLayer(),) * hidden, "iterations": iterations})
        cell: dict[str, str | float] = {"H": float(hidden), "T": float(iterations)}
        found += [h_model(sized, "H-Model, sizes", cell=cell)]
    for hidden in (2, 4):
        sized = base.model_copy(update={"hidden": (TransformerLayer(),) * hidden})
        found.append(stack(parameter_matched(sized), "Tr(I+H+O), sizes", cell={"H": float(hidden)}))
    for alpha in (0.1, 0.3, 3.0):
        found.append(h_model(base.model_copy(update={"alpha": alpha}), "H-Model, alpha", cell={"alpha": alpha}))
    world: dict[str, Any] = {"world": "open"}
    found.append(h_model(base, "H-Model, open world", task=world))
    found.append(stack(parameter_matched(base), "Tr(I+H+O), open world", task=world))
    return found


PROOFS = Recipe("h_model.proofs", "E1: facts and rules, deeper than trained; also as language", ("train",), proofs)
