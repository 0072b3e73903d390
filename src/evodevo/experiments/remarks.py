"""Remarks on the trainings of an arm: results of searches, early stops, missing metrics."""

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


def decisions(trainings: Sequence[Facts]) -> tuple[str, ...]:
    """Those of the remarks that state what a search or a race chose, and whether growing cost too much."""
    return (*_searches(trainings), *_growths(trainings))


def begun_without(race: Facts) -> str:
    """What a growth began with where nobody raced, and why."""
    begun = f"{' + '.join(race['chosen'])} alone" if "otherwise" in race else "all modules"
    return f"{begun}: {race['instead'].rstrip('.')}"


def _searches(trainings: Sequence[Facts]) -> list[str]:
    raced = [facts["growth"]["race"] for facts in trainings if (facts.get("growth") or {}).get("race")]
    searches = [facts["search"] for facts in trainings if "search" in facts] + [one for one in raced if one["tried"]]
    none = [f"it begins with {begun_without(one)}" for one in raced if not one["tried"]]
    if not searches:
        return list(dict.fromkeys(none))
    tried, steps = (sorted({search[name] for search in searches if name in search}) for name in ("tried", "steps"))
    networks = "network" if tried == [1] else "networks"
    what = "race" if raced else "search"
    sentences = [f"its {what} tried {_numbers(tried)} {networks} in {_numbers(steps)} steps"]
    chosen = Counter(", ".join(search["chosen"]) for search in searches if "chosen" in search)
    if chosen:
        sentences[0] += "; it chose " + "; ".join(_times(what, count, len(searches)) for what, count in chosen.items())
    if any("collapsed" in search for search in searches):
        collapsed = [search["collapsed"] for search in searches if search.get("collapsed")]
        how = f" ({'; '.join(dict.fromkeys(collapsed))})" if collapsed else ""
        sentences.append(f"its search collapsed in {len(collapsed)} of {len(searches)} trainings{how}")
    return sentences


def _selections(trainings: Sequence[Facts]) -> list[str]:
    last = [facts["selection"][-1] for facts in trainings if facts.get("selection")]
    if not last:
        return []
    sentences = []
    metrics = ", ".join(dict.fromkeys(selection["metric"] for selection in last))
    steps = _numbers(sorted({selection["step"] for selection in last}))
    sentences.append(f"its weights are those of step {steps}, the best by validation {metrics}")
    stopped = sorted(selection["stopped"] for selection in last if selection["stopped"] is not None)
    if stopped:
        sentences.append(f"stopped early in {len(stopped)} of {len(last)} trainings, at step {_numbers(stopped)}")
    sentences += dict.fromkeys(selection["instead"] for selection in last if selection["instead"])
    return sentences


def _growths(trainings: Sequence[Facts]) -> list[str]:
    """Remarks on trainings whose growth exceeded its budget."""
    grown = [facts["growth"].get("overhead", {}) for facts in trainings if facts.get("growth")]
    over = [growth for growth in grown if growth.get("exceeded")]
    if not over:
        return []
    most = max(growth["flops_share"] for growth in over)
    sentence = (
        f"growing took up to {100 * most:.1f} % of the FLOPs of training in {len(over)} of {len(trainings)} trainings; "
        f"grow.events.overhead allows {100 * over[0]['allowed']:g} %, but even the smallest probes of so many events "
        "cost more: give it a larger budget, or fewer events (grow.events.count)"
    )
    return [sentence]


def _reasons(trainings: Sequence[Facts]) -> list[str]:
    """Metrics of a table that are missing on the test split, or leave something out."""
    sentences = [
        f"test {metric} of {output}: {reason}"
        for facts in trainings
        for output, reasons in facts.get("test", {}).get("reasons", {}).items()
        for metric, reason in reasons.items()
        if metric in headlines()
    ]
    return list(dict.fromkeys(sentences))


def _numbers(values: Sequence[Any]) -> str:
    return ", ".join(f"{value:,}" for value in values)


def _times(what: str, count: int, of: int) -> str:
    return what if of == 1 else f"{what} ({count} of {of})"
