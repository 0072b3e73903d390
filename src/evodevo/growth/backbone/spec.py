"""The plan of a growing backbone: edits, when each is made or tried, and the length of the first windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from evodevo.backbone.genome import MAX_LIVS
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.spec import BackboneStructure
from evodevo.errors import UsageError
from evodevo.growth.backbone.base import at_depth
from evodevo.growth.backbone.insert import InsertEdit
from evodevo.growth.backbone.lengthen import LengthenEdit
from evodevo.growth.backbone.remove import RemoveEdit
from evodevo.growth.backbone.stack import StackEdit
from evodevo.growth.backbone.widen import WidenEdit
from evodevo.growth.schedule import evenly
from evodevo.growth.spec import ForkSettings
from evodevo.settings import Settings

STAGES = "stages"
"""Name of the fact about the segments of a training; see ``procedure.train_growing``."""
Edit = Annotated[StackEdit | InsertEdit | WidenEdit | LengthenEdit | RemoveEdit, Field(discriminator="kind")]


class TryingSettings(Settings):
    """The events at which one of several edits is tried. Shares are fractions of the budget, 0 to 1.

    Attributes:
        count: Number of events.
        first, last: Share of the budget at which the first and the last event come, evenly spaced.
        strategist: How an edit is chosen of those that can be made: ``in_turn``, the one that was tried longest ago;
            ``random``, any of them. An edit that was refused can be tried again once another one was kept.
    """

    count: int = Field(default=4, ge=1, le=64)
    first: float = Field(default=0.05, gt=0, lt=1)
    last: float = Field(default=0.35, gt=0, lt=1)
    strategist: Literal["in_turn", "random"] = "in_turn"

    @model_validator(mode="after")
    def _first_before_last(self) -> Self:
        if self.first > self.last or (self.first == self.last and self.count > 1):
            raise ValueError(f"the first event comes at {self.first}, and the last of {self.count} at {self.last}")
        return self


class BackboneRaceSettings(Settings):
    """The race at the start.

    Attributes:
        share: Largest share of the budget for it, above 0 and below 1; what follows has what is left.
        samples: Number of windows of the ``architecture`` split by which a network is judged.
        least: Fewest steps of a network in a rung; networks that the share has no room for are left out, the dearest
            first.
        judge: Criterion by which networks go on. ``loss``: the loss so far. ``trend``: the loss to which its fall leads
            in eight times as many steps (``racing.plan.expected_loss``); each network is judged once more in its first
            rung then.
    """

    share: float = Field(default=0.15, gt=0, lt=1)
    samples: int = Field(default=128, ge=1)
    least: int = Field(default=30, ge=1, le=100_000)
    judge: Literal["loss", "trend"] = "trend"


@dataclass(frozen=True)
class GrowthMoment:
    """A moment at which the network may change.

    Attributes:
        at: Share of the budget, 0 to 1.
        edits: Edits that are made; none where one of the choices is tried.
    """

    at: float
    edits: tuple[Edit, ...]


class GrowthPlan(Settings):
    """Options of the procedure ``grow_backbone``.

    Attributes:
        tokens: Tokens of a training window at the start; those of the task if left out.
        edits: Edits that are made, in their order; several may be made at once.
        choices: Edits without ``at``, one of which is tried at each event, in a fork that keeps it where it pays.
        events: When, and which.
        forks: The forks; their share is above 0 where there are choices.
        starts: Genomes as written, or named backbones, that race with the planned one for the start; of its space, with
            any number of LIVs.
        race: That race.
    """

    tokens: int | None = Field(default=None, ge=2)
    edits: tuple[Edit, ...] = Field(default=(), max_length=64)
    choices: tuple[Edit, ...] = Field(default=(), max_length=64, exclude_if=lambda value: not value)
    events: TryingSettings = Field(default=TryingSettings(), exclude_if=lambda value: value == TryingSettings())
    forks: ForkSettings = Field(default=ForkSettings(), exclude_if=lambda value: value == ForkSettings())
    starts: tuple[str, ...] = Field(default=(), max_length=32, exclude_if=lambda value: not value)
    race: BackboneRaceSettings = Field(
        default=BackboneRaceSettings(), exclude_if=lambda value: value == BackboneRaceSettings()
    )

    @model_validator(mode="after")
    def _planned_or_chosen(self) -> Self:
        if any(edit.at is not None for edit in self.choices):
            raise ValueError("choices have no share 'at': events say when they are tried")
        if self.choices and not self.forks.share:
            raise ValueError("of choices a fork keeps what pays: give forks a share of the budget, as 0.15")
        shares = [edit.at for edit in self.edits if edit.at is not None]
        if len(shares) < len(self.edits):
            raise ValueError("each of the edits has a share 'at' after which it is made")
        if shares != sorted(shares):
            raise ValueError(f"edits are made in the order of their shares 'at'; these are {shares}")
        return self

    @property
    def judges(self) -> bool:
        """Whether networks are judged on the way, on samples of a split of its own."""
        return bool(self.starts or self.choices)

    @property
    def moments(self) -> tuple[GrowthMoment, ...]:
        """The moments at which edits are made or tried, in order; at one share those that are made come first."""
        made = dict.fromkeys(edit.at for edit in self.edits if edit.at is not None)
        planned = [GrowthMoment(at, tuple(edit for edit in self.edits if edit.at == at)) for at in made]
        events = self.events
        tried = [GrowthMoment(at, ()) for at in evenly(events.count, events.first, events.last)] if self.choices else []
        return tuple(sorted([*planned, *tried], key=lambda moment: moment.at))

    def structures(self, start: BackboneStructure) -> list[BackboneStructure]:
        """The structure at the start and after each edit.

        Raises:
            UsageError, GenomeError: A backbone that cannot be edited so.
        """
        found = [start]
        for edit in self.edits:
            found.append(edit.after(found[-1]))
        return found

    def lengths(self, task: int) -> list[int]:
        """Tokens of a training window at the start and after each edit.

        Args:
            task: Tokens of a window of the task.

        Raises:
            UsageError: Windows of the task that cannot be cut into such.
        """
        found = [task if self.tokens is None else self.tokens]
        for edit in self.edits:
            found.append(edit.length(found[-1]))
        for length in found:
            if task % length:
                raise UsageError(f"windows of {task} tokens cannot be cut into windows of {length}.")
        return found


def starts_of(planned: BackboneStructure, genomes: Sequence[str]) -> tuple[BackboneStructure, ...]:
    """The planned backbone and those of these genomes, each once.

    Raises:
        UsageError, GenomeError: A genome that is none of the space with its number of LIVs.
    """
    own, planned_genome = planned.parse()
    space = BackboneSpace(planned.space.model_copy(update={"depth_range": (1, MAX_LIVS)}))
    found = {own.title(planned_genome): planned}
    for genome in genomes:
        parsed = space.parse(genome)
        found.setdefault(space.title(parsed), at_depth(planned, parsed))
    return tuple(found.values())
