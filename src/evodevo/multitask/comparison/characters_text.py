"""Results of ``multitask.characters``: one document, two tables, a CSV."""

from __future__ import annotations

import statistics
from typing import Any

from evodevo.multitask.comparison.characters import CharactersEnd, VariantResult
from evodevo.multitask.comparison.curves import Curve, Looks
from evodevo.multitask.comparison.results import Cell, RecipeResult, WordTable, percent, points, to_csv
from evodevo.multitask.comparison.systems import RecipeSession
from evodevo.multitask.recipes.characters import STRETCH_SHARE, TARGET_SHARE
from evodevo.multitask.recipes.settings import CharactersSettings
from evodevo.multitask.recipes.variants import ARMS

OURS, REFERENCE = "singlepath", "fine_tuning"
COLUMNS = (
    "arm", "title", "seed", "task", "path", "test_accuracy", "validation_accuracy", "accounted_parameters",
    "samples_seen", "children", "failed", "seconds",
)  # fmt: skip
"""Columns of the CSV. Shares are from 0 to 1; seconds are those of workers."""


def result(session: RecipeSession, settings: CharactersSettings, end: CharactersEnd) -> RecipeResult:
    """The whole result: document, tables, curves, CSV."""
    curves = tuple(
        Curve(f"({ARMS[name].letter}) {ARMS[name].title}", [_looks(one) for one in end.of(name)])
        for name in settings.compared.arms
    )
    document = {**_document(session, settings, end), "curves": {one.name: one.to_json() for one in curves}}
    return RecipeResult(
        session.recipe,
        session.size,
        session.label,
        "finished",
        document,
        (_arms_table(settings, end), _difference_table(settings, end)),
        to_csv(COLUMNS, _rows(end)),
        (*_summary(document["target"]), *document["notes"]),
        curves,
    )


def _looks(arm: VariantResult) -> list[Looks]:
    return [one.looks for one in arm.tasks.values()]


def _document(session: RecipeSession, settings: CharactersSettings, end: CharactersEnd) -> dict[str, Any]:
    arms = [_arm(settings, end, name) for name in settings.compared.arms]
    return {
        "recipe": session.recipe,
        "size": session.size,
        "systems": session.label,
        "state": "finished",
        "tasks": [one.name for one in settings.system.tasks],
        "copies": settings.study.copies,
        "root": {
            "data": settings.system.root.name,
            "validation_accuracy": _mean([one.known.quality or 0.0 for one in end.roots]),
            "parameters": end.roots[0].known.parameters,
            "samples_seen": sum(one.spent.samples for one in end.roots),
            "seconds": sum(one.spent.seconds for one in end.roots),
        },
        "planned_samples": end.planned * settings.study.copies,
        "arms": arms,
        "differences": [
            {"arm": arm, "reference": reference, "task": task, **difference.to_json()}
            for (arm, reference, task), difference in end.differences.items()
        ],
        "target": _target(end),
        "notes": _notes(session, settings, end),
    }


def _arm(settings: CharactersSettings, end: CharactersEnd, name: str) -> dict[str, Any]:
    copies = end.of(name)
    spent = [one.spent for one in copies]
    arm = ARMS[copies[0].arm]
    return {
        "arm": name,
        "letter": arm.letter,
        "title": arm.title,
        "restriction": arm.words,
        "accuracy": _mean([one.accuracy for one in copies]),
        "deviation": _deviation([one.accuracy for one in copies]),
        "validation_accuracy": _mean([one.validation for one in copies]),
        "parameters": _mean([float(one.parameters) for one in copies]),
        "root_counted": arm.needs_root,
        "parameters_per_task": _mean([one.per_task for one in copies]),
        "share": _share(end, copies),
        "samples_seen": sum(one.samples for one in spent),
        "children": sum(one.children for one in spent),
        "failed": sum(one.failed for one in spent),
        "seconds": sum(one.seconds for one in spent),
        "tasks": {
            task.name: {
                "accuracy": _mean([one.tasks[task.name].test.accuracy for one in copies]),
                "deviation": _deviation([one.tasks[task.name].test.accuracy for one in copies]),
                "validation_accuracy": _mean([one.tasks[task.name].known.quality or 0.0 for one in copies]),
            }
            for task in settings.system.tasks
        },
    }


def _target(end: CharactersEnd) -> dict[str, Any] | None:
    ours, reference = end.of(OURS), end.of(REFERENCE)
    if not ours or not reference:
        return None
    share = _share(end, ours)
    assert share is not None
    above = _mean([one.accuracy for one in ours]) - _mean([one.accuracy for one in reference])
    alone = _mean([one.per_task for one in ours]) / _mean([_without_root(one, end) for one in reference])
    return {
        "difference": above,
        "share": share,
        "share_without_the_root_of_fine_tuning": alone,
        "allowed_share": TARGET_SHARE,
        "reached": above > 0 and share <= TARGET_SHARE,
        "stretch": above > 0 and share <= STRETCH_SHARE,
    }


