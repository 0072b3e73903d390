"""Arms of comparisons of growing backbones: what one begins as, and what is done to it."""

from __future__ import annotations

from pydantic import Field

from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.spec import BackboneStructure
from evodevo.experiments.trials import Cell, Variant
from evodevo.growth.backbone.insert import InsertEdit
from evodevo.growth.backbone.lengthen import LengthenEdit
from evodevo.growth.backbone.remove import RemoveEdit
from evodevo.growth.backbone.rows import GROW_BACKBONE
from evodevo.growth.backbone.spec import BackboneRaceSettings, Edit, GrowthPlan, TryingSettings
from evodevo.growth.backbone.stack import StackEdit
from evodevo.growth.backbone.widen import WidenEdit
from evodevo.growth.spec import ForkSettings
from evodevo.settings import Settings, validate

BACKBONE = "backbone"
"""What ``--set`` changes of a growing backbone: ``--set backbone.width=64``."""
GROWN, FIXED = "grown", "fixed"
WINDOW = 128
HEAD = 16
CLASSES = ("SA-1", "GMemless")
"""Of ``transformer++``; classes that share keys among heads need more heads than a narrow backbone has."""
WIDER = (*CLASSES, "Rec-1", "GConv-1")
"""Classes of the space in which backbones race and are tried."""
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
FORKS = ForkSettings(share=0.15, samples=128, least=20, orders=0, paired=True, average=0.5)
"""Short ones, judged on few windows: a window is 128 answers."""


class GrowingBackbone(Settings):
    """A backbone at the start of its training, and what is done to it.

    Attributes:
        genome: Genome as written, or a named backbone.
        depth: Number of its LIVs.
        width: Channels of the residual stream.
        head_size: Channels of a head; widening keeps them.
        classes: LIV classes of its space; None for the paper's.
        tokens: Tokens of a training window at the start; those of the task if left out.
        starts: Genomes as written, or named backbones, that race with ``genome`` for the start.
        race: That race.
        edits: Edits that are made, in their order.
        choices: Edits without a share ``at``, one of which is tried at each event, in a fork that keeps it where it
            pays.
        events: When, and which.
        forks: The forks.
    """

    genome: str = "transformer++"
    depth: int = Field(default=2, ge=1)
    width: int = Field(default=64, ge=8)
    head_size: int = Field(default=HEAD, ge=2)
    classes: tuple[str, ...] | None = WIDER
    tokens: int | None = Field(default=WINDOW // 2, ge=2)
    starts: tuple[str, ...] = STARTS
    race: BackboneRaceSettings = BackboneRaceSettings()
    edits: tuple[Edit, ...] = ()
    choices: tuple[Edit, ...] = ()
    events: TryingSettings = TryingSettings()
    forks: ForkSettings = FORKS

    @property
    def plan(self) -> GrowthPlan:
        """Options of the procedure; without those of what does not happen.

        Raises:
            UsageError: Edits in another order than that of their shares, or choices without forks.
        """
        values = self.model_dump(mode="json", include=set(GrowthPlan.model_fields))
        unused = [*([] if self.choices else ["events", "forks"]), *([] if self.starts else ["race"])]
        kept = {name: value for name, value in values.items() if name not in unused}
        return validate(GrowthPlan, kept, what=f"{BACKBONE} settings")

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
        options = self.plan.model_dump(mode="json", exclude_none=True)  # a settings file has no null
        return Variant(
            name=name, role="other", network=network, procedure=GROW_BACKBONE, options=options, cell=cell or {}
        )

    def fixed(self, after: int = -1, name: str = FIXED, cell: Cell | None = None) -> Variant:
        """The arm that is from the start what the other one is after so many edits; after all if left out."""
        network = BackboneNetwork(structure=self.structures()[after])
        return Variant(name=name, role="transformer", network=network, cell=cell or {})


def ladder() -> GrowingBackbone:
    """A narrow transformer that is stacked, widened, lengthened and stacked again by a plan."""
    return GrowingBackbone(width=32, classes=CLASSES, starts=(), edits=LADDER)
