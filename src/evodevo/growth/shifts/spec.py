"""Settings of a shift of the training data, as plain data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evodevo.growth.races.records import RaceSettings
from evodevo.settings import NEW, Settings
from evodevo.tasks.before_shift import ShiftKind


class ShiftRaceSettings(RaceSettings):
    """The race that decides which network goes on at a shift (``growth.shifts``).

    Attributes:
        share: Largest share of the budget for the race, everything counted, 0 to 1; 0 for none: the network goes on.
        networks: Largest number of networks that race, at least 2.
        samples: Number of samples of the ``architecture`` split of the new data by which a network is judged.
        least: Fewest steps of a network in a rung.
        average: As in ``RaceSettings``.
        judge: Criterion by which networks go on. ``loss``: the loss so far. ``trend``: the loss to which its fall leads
            in eight times as many steps (``racing.plan.expected_loss``); each network is judged once more in its first
            rung then.
    """

    share: float = Field(default=0.0, ge=0, lt=1)
    networks: int = Field(default=16, ge=2, le=64)
    samples: int = Field(default=512, ge=1)
    least: int = Field(default=20, ge=1, le=100_000)
    judge: Literal["loss", "trend"] = "loss"


class ShiftSettings(Settings):
    """A shift of the training data in the middle of a training.

    Attributes:
        kind: What appears at the shift: ``classes`` (before it only samples of the first half of the classes, rounded
            up, are drawn) or ``modality`` (before it the samples lack an input); None for no shift.
        at: Share of the whole budget at which it comes, above 0 and below 1.
        lacks: Name of the input that appears; None for the last one of the task.
        race: How the network that goes on is chosen there.
        restart: Whether the learning rate is the highest again there, and falls from then on until the end.
    """

    kind: ShiftKind | None = None
    at: float = Field(default=0.5, gt=0, lt=1)
    lacks: str | None = Field(default=None, min_length=1, max_length=60)
    race: ShiftRaceSettings = ShiftRaceSettings()
    restart: bool = Field(default=False, json_schema_extra={NEW: True}, exclude_if=lambda value: not value)
