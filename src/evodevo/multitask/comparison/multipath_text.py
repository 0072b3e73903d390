"""Results of ``multitask.multipath``: one document, a table like the paper's Table 2, a CSV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from evodevo.multitask.comparison.curves import Curve
from evodevo.multitask.comparison.multipath import BASE, MultipathEnd
from evodevo.multitask.comparison.results import Cell, RecipeResult, WordTable, percent, points, to_csv
from evodevo.multitask.comparison.systems import RecipeSession, Spent
from evodevo.multitask.recipes.settings import MultipathRecipeSettings

CONTROL = "singlepath"
COLUMNS = (
    "variant", "target", "seed", "path", "test_accuracy", "validation_accuracy", "main_weight", "collapsed",
    "samples_seen", "seconds",
)  # fmt: skip
MEAN = "mean"
"""Name of the row with the mean over the targets."""


def result(session: RecipeSession, settings: MultipathRecipeSettings, end: MultipathEnd) -> RecipeResult:
    """The whole result: document, tables, curves, CSV."""
    curves = tuple(
        Curve(name, [[variant_end.looks for variant_end in copy] for copy in zip(*rows.values(), strict=True)])
        for name, rows in end.ends.items()
        if name != BASE
    )
    document = {**_document(session, settings, end), "curves": {curve.name: curve.to_json() for curve in curves}}
    begin = _numbers(settings, end, BASE, None)
    tables = [_table(settings, end, target) for target in [*settings.compared.targets, None]]
    return RecipeResult(
        session.recipe,
        session.size,
        session.label,
        "finished",
        document,
        (*tables, _control_table(document)),
        to_csv(COLUMNS, _rows(settings, end)),
        (*_summary(document), *document["notes"]),
        curves,
        {"before": (begin["validation_accuracy"], begin["accuracy"])},
    )


def paired_p(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Two-sided p of a paired t-test; None for one pair, or for differences that are all alike."""
    gaps = np.asarray(ours) - np.asarray(theirs)
    if len(gaps) < 2 or np.allclose(gaps, gaps[0], rtol=0, atol=1e-12):
        return None
    return float(stats.ttest_rel(ours, theirs).pvalue)


def _document(session: RecipeSession, settings: MultipathRecipeSettings, end: MultipathEnd) -> dict[str, Any]:
    targets = settings.compared.targets
    names = list(end.ends)
    return {
        "recipe": session.recipe,
        "size": session.size,
        "systems": session.label,
        "state": "finished",
        "targets": list(targets),
        "copies": settings.study.copies,
        "reference": settings.compared.reference,
        "base_samples_seen": end.base.samples,
        "planned_samples": dict(end.planned),
        "variants": [
            {
                "variant": name,
                "targets": {
                    **{target: _numbers(settings, end, name, target) for target in targets},
                    MEAN: _numbers(settings, end, name, None),
                },
            }
            for name in names
        ],
        "controls": [
            control for name in (CONTROL, "head", BASE) if name in names for control in _controls(settings, end, name)
        ],
        "notes": _notes(settings, end),
    }


def _numbers(settings: MultipathRecipeSettings, end: MultipathEnd, name: str, target: str | None) -> dict[str, Any]:
    values = end.accuracies(name, target)
    ends = [variant_end for each in end.ends[name] if target in (None, each) for variant_end in end.ends[name][each]]
    reference = settings.compared.reference
    weights = [variant_end.main_weight for variant_end in ends if variant_end.main_weight is not None]
    collapsed = [variant_end.collapsed for variant_end in ends if variant_end.collapsed is not None]
    spent = sum((variant_end.spent for variant_end in ends), Spent(0, 0, 0, 0.0))
    return {
        "accuracy": float(np.mean(values)),
        "standard_error": float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None,
        "max": max(values),
        "validation_accuracy": float(np.mean([variant_end.known.quality or 0.0 for variant_end in ends])),
        "p": None if name == reference else paired_p(values, end.accuracies(reference, target)),
        "collapsed": sum(collapsed) if collapsed else None,
        "of": len(collapsed),
        "main_weight": float(np.mean(weights)) if weights else None,
        "samples_seen": spent.samples,
        "failed": spent.failed,
        "seconds": spent.seconds,
        "copies": values,
    }


