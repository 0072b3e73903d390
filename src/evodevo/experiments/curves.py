"""Curves of trainings over steps, FLOPs and seconds: read at a budget, averaged over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

Points = tuple[tuple[float, float], ...]
BUDGETS = ("steps", "flops", "seconds")


def _over(series: Mapping[str, Points], name: str, budget: str) -> Points:
    if budget == "steps":
        places = {step: step for step, _ in series.get("validation_error", ())}
    else:
        places = dict(series.get(budget, ()))  # step -> FLOPs or seconds used up at it
    return tuple((places[step], value) for step, value in series.get(name, ()) if step in places)


def accuracy_at(series: Mapping[str, Points], budget: str, amount: float) -> float | None:
    """Validation accuracy when so much is used up, on the line between the measurements; None before the first."""
    before: tuple[float, float] | None = None
    for x, error in _over(series, "validation_error", budget):
        if x >= amount * (1 - 1e-9):
            if before is None or x <= amount * (1 + 1e-9):
                return 1.0 - error if before is not None or x <= amount * (1 + 1e-9) else None
            share = (amount - before[0]) / (x - before[0])
            return 1.0 - (before[1] + share * (error - before[1]))
        before = (x, error)
    return None if before is None else 1.0 - before[1]


def mean_curves(series: Sequence[Mapping[str, Points]]) -> dict[str, Points]:
    """Over steps, FLOPs and seconds: point by point the mean over seeds, which are measured at equal shares."""
    means: dict[str, Points] = {"train_loss": _mean_points([curves.get("train_loss", ()) for curves in series])}
    for name in ("validation_error", "validation_loss"):
        for budget in BUDGETS:
            means[f"{name} over {budget}"] = _mean_points([_over(curves, name, budget) for curves in series])
    for name in dict.fromkeys(name for curves in series for name in curves if _is_extra(name)):
        means[name] = _mean_points([curves.get(name, ()) for curves in series])
    return {name: points for name, points in means.items() if points}


def _is_extra(name: str) -> bool:
    """Whether only some trainings have this series over steps: the metric that selects weights, terms of the loss."""
    return name.startswith(("loss/", "validation_")) and name not in ("validation_error", "validation_loss")


def _mean_points(each: Sequence[Points]) -> Points:
    return tuple(
        (fmean(x for x, _ in together), fmean(y for _, y in together)) for together in zip(*each, strict=False)
    )
