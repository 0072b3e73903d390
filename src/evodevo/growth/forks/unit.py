"""The unit in which forks are planned and charged: FLOPs, or seconds where the budget is in seconds; no torch here."""

from __future__ import annotations

from typing import Literal

from evodevo.training.settings import Budget

Unit = Literal["flops", "seconds"]
NO_UNIT = (
    "forks are charged in FLOPs or in seconds: give a budget in FLOPs alone (--budget 2Tflops) or in seconds alone "
    "(--budget 5m), or {}."
)
"""Refusal of a budget, with what else would do."""


def unit_of(budget: Budget) -> Unit | None:
    """The unit of a budget that has no other limit, and in which forks can be charged; None where there is none."""
    if budget.steps is not None or budget.tokens is not None:
        return None
    if (budget.flops is None) == (budget.seconds is None):
        return None
    return "seconds" if budget.flops is None else "flops"


def amount_in_words(amount: float, unit: Unit) -> str:
    """``2e+12 FLOPs``, ``60 seconds``."""
    return f"{amount:.3g} {'FLOPs' if unit == 'flops' else 'seconds'}"
