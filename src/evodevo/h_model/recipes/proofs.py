"""Does a statement follow from facts and rules? With proofs deeper than any that were trained on, or the user's texts.

Source: docs/spec/h_model.md#experiments.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import ProbeSettings
from evodevo.experiments.trials import Variant
from evodevo.h_model.opponents import parameter_matched
from evodevo.h_model.recipes import paper_tables
from evodevo.h_model.recipes.variants import (
    evaluation,
    h_model,
    in_the_papers_stream,
    learning_rates,
    opponents,
    stack,
)
from evodevo.h_model.spec import HModelStructure
from evodevo.operators.layers.convolution import ConvolutionLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import Changes, Driver, Recipe, Size

QUICK_STEPS = 2_000
OWN_VOCABULARY = 1024
SWEPT_RATE = (1e-3,)
"""Learning rate of the arms that only the full size has; the opponents are trained with three."""
QUESTIONS: dict[str, Any] = {"form": "language", "loss": "answer", "questions": 12, "shares": (4.0, 2.0, 1.0)}
"""Many questions of a theory in one pass, each with its own loss, most of them shallow: those are learnt first."""
AS_CLASS: dict[str, Any] = {"form": "answer", "questions": 1}
AS_LANGUAGE: dict[str, Any] = {"loss": "all", "questions": 1}
BINDING = ConvolutionLayer(kernel=5)
"""A layer that joins neighbouring tokens ("anne is not big"); attention alone takes very long to learn it."""
SIZES = ((2, 2), (4, 2), (4, 4), (4, 10))
"""(transformer layers of H, T) of the paper's Table 1."""


def proofs(size: Size) -> ExperimentSettings:
    """Trained on proofs of depth 0 to 2, measured on 0 to 5."""
    full = size == "full"
    # No block before the convolution, which binds the words themselves: facts are then learnt in fewer steps.
    base = _of(HModelStructure(stream="paper", width=128 if full else 64, iterations=4, causal=True, input_blocks=0), 2)
    arms = [h_model(base), *opponents(base, size)]
    arms += _more(base) if full else [h_model(_again(base, 2), "H-Model, sizes", cell={"transformers": 2.0, "T": 2.0})]
    easy = {"wording": "terse", "words": "few", "negated_questions": False}
    return ExperimentSettings(
        experiment=Comparison(
            title="proofs, measured deeper than trained",
            arms=tuple(arms),
            learning_rates=learning_rates(size, 2e-3),
            seeds=3 if full else 1,
            paper=(paper_tables.PROOFS,),
            caveats=(
                "Depths above 2 were never trained on; their accuracy is how far a network goes on by itself.",
                (
                    "A training theory is asked up to 12 questions, each with its own loss, shallow ones more often; "
                    "none reads another's answer. Validation and test ask one, of all depths alike."
                ),
                (
                    "The first hidden layer is a convolution over 5 words: without it, a transformer of 4 layers was "
                    "still at chance after 1,500 steps on theories simpler than these."
                ),
            ),
        ),
        evaluation=evaluation(
            size,
            "proofs",
            steps=20_000 if full else QUICK_STEPS,
            batch_size=32,
            task_settings={**QUESTIONS, **({"samples": {"train": 200_000}} if full else easy)},
            probes=(ProbeSettings(name="T = 8", iterations=8),),
        ),
    )


def own_texts(size: Size, data: str) -> ExperimentSettings:
    """Texts of the user's own with a class each: facts and a question, and its answer."""
    full = size == "full"
    base = _of(HModelStructure(width=128 if full else 64, iterations=4, input_blocks=0), 2)
    printed = h_model(in_the_papers_stream(base), "H-Model, paper's stream")
    return ExperimentSettings(
        experiment=Comparison(
            title=f"answers of {Path(data).name}",
            arms=(h_model(base), printed, *opponents(base, size)),
            learning_rates=learning_rates(size, 2e-3),
            seeds=3 if full else 1,
        ),
        evaluation=evaluation(
            size,
            "text_labels",
            steps=20_000 if full else QUICK_STEPS,
            batch_size=32,
            task_settings={"data": data, "vocabulary": OWN_VOCABULARY},
        ),
    )


def _made(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    changes.refuse_strategists()
    changes.refuse_baselines()
    return proofs(size) if changes.data is None else own_texts(size, changes.data)


def _of(base: HModelStructure, transformers: int, *, binding: bool = True) -> HModelStructure:
    """The same H-Model with so many transformer layers, after a convolution or not."""
    first = (BINDING,) if binding else ()
    return base.model_copy(update={"hidden": (*first, *(TransformerLayer(),) * transformers)})


def _again(base: HModelStructure, iterations: int) -> HModelStructure:
    return base.model_copy(update={"iterations": iterations})


def _pair(structure: HModelStructure, what: str, **more: Any) -> list[Variant]:
    """An H-Model and the same layers one after the other."""
    return [
        h_model(structure, f"H-Model, {what}", **more),
        stack(parameter_matched(structure), f"Tr(I+H+O), {what}", **more),
    ]


def _more(base: HModelStructure) -> list[Variant]:
    variants = [
        *_pair(_of(base, 3, binding=False), "transformers alone"),
        *_pair(base.model_copy(update={"causal": False}), "one class", task=AS_CLASS),
        *_pair(base, "all words", task=AS_LANGUAGE),
        *_pair(base, "open world", task={"world": "open"}),
    ]
    for transformers, iterations in SIZES:
        cell: dict[str, str | float] = {"transformers": float(transformers), "T": float(iterations)}
        variants.append(h_model(_again(_of(base, transformers), iterations), "H-Model, sizes", cell=cell))
    for transformers in (2, 4):
        sized = parameter_matched(_of(base, transformers))
        variants.append(stack(sized, "Tr(I+H+O), sizes", cell={"transformers": float(transformers)}))
    for alpha in (0.1, 0.3, 3.0):
        variants.append(h_model(base.model_copy(update={"alpha": alpha}), "H-Model, alpha", cell={"alpha": alpha}))
    return [plan.model_copy(update={"learning_rates": SWEPT_RATE}) for plan in variants]


PROOFS = Recipe(
    "h_model.proofs",
    "E1: facts and rules, deeper than trained; also as language, or texts and answers of your own",
    ("train",),
    _made,
    reads_data=True,
)
