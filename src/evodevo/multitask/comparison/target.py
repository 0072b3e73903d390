"""The target of ``multitask.characters``: accuracy and parameters of an arm, beside those of full fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from evodevo.experiments.paired import paired_mean
from evodevo.multitask.comparison.results import percent, points
from evodevo.multitask.recipes.characters import MARGIN, STRETCH_SHARE, TARGET_SHARE


def target_of(ours: Sequence[float], theirs: Sequence[float], share: float, without_root: float) -> dict[str, Any]:
    """Whether an arm reaches the target, as the document of the recipe has it.

    Args:
        ours, theirs: test accuracy of each copy, 0 to 1, of the arm and of full fine-tuning.
        share: parameters per task of the arm, as a share of those of full fine-tuning.
        without_root: the same, where the root is not counted for full fine-tuning.
    """
    above, gap = fmean(ours) - fmean(theirs), paired_mean(ours, theirs)
    return {
        "difference": above,
        "low": None if gap is None else gap.low,
        "high": None if gap is None else gap.high,
        "margin": MARGIN,
        "not_inferior": None if gap is None else gap.low >= -MARGIN,
        "share": share,
        "share_without_the_root_of_fine_tuning": without_root,
        "allowed_share": TARGET_SHARE,
        "stretch_share": STRETCH_SHARE,
        "reached": above > 0 and share <= TARGET_SHARE,
        "stretch": above > 0 and share <= STRETCH_SHARE,
    }


def target_words(letter: str, target: dict[str, Any]) -> str:
    """The sentence about an arm's target.

    Args:
        letter: letter of the arm.
        target: as ``target_of`` makes it.
    """
    reached, low, stretch = target["reached"], target["low"], target["stretch"]
    verdict = f"{'reached' if reached else 'not reached'}{', and the stretch goal' if stretch else ''}"
    over = "" if low is None else f" ({points(low)} to {points(target['high'])} over the copies)"
    margin = f"inferior by more than {percent(target['margin'])} points"
    inferior = {None: "", True: f", so it is not {margin}", False: f", which may be {margin}"}[target["not_inferior"]]
    return (
        f"target {verdict}: ({letter}) is {points(target['difference'])} points from (b){over}{inferior}; it has"
        f" {percent(target['share'])} % of its parameters per task (at most {percent(target['allowed_share'])} %,"
        f" stretch goal {percent(target['stretch_share'])} %);"
        f" {percent(target['share_without_the_root_of_fine_tuning'])} % where the root is not counted for (b)."
    )
