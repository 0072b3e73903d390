"""A fourth domain by new layers, while the old ones are frozen; what a transformer forgets meanwhile.

Source: docs/spec/h_model.md#experiments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Variant
from evodevo.h_model.opponents import parameter_matched
from evodevo.h_model.recipes.variants import constant, evaluation, h_model, learning_rates, opponents, stack
from evodevo.h_model.spec import HModelStructure, RegularisationStructure
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import Baselines, Changes, Driver, Recipe, Size

DOMAINS = ("digits", "shapes", "textures", "letters")
CARRIED: dict[str, Any] = {"stream": "carried", "regularisation": RegularisationStructure(balance=0.02)}
"""Changes of an H-Model to one of whose layers one runs per sample and iteration."""


def extend(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """On four kinds of images, each with an output layer of its own.

    ``baselines``: ``none`` leaves H-Models; ``quick`` adds transformers and constant connections; ``all`` adds the
    H-Model with a carried stream, and in full the other controls.
    """
    changes.refuse_strategists()
    full = size == "full"
    chosen: Baselines = changes.baselines or ("all" if full else "quick")
    width, count = (64, 4) if full else (32, 3)
    layer = TransformerLayer()
    base = HModelStructure(stream="paper", width=width, hidden=(layer,) * count, iterations=count, output_blocks=0)
    carried = base.model_copy(update=CARRIED)
    transformer = parameter_matched(base)
    together, after = DOMAINS[:3], DOMAINS[3:]
    new = {"learn": "new", "add": [layer.model_dump(mode="json", exclude_none=True)] * 2}
    sequence = {"first": DOMAINS[:1], "then": DOMAINS[1:]}

    def learning(plan: Variant, **options: Any) -> Variant:
        chosen = {"first": together, "then": after, **options}
        listed = {key: list(value) if isinstance(value, tuple) else value for key, value in chosen.items()}
        return plan.model_copy(update={"procedure": "extend", "options": listed})

    arms = [
        learning(h_model(base), **new),
        learning(h_model(base, "H-Model, old routers frozen"), **new, routers=False),
        learning(h_model(base, "H-Model, layers of its own"), **new, own=True),
        learning(h_model(base, "H-Model, adapters"), learn="adapters"),
        learning(h_model(base, "H-Model, all fine-tuned"), learn="all"),
        learning(h_model(base, "H-Model, fixed"), learn="output"),
        learning(h_model(base, "H-Model, one by one"), **sequence),
    ]
    if chosen != "none":
        arms += [
            learning(stack(transformer, "Tr(I+H+O), one by one"), **sequence),
            learning(stack(transformer, "Tr(I+H+O), adapters"), learn="adapters"),
            learning(stack(transformer, "Tr(I+H+O), fixed"), learn="output"),
            learning(constant(base), **new),
            *(learning(plan) for plan in opponents(base, size) if plan.role != "control"),
        ]
    if chosen == "all":
        arms += [
            learning(h_model(carried, "H-Model, carried stream"), **new),
            learning(h_model(carried, "H-Model, carried stream, layers of its own"), **new, own=True),
            learning(h_model(carried, "H-Model, carried stream, all fine-tuned"), learn="all"),
            learning(h_model(carried, "H-Model, carried stream, fixed"), learn="output"),
        ]
    if chosen == "all" and full:
        arms += [
            learning(plan, **new)
            for plan in opponents(base, size)
            if plan.role == "control" and plan.name not in {arm.name for arm in arms}
        ]
    return ExperimentSettings(
        experiment=Comparison(
            title="a fourth domain of images: learned by new layers, and what is forgotten",
            arms=tuple(arms),
            learning_rates=learning_rates(size, 8e-3),
            seeds=3 if full else 1,
            caveats=(
                "Three domains are learned together, then the fourth; 'one by one' learns all four in sequence.",
                "The steps are shared evenly over domains. No sample of an earlier domain is seen again.",
                "Forgetting, a fact of each training, is the accuracy that earlier domains lose.",
                "Layers of its own take part in the answers of the fourth domain alone; adapters change all answers.",
                "Apart, a fact of each training, is the accuracy on each domain when its stage ended.",
                "Each domain has an output layer of its own, which later domains do not touch.",
                *_caveats(chosen),
            ),
        ),
        evaluation=_evaluation(size),
    )


def _caveats(chosen: Baselines) -> Sequence[str]:
    if chosen == "all":
        return ("Of a carried stream one layer runs per sample and iteration: steps are equal, FLOPs are not.",)
    return ("--baselines all adds the H-Model with a carried stream.",)


def _evaluation(size: Size) -> NetworkEvaluationSettings:
    full = size == "full"
    side = 16 if full else 8
    domains = [{"name": name, "builtin": name} for name in DOMAINS]
    return evaluation(
        size,
        "images",
        steps=8_000 if full else 1_200,
        batch_size=64 if full else 32,
        task_settings={"domains": domains, "size": [side, side]},
    )


EXTEND = Recipe("h_model.extend", "E8: a fourth domain by new layers; what is forgotten", ("train",), extend)
