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
        Curve(f"({ARMS[name].letter}) {ARMS[name].title}", [_looks(arm) for arm in end.of(name)])
        for name in settings.compared.arms
    )
    document = {**_document(session, settings, end), "curves": {curve.name: curve.to_json() for curve in curves}}
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
    return [task.looks for task in arm.tasks.values()]


def _document(session: RecipeSession, settings: CharactersSettings, end: CharactersEnd) -> dict[str, Any]:
    arms = [_arm(settings, end, name) for name in settings.compared.arms]
    return {
        "recipe": session.recipe,
        "size": session.size,
        "systems": session.label,
        "state": "finished",
        "tasks": [task.name for task in settings.system.tasks],
        "copies": settings.study.copies,
        "root": {
            "data": settings.system.root.name,
            "validation_accuracy": _mean([root_end.known.quality or 0.0 for root_end in end.roots]),
            "parameters": end.roots[0].known.parameters,
            "samples_seen": sum(root_end.spent.samples for root_end in end.roots),
            "seconds": sum(root_end.spent.seconds for root_end in end.roots),
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
    spent = [copy.spent for copy in copies]
    arm = ARMS[copies[0].arm]
    return {
        "arm": name,
        "letter": arm.letter,
        "title": arm.title,
        "restriction": arm.words,
        "accuracy": _mean([copy.accuracy for copy in copies]),
        "deviation": _deviation([copy.accuracy for copy in copies]),
        "validation_accuracy": _mean([copy.validation for copy in copies]),
        "parameters": _mean([float(copy.parameters) for copy in copies]),
        "root_counted": arm.needs_root,
        "parameters_per_task": _mean([copy.per_task for copy in copies]),
        "share": _share(end, copies),
        "samples_seen": sum(cost.samples for cost in spent),
        "children": sum(cost.children for cost in spent),
        "failed": sum(cost.failed for cost in spent),
        "seconds": sum(cost.seconds for cost in spent),
        "tasks": {
            task.name: {
                "accuracy": _mean([copy.tasks[task.name].test.accuracy for copy in copies]),
                "deviation": _deviation([copy.tasks[task.name].test.accuracy for copy in copies]),
                "validation_accuracy": _mean([copy.tasks[task.name].known.quality or 0.0 for copy in copies]),
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
    above = _mean([arm.accuracy for arm in ours]) - _mean([arm.accuracy for arm in reference])
    alone = _mean([arm.per_task for arm in ours]) / _mean([_without_root(arm, end) for arm in reference])
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


def _without_root(variant: VariantResult, end: CharactersEnd) -> float:
    root = next(root.known for root in end.roots if root.seed == variant.seed)
    return (variant.parameters - root.parameters) / len(variant.tasks)


def _notes(session: RecipeSession, settings: CharactersSettings, end: CharactersEnd) -> list[str]:
    root = sum(root_end.spent.samples for root_end in end.roots)
    notes = [
        f"The root was first trained on {settings.system.root.name}; its {root:,} samples are no arm's own.",
        "Parameters of (b), (c) and (d) include the root's; (a) does not use it.",
        *(f"({ARMS[name].letter}) {ARMS[name].words}." for name in settings.compared.arms),
        "All arms tune learning rate, momentum and augmentation in the same way, and publish by validation accuracy.",
        "The test split is looked at once for each path that a cycle published, when its arm has ended.",
    ]
    asked = end.planned * settings.study.copies
    for name in settings.compared.arms:
        spent = [arm.spent for arm in end.of(name)]
        seen = sum(cost.samples for cost in spent)
        if seen != asked:
            failed = sum(cost.failed for cost in spent)
            notes.append(
                f"({ARMS[name].letter}) saw {seen:,} of {asked:,} samples: children that diverged ended early"
                f" ({failed} failed)."
            )
    if session.size == "quick":
        notes.append("The size quick shows that all works; its budget is too small to decide anything.")
    if settings.study.copies == 1:
        notes.append("One copy: intervals cover test samples alone, not of chance in the search.")
    return notes


def _arms_table(settings: CharactersSettings, end: CharactersEnd) -> WordTable:
    tasks = [task.name for task in settings.system.tasks]
    rows = []
    for name in settings.compared.arms:
        copies = end.of(name)
        share = _share(end, copies)
        rows.append(
            (
                f"({ARMS[name].letter}) {ARMS[name].title}",
                *(percent(_mean([copy.tasks[task].test.accuracy for copy in copies])) for task in tasks),
                percent(_mean([copy.accuracy for copy in copies])),
                f"{_mean([copy.per_task for copy in copies]):,.0f}",
                percent(share),
                f"{sum(copy.spent.samples for copy in copies):,}",
                f"{sum(copy.spent.seconds for copy in copies) / 60:.1f}",
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
            "path": task_end.known.path.id,
            "test_accuracy": task_end.test.accuracy,
            "validation_accuracy": task_end.known.quality,
            "accounted_parameters": task_end.accounted,
            "samples_seen": task_end.spent.samples,
            "children": task_end.spent.children,
            "failed": task_end.spent.failed,
            "seconds": task_end.spent.seconds,
        }
        for arm in end.arms
        for task, task_end in arm.tasks.items()
    ]


def _share(end: CharactersEnd, copies: list[VariantResult]) -> float | None:
    reference = end.of(REFERENCE)
    if not reference:
        return None
    return _mean([copy.per_task for copy in copies]) / _mean([copy.per_task for copy in reference])


def _mean(values: list[float]) -> float:
    return statistics.fmean(values)


def _deviation(values: list[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None