def _summary(document: dict[str, Any]) -> tuple[str, ...]:
    """The question of the proof: the reference beside the singlepath agent with the same further budget."""
    rows = [control for control in document["controls"] if control["control"] == CONTROL and "mean" in control]
    if not rows:
        return ()
    told = ", ".join(f"{points(row['mean'])} points on {row['target']} (p = {_p(row['p'])})" for row in rows)
    return (f"{document['reference']} beside {CONTROL} with the same further budget: {told}.",)


def _controls(settings: MultipathRecipeSettings, end: MultipathEnd, name: str) -> list[dict[str, Any]]:
    """The reference beside a control: paired test over copies, and a bootstrap over copies and test samples."""
    ours = settings.compared.reference
    controls: list[dict[str, Any]] = []
    for target in settings.compared.targets:
        difference = end.difference(ours, name, target)
        p = paired_p(end.accuracies(ours, target), end.accuracies(name, target))
        controls.append(
            {"control": name, "target": target, "p": p, **({} if difference is None else difference.to_json())}
        )
    gaps = np.asarray(end.accuracies(ours, None)) - np.asarray(end.accuracies(name, None))
    p = paired_p(end.accuracies(ours, None), end.accuracies(name, None))
    return [*controls, {"control": name, "target": MEAN, "p": p, "mean": float(gaps.mean())}]


def _notes(settings: MultipathRecipeSettings, end: MultipathEnd) -> list[str]:
    reference, copies = settings.compared.reference, settings.study.copies
    notes = [
        f"{copies} copies, each with its own seed; every variant continues a copy of the same system.",
        f"p: paired two-sided t-test over copies against {reference}; no value where all differences are alike.",
        "collapsed: copies that answer as their main path does, or whose main path's mean weight is above 0.99.",
        f"{BASE} is what all variants continue; the order of the rows is what was found, nothing asserts it.",
    ]
    for name, rows in end.ends.items():
        if name == BASE:
            continue
        for target, ends in rows.items():
            seen, asked = sum(variant_end.spent.samples for variant_end in ends), copies * end.planned[target]
            if seen != asked:
                notes.append(
                    f"{name} saw {seen:,} of {asked:,} samples of {target}: children that diverged ended early."
                )
    if copies < 5:
        notes.append("Fewer than 5 copies decide nothing.")
    return notes


def _table(settings: MultipathRecipeSettings, end: MultipathEnd, target: str | None) -> WordTable:
    rows = []
    for name in end.ends:
        numbers = _numbers(settings, end, name, target)
        rows.append(
            (
                name,
                percent(numbers["accuracy"]),
                "-" if numbers["standard_error"] is None else f"{100 * numbers['standard_error']:.2f}",
                percent(numbers["max"]),
                percent(numbers["validation_accuracy"]),
                _p(numbers["p"]),
                "-" if numbers["collapsed"] is None else f"{numbers['collapsed']} of {numbers['of']}",
                "-" if numbers["main_weight"] is None else f"{numbers['main_weight']:.3f}",
            )
        )
    columns = ("variant", "test", "s.e.", "max", "validation", "p", "collapsed", "main weight")
    where = "the mean of all targets" if target is None else target
    return WordTable(f"Accuracy in percent on {where}", columns, tuple(rows))


def _control_table(document: dict[str, Any]) -> WordTable:
    rows = tuple(
        (
            control["control"],
            control["target"],
            points(control["mean"]),
            f"{points(control['low'])} to {points(control['high'])}" if "low" in control else "-",
            _p(control["p"]),
        )
        for control in document["controls"]
        if "mean" in control
    )
    title = f"Points of {document['reference']} above its controls; intervals are a bootstrap over copies and samples"
    return WordTable(title, ("control", "target", "points", "interval", "p"), rows, left=2)


def _rows(settings: MultipathRecipeSettings, end: MultipathEnd) -> list[dict[str, Cell]]:
    return [
        {
            "variant": name,
            "target": target,
            "seed": settings.study.seed + number,
            "path": variant_end.known.path.id,
            "test_accuracy": variant_end.test.accuracy,
            "validation_accuracy": variant_end.known.quality,
            "main_weight": variant_end.main_weight,
            "collapsed": None if variant_end.collapsed is None else int(variant_end.collapsed),
            "samples_seen": variant_end.spent.samples,
            "seconds": variant_end.spent.seconds,
        }
        for name, rows in end.ends.items()
        for target, ends in rows.items()
        for number, variant_end in enumerate(ends)
    ]


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
