"""Language models that race, and grow while they train, beside the ones that they begin or end as.

All arms of a comparison end when they have computed as many FLOPs, races, forks and measurements around edits counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Cell, Variant
from evodevo.growth.backbone.arms import BACKBONE, CHOICES, FIXED, LADDER, WINDOW, GrowingBackbone, ladder
from evodevo.growth.backbone.insert import InsertEdit
from evodevo.growth.backbone.lengthen import LengthenEdit
from evodevo.growth.backbone.spec import TryingSettings
from evodevo.growth.backbone.stack import StackEdit
from evodevo.growth.backbone.widen import WidenEdit
from evodevo.runs.recipe import Changes, Driver, Recipe, Size
from evodevo.settings import validate
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

TERA = 1e12
CAVEATS = ("Equal FLOPs are not equal tokens: a small network makes more steps with them.",)


def growing(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """One backbone that grows, and the fixed one that it is planned to become."""
    changes.refuse_strategists()
    changes.refuse_baselines()
    start = validate(GrowingBackbone, dict(changes.part), what=f"{BACKBONE} settings")
    beside = "the planned one" if start.starts or start.choices else "the one that it becomes"
    title = f"a backbone that grows while it trains, beside {beside}, with the same budget"
    arms = (start.grown(), start.fixed())
    return _experiment(title, arms, seeds=3 if size == "full" else 1, flops=(2.0 if size == "full" else 0.5) * TERA)


def proof(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """Each edit by itself, and a ladder of all that ends at more than eight times the cost of its start.

    The ladder has all its fixed networks beside it.
    """
    changes.refuse_strategists()
    changes.refuse_baselines()
    recurrences = (InsertEdit(at=0.25, liv="Rec-1", place=2), InsertEdit(at=0.25, liv="Rec-1", place=7))
    planned = ladder().model_copy(update={"tokens": WINDOW})
    single = {
        "depth": planned.model_copy(update={"width": 64, "edits": (StackEdit(at=0.25, times=4),)}),
        "width": planned.model_copy(update={"depth": 8, "edits": (WidenEdit(at=0.25),)}),
        "class": planned.model_copy(update={"depth": 8, "width": 64, "edits": recurrences}),
        "context": planned.model_copy(
            update={"depth": 8, "width": 64, "tokens": WINDOW // 4, "edits": (LengthenEdit(at=0.5, tokens=WINDOW),)}
        ),
    }
    arms = [arm for name, start in single.items() for arm in (start.grown(cell=_of(name)), start.fixed(cell=_of(name)))]
    rungs, cell = ladder(), _of("ladder")
    between = [f"fixed, as after {made} of {len(LADDER)} edits" for made in range(len(LADDER))]
    arms += [rungs.grown(cell=cell), rungs.fixed(cell=cell)]
    arms += [rungs.fixed(made, name, cell) for made, name in enumerate(between) if made != 3]  # windows alone
    return _experiment(
        "what each way of growing a backbone saves, with equal FLOPs",
        arms,
        seeds=5 if size == "full" else 1,
        flops=(1.0 if size == "full" else 0.05) * TERA,
    )


def race_then_grow(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """A race, and edits that forks confirm, beside the race alone, random edits, a ladder and fixed networks."""
    changes.refuse_strategists()
    changes.refuse_baselines()
    start, plan = GrowingBackbone(), ladder()
    events = TryingSettings(count=6, first=0.06, last=0.45)
    tried = start.model_copy(update={"choices": CHOICES, "events": events})
    random = events.model_copy(update={"strategist": "random"})
    fixed = start.model_copy(update={"starts": ()})
    arms = (
        tried.grown("race, then grow"),
        tried.model_copy(update={"events": random}).grown("race, random edits"),
        start.grown("race"),
        tried.model_copy(update={"starts": ()}).grown("edits without a race"),
        plan.grown("planned ladder"),
        plan.fixed(),
        fixed.fixed(name="fixed, before the race"),
        *(
            fixed.model_copy(update={"depth": len(genome.split()), "genome": genome}).fixed(name=f"fixed, {name}")
            for name, genome in _FIXED.items()
        ),
    )
    return _experiment(
        "a race of backbones, then growth that forks confirm, with the same budget",
        arms,
        seeds=5 if size == "full" else 1,
        flops=(1.0 if size == "full" else 0.1) * TERA,
    )


_FIXED = {
    "recurrences": "51111 91111 52121 92121 53131 93131 54141 94141",
    "three classes": "71111 91111 51111 92121 72121 93131 52121 94141",
    "convolutions": "71111 91111 72121 92121",
}
"""Backbones that are trained as they are, from the start."""


def _of(name: str) -> Cell:
    return {"what grows": name}


def _experiment(title: str, arms: Sequence[Variant], *, seeds: int, flops: float) -> ExperimentSettings:
    return ExperimentSettings(
        experiment=Comparison(
            title=title,
            arms=tuple(arms),
            learning_rates=(3e-3,),
            chosen_by="loss",
            seeds=seeds,
            reference=FIXED,
            caveats=CAVEATS,
        ),
        evaluation=NetworkEvaluationSettings(
            task="language",
            task_settings={"context_length": WINDOW},
            training=TrainingSettings(
                budget=Budget(flops=flops),
                optimizer=OptimizerSettings(learning_rate=3e-3, weight_decay=0.1),
                batch_size=8,
                report_every=5,
                checkpoint_every=200,
            ),
            validation_samples=512,
            test_samples=1024,
            curve_points=30,
            curve_samples=64,
            trace_samples=0,
            seconds=24 * 3600.0,
            memory_bytes=8 * 2**30,
        ),
    )


GROWING = Recipe(
    "backbone.growing",
    "a language model that grows in depth, width and context while it trains, beside the fixed one",
    ("grow", "train"),
    growing,
    part=BACKBONE,
)
RACE_THEN_GROW = Recipe(
    "backbone.race_then_grow",
    "a race of backbones, then growth that forks confirm, beside the race alone, a planned ladder and fixed networks",
    ("grow", "train"),
    race_then_grow,
)
GROWTH_PROOF = Recipe(
    "backbone.growth_proof",
    "what stacking, widening, further LIVs and longer windows save, each with the same FLOPs",
    ("grow", "train"),
    proof,
)