def _summary(target: dict[str, Any] | None) -> tuple[str, ...]:
    if target is None:
        return ()
    reached = "reached" if target["reached"] else "not reached"
    words = (
        f"target {reached}: (d) is {points(target['difference'])} points from"
        f" (b), with {percent(target['share'])} % of its parameters per task (at most {percent(TARGET_SHARE)} %);"
        f" {percent(target['share_without_the_root_of_fine_tuning'])} % where the root is not counted for (b)."
    )
    return (words,)


def _without_root(one: VariantResult, end: CharactersEnd) -> float:
    root = next(root.known for root in end.roots if root.seed == one.seed)
    return (one.parameters - root.parameters) / len(one.tasks)


def _notes(session: RecipeSession, settings: CharactersSettings, end: CharactersEnd) -> list[str]:
    root = sum(one.spent.samples for one in end.roots)
    found = [
        f"The root was first trained on {settings.system.root.name}; its {root:,} samples are no arm's own.",
        "Parameters of (b), (c) and (d) include the root's; (a) does not use it.",
        *(f"({ARMS[name].letter}) {ARMS[name].words}." for name in settings.compared.arms),
        "All arms tune learning rate, momentum and augmentation in the same way, and publish by validation accuracy.",
        "The test split is looked at once for each path that a cycle published, when its arm has ended.",
    ]
    asked = end.planned * settings.study.copies
    for name in settings.compared.arms:
        spent = [one.spent for one in end.of(name)]
        seen = sum(one.samples for one in spent)
        if seen != asked:
            failed = sum(one.failed for one in spent)
            found.append(
                f"({ARMS[name].letter}) saw {seen:,} of {asked:,} samples: children that diverged ended early"
                f" ({failed} failed)."
            )
    if session.size == "quick":
        found.append("The size quick shows that all works; its budget is too small to decide anything.")
    if settings.study.copies == 1:
        found.append("One copy: intervals speak of test samples alone, not of chance in the search.")
    return found


def _arms_table(settings: CharactersSettings, end: CharactersEnd) -> WordTable:
    tasks = [one.name for one in settings.system.tasks]
    rows = []
    for name in settings.compared.arms:
        copies = end.of(name)
        share = _share(end, copies)
        rows.append(
            (
                f"({ARMS[name].letter}) {ARMS[name].title}",
                *(percent(_mean([one.tasks[task].test.accuracy for one in copies])) for task in tasks),
                percent(_mean([one.accuracy for one in copies])),
                f"{_mean([one.per_task for one in copies]):,.0f}",
                percent(share),
                f"{sum(one.spent.samples for one in copies):,}",
                f"{sum(one.spent.seconds for one in copies) / 60:.1f}",
            )
        )
    columns = ("arm", *tasks, "mean", "parameters/task", "% of (b)", "samples", "minutes")
    return WordTable("Test accuracy in percent", columns, tuple(rows))


def _difference_table(settings: CharactersSettings, end: CharactersEnd) -> WordTable:
    rows = tuple(
        (
            f"({ARMS[copies[0].arm].letter}) - ({ARMS[end.of(reference)[0].arm].letter})",
            task,
            points(difference.mean),
            f"{points(difference.low)} to {points(difference.high)}",
            f"{difference.samples:,}",
        )
        for (arm, reference, task), difference in end.differences.items()
        if arm == OURS and (copies := end.of(arm))
    )
    return WordTable(
        "Points of (d) above the others, on the same test samples, with 95 % intervals of a bootstrap",
        ("pair", "task", "points", "interval", "samples"),
        rows,
        left=2,
    )


def _rows(end: CharactersEnd) -> list[dict[str, Cell]]:
    return [
        {
            "arm": arm.arm,
            "title": ARMS[arm.arm].title,
            "seed": arm.seed,
            "task": task,
            "path": one.known.path.id,
            "test_accuracy": one.test.accuracy,
            "validation_accuracy": one.known.quality,
            "accounted_parameters": one.accounted,
            "samples_seen": one.spent.samples,
            "children": one.spent.children,
            "failed": one.spent.failed,
            "seconds": one.spent.seconds,
        }
        for arm in end.arms
        for task, one in arm.tasks.items()
    ]


def _share(end: CharactersEnd, copies: list[VariantResult]) -> float | None:
    reference = end.of(REFERENCE)
    if not reference:
        return None
    return _mean([one.per_task for one in copies]) / _mean([one.per_task for one in reference])


def _mean(values: list[float]) -> float:
    return statistics.fmean(values)


def _deviation(values: list[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None
