"""What growing saved: the share of its FLOPs after which a training reached the loss of another one's end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from evodevo.experiments.comparison import series_of
from evodevo.experiments.trials import Trial
from evodevo.runs.archive import Individual, Run

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Reached:
    """One training beside that of the fixed network with the same seed.

    Attributes:
        individual: The training.
        flops: FLOPs until its validation loss was that of the other one at its end, as a share of the other's FLOPs;
            None where it never was.
        steps: The same in steps, which are tokens where both have batches of as many tokens.
    """

    individual: Individual
    flops: float | None
    steps: float | None


def first_at(losses: Points, target: float) -> float | None:
    """Place at which a curve first falls to a loss, between two points by linear interpolation.

    Args:
        losses: (place, loss) in order of the places.
        target: The loss.
    """
    for number, (place, loss) in enumerate(losses):
        if loss <= target:
            if not number or losses[number - 1][1] <= loss:
                return place
            before, high = losses[number - 1]
            return before + (place - before) * (high - target) / (high - loss)
    return None


def reached(run: Run, reference: str) -> list[Reached]:
    """Every training but those of the reference, in order, where both have curves.

    Args:
        run: An experiment.
        reference: Name of the arm whose losses are to be reached, in each cell.
    """
    trainings = [(individual, individual.genome) for individual in run.individuals()]
    ends: dict[object, tuple[float, float, float]] = {}
    for individual, trial in trainings:
        series = series_of(individual)
        if trial.name == reference and series.get("validation_loss"):
            steps, loss = series["validation_loss"][-1]
            ends[_beside(trial)] = loss, series["flops"][-1][1], steps
    found = []
    for individual, trial in trainings:
        series = series_of(individual)
        if trial.name == reference or _beside(trial) not in ends or not series.get("validation_loss"):
            continue
        loss, flops, steps = ends[_beside(trial)]
        at = first_at(series["validation_loss"], loss)
        cost = None if at is None else _between(series["flops"], at) / flops
        found.append(Reached(individual, cost, None if at is None else at / steps))
    return found


def _beside(trial: Trial) -> object:
    return tuple(sorted((str(key), str(value)) for key, value in trial.cell.items())), trial.learning_rate, trial.seed


def _between(points: Points, place: float) -> float:
    """Value of a curve at a place, by linear interpolation."""
    for (before, low), (after, high) in pairwise(points):
        if before <= place <= after:
            return low + (high - low) * (place - before) / (after - before)
    return points[0][1] if place < points[0][0] else points[-1][1]
