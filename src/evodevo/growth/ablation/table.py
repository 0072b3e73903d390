"""The table of an ablation: each row beside the base of its block and what the paper prints; as text and as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evodevo.errors import EvodevoError, UnsafeFileError, UsageError
from evodevo.experiments.comparison import ComparisonRow, ComparisonTable, Spread, compare_arms
from evodevo.experiments.correct_bits import unpack
from evodevo.experiments.paired import Difference, Numbers, paired_difference
from evodevo.growth.ablation.paper import BASE as PRINTED_BASE
from evodevo.growth.ablation.paper import PRINTED, Printed
from evodevo.growth.ablation.recipe import BASE, GROWING
from evodevo.growth.ablation.row import AblationRow
from evodevo.growth.ablation.rows import ROWS, row_called
from evodevo.report.comma_separated import comma_separated
from evodevo.runs.archive import Individual, Run
from evodevo.runs.drive import ABLATE

COMPARED = 2000
"""Test samples that are looked at to see whether two tasks have the same ones."""


@dataclass(frozen=True)
class AblationLine:
    """One row of the table.

    Attributes:
        code: ``A1`` to ``D12``, ``more7``; ``A`` alone is the base of that block.
        block: cell of the arm.
        row: the row of the ablation; None for a base.
        result: result of the arm, as in every experiment.
        base: result of the arm that it is compared with; None for a base.
        difference: difference to the base in the share of test samples answered rightly, on the same samples and seeds;
            None where there are no common ones.
        printed: result printed in the paper.
    """

    code: str
    block: str
    row: AblationRow | None
    result: ComparisonRow
    base: ComparisonRow | None
    difference: Difference | None
    printed: Printed | None

    @property
    def name(self) -> str:
        """As for ``--rows``; ``base``."""
        return BASE if self.row is None else self.row.name

    @property
    def gap(self) -> float | None:
        """Difference of the mean test accuracies, whatever samples they rest on."""
        if self.base is None or self.base.test is None or self.result.test is None:
            return None
        return self.result.test.mean - self.base.test.mean

    def metric(self, name: str) -> Spread | None:
        """A metric of the first output that has it, on the test split: ``auc``."""
        return next((metric for key, metric in self.result.metrics.items() if key.endswith(f" {name}")), None)


def check_kind(run: Run) -> None:
    """
    Raises:
        UsageError: the run is no ablation.
    """
    if run.kind != ABLATE:
        raise UsageError(f"run {run.id} is of kind {run.kind!r}; a table of rows belongs to a run of evodevo ablate.")


def ablation_lines(run: Run, table: ComparisonTable) -> list[AblationLine]:
    """The table, as far as the run has come.

    Args:
        run: a run of kind ``ablate``.
        table: result of ``compare_arms``.

    Raises:
        UsageError: another kind of run.
    """
    check_kind(run)
    bases = {str(row.cell.get("block")): row for row in table.rows if row.name == BASE}
    lines = []
    for result in table.rows:
        block = str(result.cell.get("block"))
        if result.name == BASE:
            code = block.replace(GROWING, " growing")
            lines.append(AblationLine(code, block, None, result, None, None, PRINTED_BASE if len(code) == 1 else None))
            continue
        row, base = row_called(result.name, block), bases.get(block)
        if row is None:  # of another evodevo; its numbers are in the comparison
            continue
        difference = result.difference
        if difference is None and base is not None:
            difference = _of_other_task(run, result, base)
        members = [known.name for known in ROWS if known.block == row.block]
        code = f"{row.block}{members.index(row.name) + 1}"
        lines.append(AblationLine(code, block, row, result, base, difference, PRINTED.get(row.name)))
    return lines


Cell = str | int | float | None
COLUMNS = (
    "row", "name", "title", "block", "switch", "seeds",
    "accuracy_mean", "accuracy_deviation", "difference", "difference_low", "difference_high", "samples",
    "auc_mean", "auc_deviation", "f1_macro_mean", "f1_macro_deviation", "validation_accuracy_mean",
    "parameters", "executed_flops", "training_flops", "steps", "seconds", "missing",
    "paper_auc", "paper_accuracy", "paper_f1", "paper_accuracy_difference",
)  # fmt: skip
"""Columns of the CSV, in this order. Shares are from 0 to 1, parameters and FLOPs of one sample are means over seeds;
the paper's accuracy is in percent, as printed."""


