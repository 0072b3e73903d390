"""What a report shows of trainings in which a network grew: plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.experiments.report.model import Picture, Words


@dataclass(frozen=True)
class GrownTraining:
    """One training.

    Args:
        title: of it.
        summary: sentences.
        pictures: its timeline and curves.
        history: a row per edit.
        differing: decisions in which the strategist did otherwise than its prior; None where there are none.
        newborns: each beside its parents.
    """

    title: str
    summary: Sequence[str]
    pictures: Sequence[Picture]
    history: Words
    differing: Words | None = None
    newborns: Sequence[Picture] = ()


@dataclass(frozen=True)
class GrownArm:
    """The trainings of one arm: the one that is shown at once, and the others."""

    name: str
    best: GrownTraining
    others: Sequence[GrownTraining] = ()


@dataclass(frozen=True)
class GrowthPart:
    """The part of a page on growth.

    Args:
        arms: what was done in all arms that could grow.
        decisions: of their strategists, what they were worth, and what growth cost.
        hybrids: how long hybrids lived; None where none was born.
        trainings: of arms that had events.
    """

    arms: Words
    decisions: Words
    hybrids: Words | None = None
    trainings: Sequence[GrownArm] = ()
