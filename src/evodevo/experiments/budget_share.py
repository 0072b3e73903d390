"""The share of a whole budget that a training has used up, for those who watch it; no torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evodevo.training.settings import Budget


@dataclass(frozen=True)
class Used:
    """What all stages of a training have used up together."""

    steps: int
    tokens: int
    seconds: float
    flops: float


def share_of_budget(budget: Budget, used: Used, tokens_per_step: int) -> float:
    """Share of the limit that is reached first, 0 to 1; of tokens only whole steps can be made."""
    shares = [0.0]
    if budget.steps is not None:
        shares.append(used.steps / budget.steps)
    if budget.tokens is not None:
        whole = budget.tokens - budget.tokens % tokens_per_step
        shares.append(used.tokens / max(whole, tokens_per_step))
    if budget.seconds is not None:
        shares.append(used.seconds / budget.seconds)
    if budget.flops is not None:
        shares.append(used.flops / budget.flops)
    return min(max(shares), 1.0)


def seconds_of_facts(facts: Mapping[str, Any]) -> list[float]:
    """Seconds of judgements and timings beside the stages: facts of a value and its seconds alone."""
    measured = (fact for fact in facts.values() if isinstance(fact, dict))
    return [fact["seconds"] for fact in measured if set(fact) == {"value", "seconds"}]