def to_csv(lines: Sequence[AblationLine]) -> str:
    """One line per row under a header of ``COLUMNS``; what is not known is empty."""
    return comma_separated(COLUMNS, ([_text(_values(line)[name]) for name in COLUMNS] for line in lines))


def ablation_record(run: Run) -> dict[str, Any]:
    """For ``--json``: the run, and each row of the CSV by its columns; what is not known is null.

    Raises:
        UsageError: the run is no ablation.
    """
    check_kind(run)
    rows = [{name: _values(line)[name] for name in COLUMNS} for line in ablation_lines(run, compare_arms(run))]
    return {"run": run.id, "recipe": run.recipe, "state": run.state, "rows": rows,
            "caveats": list(run.settings.experiment.caveats)}  # fmt: skip


def _values(line: AblationLine) -> dict[str, Cell]:
    result, difference, printed = line.result, line.difference, line.printed
    auc, f1 = line.metric("auc"), line.metric("f1_macro")
    return {
        "row": line.code,
        "name": line.name,
        "title": result.name,
        "block": line.block,
        "switch": "" if line.row is None else line.row.words,
        "seeds": len(result.trainings),
        "accuracy_mean": _mean(result.test),
        "accuracy_deviation": _deviation(result.test),
        "difference": line.gap if difference is None else difference.mean,
        "difference_low": None if difference is None else difference.low,
        "difference_high": None if difference is None else difference.high,
        "samples": None if difference is None else difference.samples,
        "auc_mean": _mean(auc),
        "auc_deviation": _deviation(auc),
        "f1_macro_mean": _mean(f1),
        "f1_macro_deviation": _deviation(f1),
        "validation_accuracy_mean": _mean(result.validation),
        "parameters": _mean(result.parameters),
        "executed_flops": _mean(result.executed_flops),
        "training_flops": _mean(result.training_flops),
        "steps": _mean(result.steps),
        "seconds": _mean(result.training_seconds),
        "missing": "; ".join(result.missing),
        "paper_auc": None if printed is None else printed.auc,
        "paper_accuracy": None if printed is None else printed.accuracy,
        "paper_f1": None if printed is None else printed.f1,
        "paper_accuracy_difference": None if printed is None else round(printed.accuracy - PRINTED_BASE.accuracy, 1),
    }


def _mean(spread: Spread | None) -> float | None:
    return None if spread is None else spread.mean


def _deviation(spread: Spread | None) -> float | None:
    return None if spread is None else spread.deviation


def _text(cell: Cell) -> str:
    return "" if cell is None else f"{cell:.10g}" if isinstance(cell, float) else str(cell)


# Rows that change the task


def _of_other_task(run: Run, row: ComparisonRow, base: ComparisonRow) -> Difference | None:
    """The paired difference to a base of another task, such as texts in bytes, where both have the same samples."""
    ours, theirs = ({individual.genome.seed: individual for individual in each.trainings} for each in (row, base))
    pairs = [(ours[seed], theirs[seed]) for seed in ours if seed in theirs]
    if not pairs or not _same_samples(run, *pairs[0]):
        return None
    answers = [(_right(first), _right(other)) for first, other in pairs]
    known = [(first, other) for first, other in answers if first is not None and other is not None]
    return paired_difference([first for first, _ in known], [other for _, other in known])


def _same_samples(run: Run, first: Individual, other: Individual) -> bool:
    """Whether both were tested on the same samples, by the data of the task where these are still there."""
    try:
        problem = run.slice.problem(run.settings)
        tasks = [problem.open_task(each.genome.task) for each in (first, other)]  # type: ignore[attr-defined]
        counts = {task.count("test") for task in tasks}
        if len(counts) > 1:
            return False
        places = np.arange(min(COMPARED, *counts))
        targets = [f"{output.name}/target" for output in tasks[0].outputs]
        held = [task.fetch("test", places) for task in tasks]
        shown = [[task.show("test", int(place)) for place in places] for task in tasks]
    except EvodevoError:
        return False
    return shown[0] == shown[1] and all(np.array_equal(held[0][name], held[1][name]) for name in targets)


def _right(individual: Individual) -> Numbers | None:
    packed = individual.fact.get("test", {}).get("right")
    try:
        return None if packed is None else unpack(packed)
    except UnsafeFileError:
        return None
