"""Language models that grow while they train, beside the ones that begin as they end.

All arms of a comparison end when they have computed as many FLOPs, measurements around edits counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.spec import BackboneStructure
from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Cell, Variant
from evodevo.growth.backbone.insert import InsertEdit
from evodevo.growth.backbone.lengthen import LengthenEdit
from evodevo.growth.backbone.remove import RemoveEdit
from evodevo.growth.backbone.rows import GROW_BACKBONE
from evodevo.growth.backbone.spec import BackboneRaceSettings, Edit, GrowthPlan, TryingSettings
from evodevo.growth.backbone.stack import StackEdit
from evodevo.growth.backbone.widen import WidenEdit
from evodevo.growth.spec import ForkSettings
from evodevo.runs.recipe import Changes, Driver, Recipe, Size
from evodevo.settings import Settings, validate
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

BACKBONE = "backbone"
"""What ``--set`` changes of a growing backbone: ``--set backbone.width=64``."""
GROWN, FIXED = "grown", "fixed"
WINDOW = 128
HEAD = 16
CLASSES = ("SA-1", "GMemless")
"""Of ``transformer++``; classes that share keys among heads need more heads than a narrow backbone has."""
TERA = 1e12
CAVEATS = ("Equal FLOPs are not equal tokens: a small network makes more steps with them.",)
WIDER = (*CLASSES, "Rec-1", "GConv-1")
"""Classes of the space in which backbones race and grow."""
LADDER: tuple[Edit, ...] = (
    StackEdit(at=0.1),
    WidenEdit(at=0.2),
    LengthenEdit(at=0.3, tokens=WINDOW),
    StackEdit(at=0.3),
)


STARTS = (
    "71111 91111",
    "51111 91111",
    "71111 91111 72121 92121",
    "51111 91111 52121 92121",
    "11111 91111 71111 92121",
)
"""Convolutions, recurrences, and attention with convolutions, each with memoryless LIVs between."""
CHOICES: tuple[Edit, ...] = (
    InsertEdit(liv="Rec-1", place=1),
    InsertEdit(liv="GConv-1", place=1),
    LengthenEdit(tokens=WINDOW),
    RemoveEdit(liv="SA-1"),
    InsertEdit(liv="Rec-1"),
    InsertEdit(liv="GMemless"),
)


class GrowingBackbone(Settings):
    """A backbone at the start of its training, and what is done to it.

    Attributes:
        genome: Genome as written, or a named backbone.
        depth: Number of LIVs.
        width: Channels of the residual stream.
        head_size: Channels of a head; widening keeps them.
        classes: LIV classes of its space; None for the paper's.
        tokens: Tokens of a training window at the start; those of the task if left out.
        edits: Edits that are made, in their order.
        choices: Edits without a share ``at``, one of which is tried at each event, in a fork that keeps it where it
            pays; where they are given, ``edits`` are none if left out.
        events: When, and which.
        forks: The forks.
        starts: Genomes as written, or named backbones, that race with ``genome`` for the start.
        race: That race.
    """

    genome: str = "transformer++"
    depth: int = Field(default=2, ge=1)
    width: int = Field(default=32, ge=8)
    head_size: int = Field(default=HEAD, ge=2)
    classes: tuple[str, ...] | None = CLASSES
    tokens: int | None = Field(default=WINDOW // 2, ge=2)
    edits: tuple[Edit, ...] = LADDER
    choices: tuple[Edit, ...] = ()
    events: TryingSettings = TryingSettings()
    forks: ForkSettings = ForkSettings()
    starts: tuple[str, ...] = ()
    race: BackboneRaceSettings = BackboneRaceSettings()

    @property
    def plan(self) -> GrowthPlan:
        """Options of the procedure.

        Raises:
            UsageError: Edits in another order than that of their shares, or choices without forks.
        """
        values = self.model_dump(mode="json", include=set(GrowthPlan.model_fields))
        if self.choices and "edits" not in self.model_fields_set:
            values["edits"] = []
        return validate(GrowthPlan, values, what=f"{BACKBONE} settings")

    def structures(self) -> list[BackboneStructure]:
        """The backbone at the start and after each edit."""
        dimensions = {"width": self.width, "head_size": self.head_size}
        values = {
            "space": {"depth": self.depth, "classes": self.classes, "dimensions": dimensions},
            "genome": self.genome,
        }
        return self.plan.structures(validate(BackboneStructure, values, what="the backbone at the start"))

    def grown(self, name: str = GROWN, cell: Cell | None = None) -> Variant:
        """The arm that grows."""
        network = BackboneNetwork(structure=self.structures()[0])
        options = self.plan.model_dump(mode="json")
        return Variant(
            name=name, role="other", network=network, procedure=GROW_BACKBONE, options=options, cell=cell or {}
        )

    def fixed(self, after: int = -1, name: str = FIXED, cell: Cell | None = None) -> Variant:
        """The arm that is from the start what the other one is after so many edits; after all if left out."""
        network = BackboneNetwork(structure=self.structures()[after])
        return Variant(name=name, role="transformer", network=network, cell=cell or {})


def raced(**more: Any) -> GrowingBackbone:
    """A backbone that begins with what a race chose, and is edited where a fork confirms it."""
    return GrowingBackbone(
        width=64,
        classes=WIDER,
        edits=(),
        starts=STARTS,
        choices=CHOICES,
        events=TryingSettings(count=6, first=0.06, last=0.45),
        forks=ForkSettings(share=0.15, samples=128, least=20, orders=0, paired=True, average=0.5),
    ).model_copy(update=more)


def growing(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """One backbone that grows, and the fixed one that it becomes."""
    changes.refuse_strategists()
    changes.refuse_baselines()
    start = validate(GrowingBackbone, dict(changes.part), what=f"{BACKBONE} settings")
    title = "a backbone that grows while it trains, beside the one that it becomes, with equal FLOPs"
    arms = (start.grown(), start.fixed())
    return _experiment(title, arms, seeds=3 if size == "full" else 1, flops=(2.0 if size == "full" else 0.1) * TERA)


def proof(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """Each edit by itself, and a ladder of all that ends at more than eight times the cost of its start.

    The ladder has all its fixed networks beside it.
    """
    changes.refuse_strategists()
    changes.refuse_baselines()
    deep = {"depth": 8, "width": 64, "tokens": WINDOW}
    single = {
        "depth": GrowingBackbone(depth=2, width=64, tokens=WINDOW, edits=(StackEdit(at=0.25, times=4),)),
        "width": GrowingBackbone(depth=8, width=32, tokens=WINDOW, edits=(WidenEdit(at=0.25),)),
        "class": GrowingBackbone.model_validate(
            {**deep, "edits": (InsertEdit(at=0.25, liv="Rec-1", place=2), InsertEdit(at=0.25, liv="Rec-1", place=7))}
        ),
        "context": GrowingBackbone.model_validate(
            {**deep, "tokens": WINDOW // 4, "edits": (LengthenEdit(at=0.5, tokens=WINDOW),)}
        ),
    }
    arms = [arm for name, start in single.items() for arm in (start.grown(cell=_of(name)), start.fixed(cell=_of(name)))]
    ladder, cell = GrowingBackbone(), _of("ladder")
    between = [f"fixed, as after {made} of {len(LADDER)} edits" for made in range(len(LADDER))]
    arms += [ladder.grown(cell=cell), ladder.fixed(cell=cell)]
    arms += [ladder.fixed(made, name, cell) for made, name in enumerate(between) if made != 3]  # windows alone
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
    start, plan = raced(), GrowingBackbone()
    random = start.events.model_copy(update={"strategist": "random"})
    alone = {"starts": (), "choices": (), "forks": ForkSettings()}
    arms = (
        start.grown("race, then grow"),
        raced(events=random).grown("race, random edits"),
        raced(choices=(), forks=ForkSettings()).grown("race"),
        raced(starts=()).grown("edits without a race"),
        plan.grown("planned ladder"),
        plan.fixed(),
        raced(**alone).fixed(name="fixed, before the race"),
        raced(**alone, depth=8, genome=_RECURRENT).fixed(name="fixed, recurrences"),
        raced(**alone, depth=8, genome=_HYBRID).fixed(name="fixed, three classes"),
        raced(**alone, depth=4, genome=_CONVOLUTIONS).fixed(name="fixed, convolutions"),
    )
    return _experiment(
        "a race of backbones, then growth that forks confirm, with equal FLOPs",
        arms,
        seeds=5 if size == "full" else 1,
        flops=(1.0 if size == "full" else 0.1) * TERA,
    )


_RECURRENT = "51111 91111 52121 92121 53131 93131 54141 94141"
_CONVOLUTIONS = "71111 91111 72121 92121"
_HYBRID = "71111 91111 51111 92121 72121 93131 52121 94141"


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
