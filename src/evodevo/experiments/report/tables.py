"""The numbers of an experiment as tables of texts and charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evodevo.experiments.comparison import ComparisonRow, ComparisonTable, Spread
from evodevo.experiments.ranking import ranks
from evodevo.report.charts.curves import Series
from evodevo.report.charts.numbers import show
from evodevo.report.word_tables import TextTable

UNITS = {"steps": "", "flops": "flops", "seconds": "seconds"}
MOST_VALUES = 16
"""A group with more values than these has no table."""
LEAST_TERM = 0.01
"""Largest value of a term of the loss, as a share of the largest of all, below which it is not drawn."""


@dataclass(frozen=True)
class Chart:
    """Named lines over one axis.

    Args:
        name: quantity on the vertical axis.
        over: quantity on the horizontal axis, and its unit.
        better: direction of better values.
    """

    name: str
    unit: str
    over: str
    over_unit: str
    series: Sequence[Series]
    better: Literal["lower", "higher"] = "lower"
    caption: str = ""


def percent(spread: Spread | None) -> str:
    """``94.1 ± 0.4``: a share in percent with its standard deviation over seeds."""
    if spread is None:
        return "–"
    return f"{100 * spread.mean:.1f}" + (f" ± {100 * spread.deviation:.1f}" if spread.count > 1 else "")


def baseline_words(table: ComparisonTable) -> str:
    """Results of simple opponents without a network, in one sentence."""
    parts = [
        f"on {split} " + ", ".join(f"{name} {value:.3f}" for name, value in simple.items())
        for split, simple in table.baselines.items()
        if simple
    ]
    return f"Without a network: {'; '.join(parts)}." if parts else ""


def budget_words(table: ComparisonTable) -> str:
    """Equal budgets at which columns are read, in one sentence."""
    if not table.budgets:
        return ""
    parts = [
        f"{value:,.0f} steps" if name == "steps" else show(value, UNITS[name]) for name, value in table.budgets.items()
    ]
    return (
        f"Equal steps, FLOPs and time are read from the validation curves at {', '.join(parts)}; an arm that is read "
        "before its end has not yet lowered its learning rate as far, and the curves rest on fewer samples than the "
        "validation column."
    )


def sweeps(table: ComparisonTable) -> list[Chart]:
    """Validation accuracy over each number that cells vary; cells that differ in another value are other lines."""
    keys = dict.fromkeys(key for row in table.rows for key, value in row.cell.items() if not isinstance(value, str))
    tables = []
    for key in keys:
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in table.rows:
            value = row.cell.get(key)
            if row.validation is None or value is None or isinstance(value, str):
                continue
            others = ", ".join(f"{name} {other:g}" if not isinstance(other, str) else other
                               for name, other in row.cell.items() if name != key)  # fmt: skip
            lines.setdefault(f"{row.name}, {others}" if others else row.name, []).append(
                (float(value), 100 * row.validation.mean)
            )
        series = [Series(name, sorted(points)) for name, points in lines.items() if len(points) > 1]
        if series:
            caption = f"Validation accuracy over {key}, mean over seeds."
            tables.append(Chart("accuracy", "%", key, "", series, "higher", caption))
    return tables


def arms_table(table: ComparisonTable) -> TextTable:
    """The main table: a row per arm and cell."""
    trained = ("train %",) if any(row.train is not None for row in table.rows) else ()
    columns = ("arm", "learning rate", "seeds", *trained, "validation %", "test %", "at equal steps", "at equal FLOPs",
               "at equal time", "parameters", "FLOPs/sample", "training FLOPs", "training s", "epochs",
               "peak memory")  # fmt: skip
    rows = [
        (
            row.group,
            f"{row.learning_rate:g}",
            str(len(row.trainings)),
            *((percent(row.train),) if trained else ()),
            percent(row.validation),
            percent(row.test),
            *(percent(row.at.get(name)) for name in UNITS),
            _amount(row.parameters, "parameters"),
            _amount(row.executed_flops, "flops"),
            _amount(row.training_flops, "flops"),
            "–" if row.training_seconds is None else f"{row.training_seconds.mean:.1f}",
            "–" if row.epochs is None else _plain(row.epochs),
            _amount(row.peak_memory_bytes, "bytes"),
        )
        for row in table.rows
    ]
    caption = (
        "Accuracy in percent (of labels: micro F1), mean ± standard deviation over seeds, at the learning rate that "
        "was best on validation. FLOPs are counted, as they were really computed."
    )
    return TextTable(columns, rows, caption)


def headlines_table(table: ComparisonTable) -> TextTable | None:
    """The metrics that matter most, on the test split."""
    if not table.headlines:
        return None
    rows = [
        (row.group, *(_plain(row.metrics[name]) if name in row.metrics else "–" for name in table.headlines))
        for row in table.rows
        if row.metrics
    ]
    return TextTable(("arm", *table.headlines), rows, "Test split, mean ± standard deviation over seeds.")


def differences_table(table: ComparisonTable) -> TextTable | None:
    """Differences to the reference, on the same samples."""
    rows = [
        (row.group, signed(d.mean), f"{signed(d.low)} to {signed(d.high)}", str(d.seeds), f"{d.samples:,}")
        for row in table.rows
        if (d := row.difference) is not None
    ]
    if not rows:
        return None
    caption = (
        f"Test samples answered rightly, in points more than {table.reference} on the same ones. The intervals are "
        "paired bootstraps over seeds and samples; with few seeds they are too narrow, with one they cover samples "
        "alone."
    )
    return TextTable(("arm", "difference", "95 % interval", "seeds", "samples"), rows, caption)


def ranks_table(table: ComparisonTable) -> TextTable | None:
    """Places of arms among each other."""
    row_ranks = ranks(table)
    rows = [
        (row.group, f"{rank.mean:.2f}", f"{rank.low:.2f} to {rank.high:.2f}", str(rank.arms), str(rank.seeds))
        for row in table.rows
        if (rank := row_ranks.get(row.group)) is not None
    ]
    if not rows:
        return None
    caption = (
        "Place on the test split among the arms of the same cell, 1 the best, mean over the seeds that all of them "
        "have. The intervals are bootstraps over seeds; with few of them they are too narrow."
    )
    return TextTable(("arm", "mean rank", "95 % interval", "arms", "seeds"), rows, caption)


def signed(share: float) -> str:
    """``+1.3``: a difference of shares in points."""
    return f"{100 * share:+.1f}"


def _amount(spread: Spread | None, unit: str) -> str:
    return "–" if spread is None else show(spread.mean, unit)


def _plain(spread: Spread) -> str:
    return f"{spread.mean:.4g}" + (f" ± {spread.deviation:.2g}" if spread.count > 1 else "")


def _probed(accuracy: Spread | None, flops: Spread | None) -> str:
    return percent(accuracy) + ("" if flops is None else f" ({show(flops.mean, 'flops')})")


def metrics_table(table: ComparisonTable) -> TextTable | None:
    """Every output and metric."""
    return _of_rows(table, "Test split.", lambda row: {name: _plain(metric) for name, metric in row.metrics.items()})


def probes_table(table: ComparisonTable) -> TextTable | None:
    """Trained networks under other circumstances."""
    caption = "Validation accuracy in percent of the trained networks, and FLOPs per sample where they change."
    return _of_rows(table, caption, lambda row: {name: _probed(*pair) for name, pair in row.probes.items()})


def inside_table(table: ComparisonTable) -> TextTable | None:
    """Table of the measurements inside trained networks."""
    caption = "Of the trained networks, on validation samples."
    return _of_rows(table, caption, lambda row: {name: _plain(value) for name, value in row.inside.items()})


def _of_rows(
    table: ComparisonTable, caption: str, read: Callable[[ComparisonRow], Mapping[str, str]]
) -> TextTable | None:
    cells: list[tuple[ComparisonRow, Mapping[str, str]]] = [(row, read(row)) for row in table.rows]
    columns = dict.fromkeys(key for _, values in cells for key in values)
    if not columns:
        return None
    rows = [(row.group, *(values.get(key, "–") for key in columns)) for row, values in cells if values]
    return TextTable(("arm", *columns), rows, caption)


def curves(table: ComparisonTable) -> list[Chart]:
    """Validation and training curves."""
    charts = []
    for budget, unit in UNITS.items():
        name = f"validation_error over {budget}"
        series = [Series(row.group, row.curves[name]) for row in table.rows if name in row.curves]
        if series:
            caption = f"Validation error over {budget} of training, mean over seeds, at the chosen learning rate."
            charts.append(Chart("validation error", "", budget, unit, series, "lower", caption))
    losses = [Series(row.group, row.curves["train_loss"]) for row in table.rows if "train_loss" in row.curves]
    if losses:
        charts.append(Chart("training loss", "nats", "steps", "", losses, "lower", "Training loss over steps."))
    return [*charts, *_selected(table), *_terms(table)]


def _selected(table: ComparisonTable) -> list[Chart]:
    """Metrics by which weights were selected."""
    names = dict.fromkeys(
        name for row in table.rows for name in row.curves if name.startswith("validation_") and " over " not in name
    )
    charts = []
    for name in names:
        series = [Series(row.group, row.curves[name]) for row in table.rows if name in row.curves]
        metric = name.removeprefix("validation_")
        caption = f"By {metric} on validation samples the kept weights were chosen."
        charts.append(Chart(f"validation {metric}", "", "steps", "", series, "higher", caption))
    return charts


def _terms(table: ComparisonTable) -> list[Chart]:
    """Terms of the loss of arms that have several; those that would lie on the axis are named and not drawn."""
    charts = []
    for row in table.rows:
        terms = {name.removeprefix("loss/"): row.curves[name] for name in row.curves if name.startswith("loss/")}
        if len(terms) > 1:
            sizes = {name: max((abs(value) for _, value in points), default=0.0) for name, points in terms.items()}
            small = [name for name, size in sizes.items() if size < LEAST_TERM * max(sizes.values())]
            series = [Series(name, points) for name, points in terms.items() if name not in small]
            caption = f"Terms of the loss of {row.group}."
            if small:
                caption += f" Below {100 * LEAST_TERM:g} % of the largest, and left out: {', '.join(small)}."
            charts.append(Chart("loss", "nats", "steps", "", series, "lower", caption))
    return charts


def groups(table: ComparisonTable) -> dict[str, tuple[TextTable, Chart | None]]:
    """Group -> accuracy per value."""
    by_group = {}
    for group in dict.fromkeys(name for row in table.rows for name in row.groups):
        values = dict.fromkeys(value for row in table.rows for value in row.groups.get(group, {}))
        if len(values) < 2:
            continue
        title = f"Test accuracy in percent by {group}."
        told = [
            (row.group, [percent(row.groups[group].get(value)) for value in values])
            for row in table.rows
            if row.groups.get(group)
        ]
        if len(values) <= MOST_VALUES:
            words = TextTable(("arm", *values), [(arm, *shares) for arm, shares in told], title)
        else:  # a line each
            lines = list(zip(values, *(shares for _, shares in told), strict=True))
            words = TextTable((group, *(arm for arm, _ in told)), lines, title)
        by_group[group] = (words, _group_chart(table, group, list(values)))
    return by_group


def _group_chart(table: ComparisonTable, group: str, values: Sequence[str]) -> Chart | None:
    """Lines over a group whose values are numbers, such as a depth."""
    if not all(value.lstrip("-").replace(".", "", 1).isdigit() for value in values):
        return None
    series = [
        Series(row.group, [(float(v), 100 * row.groups[group][v].mean) for v in values if v in row.groups[group]])
        for row in table.rows
        if row.groups.get(group)
    ]
    return Chart("accuracy", "%", group, "", series, "higher", f"Test accuracy over {group}.")
