"""The score of a path of a multitask system: its accuracy, discounted by its accounted parameters and its FLOPs.

Source: docs/spec/munet.md#score; µNet (2205.10937). A parameter that several agents use is split
evenly among them, so that the accounts of all agents add up to the distinct parameters of the system.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from evodevo.errors import UsageError
from evodevo.settings import Settings


class ScoreSettings(Settings):
    """The discount for size and work. A factor whose base is 0 is left out."""

    scale: float = Field(default=0.98, gt=0, le=1, description="factor of a path as large as the base; 1 = no cost")
    base_parameters: float | None = Field(default=None, ge=0, description="parameters; None = those of the root")
    base_flops: float | None = Field(default=None, ge=0, description="FLOPs of a sample; None = those of the root")


@dataclass(frozen=True)
class PathCost:
    """The accounted cost of a path, known before it is trained: it does not depend on weights.

    Attributes:
        accounted: number of parameters, shared ones in part.
        flops: FLOPs of one forward pass at batch 1, at the path's image size.
        factor: factor of its accuracy, in (0, 1].
    """

    accounted: float
    flops: float
    factor: float


NO_COST = ScoreSettings(scale=1.0, base_parameters=0.0, base_flops=0.0)
"""Settings of multipath agents: the score is the accuracy."""


def cost(accounted: float, flops: float, settings: ScoreSettings, root: tuple[float, float]) -> PathCost:
    """The discount of a path.

    Args:
        accounted: number of accounted parameters.
        flops: FLOPs of a sample.
        settings: settings of the score.
        root: parameters and FLOPs of the system's root; bases where the settings name none.
    """
    bases = (settings.base_parameters, settings.base_flops)
    factor = 1.0
    for amount, given, of_root in zip((accounted, flops), bases, root, strict=True):
        base = of_root if given is None else given
        if base:
            factor *= settings.scale ** (amount / base)
    return PathCost(accounted, flops, factor)


def score(quality: float | None, factor: float) -> float | None:
    """``quality · factor``; None where there is no quality, and None is never compared.

    Raises:
        UsageError: a quality below 0.
    """
    if quality is None or math.isnan(quality):
        return None
    if quality < 0:
        raise UsageError(f"a quality is an accuracy in [0, 1]; got {quality}.")
    return quality * factor


def bar(parent_score: float | None, *, counts: bool) -> float | None:
    """The score that a child has to exceed: its parent's, or None for no bar.

    Args:
        parent_score: None where it was never scored.
        counts: whether the parent is a path of the same agent (in earlier code: of the same task). A path of others,
            a root and a path drawn at random set no bar.
    """
    return parent_score if counts else None


def quality_bar(bar: float | None, factor: float) -> float | None:
    """The bar in terms of accuracy, for a worker: ``quality > quality_bar`` exactly where ``quality · factor > bar``.

    ``bar / factor`` alone would not do: accuracies tie all the time, and one rounding would call a tie an improvement.

    Args:
        bar: bar of scores.
        factor: factor of the child's accuracy.
    """
    if bar is None:
        return None
    quality = bar / factor
    while quality * factor > bar:
        quality = math.nextafter(quality, -math.inf)
    while math.nextafter(quality, math.inf) * factor <= bar:
        quality = math.nextafter(quality, math.inf)
    return quality


def kept_evaluation(evals: Sequence[float | None], quality_bar: float | None) -> int | None:
    """Index of the evaluation whose weights are kept: the best, and of equals the first (µ4Net).

    Args:
        evals: validation accuracies in the order of training; None or NaN are never kept.
        quality_bar: has to be exceeded, else the child is discarded (None); no bar lets any pass.
    """
    kept = None
    for place, value in enumerate(evals):
        if value is None or math.isnan(value):
            continue
        if quality_bar is None or value > quality_bar:
            kept, quality_bar = place, value
    return kept
