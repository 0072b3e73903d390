"""What is trained apart from a training at one of its events, and may become a part of it: forks and races."""

from __future__ import annotations

from dataclasses import dataclass

from evodevo.experiments.trainer import Branch
from evodevo.growth.events.records import EventRecord
from evodevo.growth.races.halving import Prize
from evodevo.training.loop import TrainingResult


@dataclass(frozen=True)
class Onward:
    """A training that goes on from an event.

    Attributes:
        branch: Where it began.
        result: Its result; None where it made no step.
    """

    branch: Branch
    result: TrainingResult | None

    @classmethod
    def of(cls, prize: Prize | None) -> Onward | None:
        """That of a network that a race has trained; None where there was no race."""
        return None if prize is None else cls(prize.branch, prize.result)


@dataclass(frozen=True)
class TrainedApart:
    """What an event trained apart.

    Attributes:
        what: Its name in the account.
        spent: FLOPs beside those that were kept.
        kept: FLOPs of steps that become a part of the training.
        steps: Number of these steps.
    """

    what: str
    spent: float
    kept: float
    steps: int

    @classmethod
    def of(cls, record: EventRecord) -> TrainedApart | None:
        """That of a recorded event; None where it trained nothing apart."""
        fork, race = record.fork, record.race
        if fork is not None:
            made = fork.steps[0] if fork.kept else fork.steps[1]
            return cls("fork", fork.spent, fork.winner_flops, made if fork.winner_flops else 0)
        if race is not None:
            return cls("choice", race.spent, race.winner_flops, race.steps)
        return None
