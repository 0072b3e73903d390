"""The growth of a zoo in words: edits, births, ends, rewards, and the history of one training as rows."""

from __future__ import annotations

from collections.abc import Mapping

from evodevo.growth.around.base import AROUND
from evodevo.growth.edit_spec import Edit
from evodevo.growth.report.caps import cap_words
from evodevo.growth.report.data import GrowthHistory, Happening, Life
from evodevo.growth.report.foresight import foresight_words
from evodevo.growth.report.forks import fork_words
from evodevo.growth.report.policy import policy_words
from evodevo.growth.report.race import race_words
from evodevo.growth.report.shifts import shift_words
from evodevo.growth.spec import REPLACE
from evodevo.growth.tables.find import row_of

HISTORY = ("event", "step", "what", "accuracy before", "reward")
_COUNTED = {
    "grow": "grown",
    "spawn": "spawned",
    "hybridise": "made of two",
    "prune": "pruned",
    "rewarm": "warmed up again",
    REPLACE: "put in the place of another",
}
_DONE = {"grow": "grown", "spawn": "spawned", "hybridise": "made"}


def edit_words(edit: Edit) -> str:
    """``mlp-2-0 grown from mlp-1``, ``cnn-1 pruned: distilled in 50 steps …``; a refused one with the reason."""
    operation, modules = edit.action.operation, edit.action.modules
    note = f": {edit.note}" if edit.note else ""
    if edit.module is None:
        wanted = " ".join([operation, *modules, *([edit.action.archetype] if edit.action.archetype else [])])
        return f"{wanted}{note if edit.note.startswith('refused') else f', refused{note}'}"
    if operation == "prune":
        return f"{edit.module} pruned{note}"
    if operation == "rewarm":
        return f"{edit.module} warmed up again{note}"
    if edit.enlarged or edit.surrounds:
        return f"{edit.module} {done_words(operation)}{note}"
    if operation == REPLACE:
        return f"{edit.module} put in the place of {modules[0]}{note}"
    parents = f" from {' and '.join(modules)}" if modules else ""
    return f"{edit.module} {_DONE.get(operation, 'born')}{parents}{note}"


def done_words(operation: str) -> str:
    """What an edit in place or around modules did: ``widened``; its name where no table holds it (any more)."""
    row = row_of(operation)
    return operation if row is None else row.done


def birth_words(life: Life) -> str:
    """Origin of a module in words; empty for one of the start."""
    if life.operation == "start":
        return ""
    parents = f" from {' and '.join(life.parents)}" if life.parents else ""
    note = f", {life.note}" if life.note else ""
    return f"{_DONE.get(life.operation, 'born')}{parents} at event {life.born}{note}"


def death_words(life: Life) -> str:
    """End of a module in words; empty for one that is still there."""
    if life.gone is None:
        return ""
    return f"gave its place to {life.heir} at event {life.gone}" if life.heir else f"pruned at event {life.gone}"


def reward_words(event: Happening) -> str:
    """``reward +0.42 (value +0.5, cost -0.08)``; empty where there is none."""
    if event.reward is None:
        return ""
    terms = ", ".join(f"{name} {value:+.2g}" for name, value in event.terms.items())
    return f"reward {event.reward:+.2f}" + (f" ({terms})" if terms else "")


def growth_words(growth: GrowthHistory) -> list[str]:
    """A growth in sentences."""
    raced = race_words(growth)
    if not growth.events:
        return [*raced, f"It did not grow: strategist {growth.strategist}, no event."]
    counts = growth.counts
    named = _COUNTED | {name: done_words(name) for name in counts if name not in _COUNTED}
    done = [
        f"network {words}" if name in AROUND else f"{counts[name]} {words}"
        for name, words in named.items()
        if counts[name]
    ]
    number = len(growth.events)
    events = f"{number} event{'' if number == 1 else 's'}"
    first = f"Grown by {growth.strategist} in {events}: {', '.join(done) or 'nothing was changed'}"
    if growth.refused:
        first += f"; {growth.refused} refused"
    count = len(growth.living)
    in_the_end = (
        f"{count} module{'' if count == 1 else 's'} in the end: {', '.join(life.id for life in growth.living)}."
    )
    return [
        *raced,
        f"{first}.",
        *policy_words(growth),
        *foresight_words(growth),
        *fork_words(growth.forks),
        *cap_words(growth),
        *shift_words(growth),
        in_the_end,
        *(f"{sentence}." for sentence in overhead_words(growth)),
    ]


def overhead_words(growth: GrowthHistory) -> list[str]:
    """Cost of growing beside training in words, as far as it was recorded."""
    overhead = growth.overhead
    parts = [
        f"{100 * overhead[name]:.1f} % of the {words} of training"
        for name, words in (("flops_share", "FLOPs"), ("seconds_share", "time"))
        if overhead.get(name) is not None
    ]
    if not parts:
        return []
    more = [exceeded_words(overhead)] if overhead.get("exceeded") else []
    return [f"Growing took {' and '.join(parts)}", *more]


def exceeded_words(overhead: Mapping[str, float]) -> str:
    """Why growth could not be held to what it may cost, and what helps."""
    return (
        f"That is more than the {100 * overhead['allowed']:g} % of grow.events.overhead: even the smallest probes of "
        "so many events cost more beside so short a training. Give it a larger budget, or fewer events "
        "(grow.events.count)"
    )


def history(growth: GrowthHistory) -> list[tuple[str, ...]]:
    """A row per edit, in the columns ``HISTORY``; an event that changed nothing has one too."""
    rows: list[tuple[str, ...]] = []
    for event in growth.events:
        reward = "–" if event.reward is None else f"{event.reward:+.2f}"
        for place, words in enumerate([edit_words(edit) for edit in event.edits] or ["nothing"]):
            head = (str(event.number), f"{event.step:,.0f}") if not place else ("", "")
            tail = (f"{event.value:.3f}", reward) if not place else ("", "")
            rows.append((*head, words, *tail))
    return rows
