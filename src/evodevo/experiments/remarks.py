"""What trainings of an arm have to say in words: what was searched, where they stopped, which metrics are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evodevo.objectives.base import answer_objectives

Facts = Mapping[str, Any]

_FIRST = ("accuracy", "answer", "exact", "f1_micro")
_LAST = ("bits_per_byte", "loss")


def headlines() -> tuple[str, ...]:
    """Metrics in the order of a table's columns; the report and ``--json`` have all."""
    return (*_FIRST, *(objective.metric for objective in answer_objectives()), *_LAST)


def remarks(trainings: Sequence[Facts]) -> tuple[str, ...]:
    """Sentences on the trainings of one arm.

    Args:
        trainings: the facts of each.
    """
    return (*_searches(trainings), *_selections(trainings), *_growths(trainings), *_reasons(trainings))


def _searches(trainings: Sequence[Facts]) -> list[str]:
    searches = [one["search"] for one in trainings if "search" in one]
    if not searches:
        return []
    tried, steps = (sorted({one[name] for one in searches if name in one}) for name in ("tried", "steps"))
    networks = "network" if tried == [1] else "networks"
    found = [f"its search tried {_numbers(tried)} {networks} in {_numbers(steps)} steps"]
    chosen = Counter(", ".join(one["chosen"]) for one in searches if "chosen" in one)
    if chosen:
        found[0] += "; it chose " + "; ".join(_times(what, count, len(searches)) for what, count in chosen.items())
    if any("collapsed" in one for one in searches):
        collapsed = [one["collapsed"] for one in searches if one.get("collapsed")]
        how = f" ({'; '.join(dict.fromkeys(collapsed))})" if collapsed else ""
        found.append(f"its search collapsed in {len(collapsed)} of {len(searches)} trainings{how}")
    return found


def _selections(trainings: Sequence[Facts]) -> list[str]:
    last = [one["selection"][-1] for one in trainings if one.get("selection")]
    if not last:
        return []
    found = []
    metrics = ", ".join(dict.fromkeys(one["metric"] for one in last))
    steps = _numbers(sorted({one["step"] for one in last}))
    found.append(f"its weights are those of step {steps}, the best by validation {metrics}")
    stopped = sorted(one["stopped"] for one in last if one["stopped"] is not None)
    if stopped:
        found.append(f"stopped early in {len(stopped)} of {len(last)} trainings, at step {_numbers(stopped)}")
    found += dict.fromkeys(one["instead"] for one in last if one["instead"])
    return found


def _growths(trainings: Sequence[Facts]) -> list[str]:
    """Of trainings whose growth cost more than it may."""
    grown = [one["growth"].get("overhead", {}) for one in trainings if one.get("growth")]
    over = [one for one in grown if one.get("exceeded")]
    if not over:
        return []
    most = max(one["flops_share"] for one in over)
    sentence = (
        f"growing took up to {100 * most:.1f} % of the FLOPs of training in {len(over)} of {len(trainings)} trainings; "
        f"grow.events.overhead allows {100 * over[0]['allowed']:g} %, but even the smallest probes of so many events "
        "cost more: give it a larger budget, or fewer events (grow.events.count)"
    )
    return [sentence]


def _reasons(trainings: Sequence[Facts]) -> list[str]:
    """Metrics of a table that are missing on the test split, or leave something out."""
    found = [
        f"test {metric} of {output}: {reason}"
        for one in trainings
        for output, reasons in one.get("test", {}).get("reasons", {}).items()
        for metric, reason in reasons.items()
        if metric in headlines()
    ]
    return list(dict.fromkeys(found))


def _numbers(values: Sequence[Any]) -> str:
    return ", ".join(f"{value:,}" for value in values)


def _times(what: str, count: int, of: int) -> str:
    return what if of == 1 else f"{what} ({count} of {of})"
