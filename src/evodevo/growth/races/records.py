"""What every race within a training leaves in its record: plain data."""

from __future__ import annotations

from pydantic import Field

from evodevo.settings import NEW, Settings


class RaceRecord(Settings):
    """The outcome of a race within a training; each kind of race has a subclass.

    Attributes:
        instead: Reason why there was no race; empty where there was one, or nothing to choose.
        winner_flops: FLOPs of the race's steps that were kept.
        steps: Number of these steps.
        spent: All other FLOPs of the choice: judgements, and the steps of the others.
    """

    instead: str = ""
    winner_flops: float = Field(default=0.0, ge=0)
    steps: int = Field(default=0, ge=0)
    spent: float = Field(default=0.0, ge=0)


class RaceSettings(Settings):
    """What every race within a training needs; each kind of race has a subclass with defaults.

    Attributes:
        share: Largest share of the budget for the races, everything counted, 0 to 1; 0 for none.
        networks: Largest number of networks that race, at least 2.
        samples: Number of samples of the ``architecture`` split by which a network is judged.
        least: Fewest steps of a network in a rung.
        average: Share of the steps of a rung, the last ones, over which weights are averaged before they are judged, 0
            to 1; 0 for the last weights. What goes on has the last weights.
    """

    share: float = Field(default=0.0, ge=0, lt=1)
    networks: int = Field(default=9, ge=2, le=64)
    samples: int = Field(default=256, ge=1)
    least: int = Field(default=20, ge=1, le=100_000)
    average: float = Field(default=0.0, ge=0, le=1, json_schema_extra={NEW: 0.5}, exclude_if=lambda value: not value)
