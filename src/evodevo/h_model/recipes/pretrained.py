"""Layers of two pretrained encoders in one H-Model, against each encoder alone, and against none.

Source: docs/spec/h_model.md#experiments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.h_model.opponents import compute_matched, parameter_matched, universal
from evodevo.h_model.recipes import paper_tables
from evodevo.h_model.recipes.variants import constant, evaluation, h_model, independent, learning_rates, stack
from evodevo.h_model.spec import HModelStructure, RegularisationStructure
from evodevo.networks.stacks.ensemble import EnsembleNetwork
from evodevo.networks.stacks.spec import EnsembleStructure, StackStructure
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import Recipe, Size, by_size

QUICK_DONORS = ({"width": 64, "layers": 4}, {"width": 96, "layers": 3})
FULL_DONORS = ({"width": 96, "layers": 12}, {"width": 64, "layers": 7})
QUICK_LAYERS = ((0, 0), (0, 3), (1, 0), (1, 2))
# The paper's, from 0: of RoBERTa 0, 1, 2, 3, 5, 8 and "12", which is the last one's answer; of MiniLM 0, 2, 6.
FULL_LAYERS = (*((0, index) for index in (0, 1, 2, 3, 5, 8, 11)), *((1, index) for index in (0, 2, 6)))
WIDTH = 64


def pretrained(size: Size) -> ExperimentSettings:
    """Texts of generated topics unless ``--data`` names others; donors are pretrained on the same training texts."""
    full = size == "full"
    donors, layers = (FULL_DONORS, FULL_LAYERS) if full else (QUICK_DONORS, QUICK_LAYERS)
    arms = [*_mixes(size, donors, layers), *_alone(donors), *_fresh(size, donors, layers)]
    return ExperimentSettings(
        experiment=Comparison(
            title="layers of two pretrained encoders in one H-Model, on texts",
            arms=tuple(arms),
            learning_rates=learning_rates(size, 2e-3),
            seeds=3 if full else 1,
            paper=(paper_tables.OHSUMED,),
            caveats=(
                "Accuracy on the training split is listed beside validation and test: their gap is what was memorised.",
                (
                    "Donors are pretrained here on the training texts alone (their steps and losses are in the facts); "
                    "that work is in no column of FLOPs or time."
                ),
                (
                    "Inputs and outputs are fresh in every arm, as in the paper, but for 'with its embeddings': there "
                    "a donor is fine-tuned as one would without any of this."
                ),
            ),
        ),
        evaluation=evaluation(
            size,
            "text_labels",
            steps=2000 if full else 400,
            batch_size=16,
            task_settings={
                "length": 96 if full else 48,
                "vocabulary": 4096 if full else 2048,
                "topics": {"samples": {"train": 6000 if full else 3000, "validation": 500, "test": 1000}},
            },
            options={"pretrained": {"donors": donors, "pretraining": {"steps": 4000 if full else 1200}}},
            train_samples=1000,
            curve_points=20 if full else 6,
        ),
    )


def _mixes(size: Size, donors: Sequence[dict[str, int]], layers: Sequence[tuple[int, int]]) -> list[Variant]:
    """H-Models of the donors' layers."""
    base = _shape(size, donors, layers)
    regularised = base.model_copy(update={"regularisation": RegularisationStructure(layer_dropout=0.2)})

    def mix(name: str, structure: HModelStructure = base, more: dict[str, Any] | None = None, **plan: Any) -> Variant:
        return h_model(structure, name, procedure="pretrained", options={"layers": layers, **(more or {})}, **plan)

    arms = [
        mix("H-Model, mixed"),
        mix("H-Model, mixed, shuffled", more={"shuffled": True}),
        mix("H-Model, mixed, frozen", more={"train": "none"}),
        mix("H-Model, mixed, regularised", regularised, training={"optimizer": {"weight_decay": 0.5}}),
        constant(base, procedure="pretrained", options={"layers": layers}),
    ]
    if size == "full":
        arms.append(mix("H-Model, mixed, orthogonal adapters", more={"adapters": "orthogonal"}))
        arms.append(independent(base, procedure="pretrained", options={"layers": layers}))
    return arms


def _alone(donors: Sequence[dict[str, int]]) -> list[Variant]:
    """Each donor fine-tuned, and the mean of their answers."""

    def shape(donor: dict[str, int], **more: Any) -> StackStructure:
        layers = (_layer(donor).model_copy(update={"width": None}),) * donor["layers"]
        return StackStructure(width=donor["width"], layers=layers, **more)

    arms = []
    for number, donor in enumerate(donors):
        name, options = f"donor {number + 1} alone", {"whole": [number]}
        arms.append(stack(shape(donor), name, procedure="pretrained", options=options))
        own = {**options, "embeddings": "donor"}
        plain = shape(donor, input_blocks=0)
        arms.append(stack(plain, f"{name}, with its embeddings", procedure="pretrained", options=own))
    members = EnsembleStructure(members=tuple(shape(donor) for donor in donors))
    arms.append(
        Variant(
            name="donors, answers averaged",
            network=EnsembleNetwork(structure=members),
            procedure="pretrained",
            options={"whole": list(range(len(donors)))},
        )
    )
    return arms


def _fresh(size: Size, donors: Sequence[dict[str, int]], layers: Sequence[tuple[int, int]]) -> list[Variant]:
    """Nothing pretrained."""
    base = _shape(size, donors, layers)
    member = StackStructure(width=WIDTH, layers=(TransformerLayer(),), input_blocks=0, output_blocks=0)
    arms = [
        h_model(base, "H-Model, fresh"),
        stack(member, "Tr, 1 layer"),
        stack(parameter_matched(base), "Tr(I+H+O)"),
    ]
    if size == "full":
        arms += [
            stack(member.model_copy(update={"layers": (TransformerLayer(),) * 12}), "Tr, 12 layers"),
            stack(compute_matched(base), "Tr(I+HT+O)"),
            stack(universal(base), "Universal Transformer", role="universal"),
        ]
    return arms


def _shape(size: Size, donors: Sequence[dict[str, int]], layers: Sequence[tuple[int, int]]) -> HModelStructure:
    """The H-Model with fresh layers of the donors' sizes."""
    hidden = tuple(_layer(donors[donor]) for donor, _ in layers)
    return HModelStructure(stream="paper", width=WIDTH, hidden=hidden, iterations=10 if size == "full" else 3)


def _layer(donor: dict[str, int]) -> TransformerLayer:
    return TransformerLayer(width=donor["width"], heads=4, feedforward=4 * donor["width"])


PRETRAINED = Recipe(
    "h_model.pretrained",
    "E3: layers of two pretrained encoders mixed, against each alone",
    ("train",),
    by_size(pretrained),
)
