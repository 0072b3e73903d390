"""Table of an experiment: one row per arm, with the values that the paper prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evodevo.cli import output
from evodevo.cli.grown import growth_record, show_growth
from evodevo.runs.search_progress import duration

if TYPE_CHECKING:
    from evodevo.experiments.comparison import ComparisonRow, ComparisonTable, Spread
    from evodevo.runs.archive import Run

_MOST_COLUMNS = 16
EQUAL = {"steps": "equal steps", "flops": "equal FLOPs", "seconds": "equal time"}


def show_comparison(run: Run) -> None:
    """Print the table for people."""
    from evodevo.experiments.comparison import compare_arms
    from evodevo.report.charts.numbers import show

    table, comparison = compare_arms(run), run.settings.experiment
    if comparison.title:
        output.line(comparison.title)
    trained = ("train",) if any(row.train is not None for row in table.rows) else ()
    headings = (
        "arm",
        "lr",
        "seeds",
        *trained,
        "validation",
        "test",
        *EQUAL.values(),
        "parameters",
        "FLOPs",
        "training",
    )
    output.table(headings, [_cells(row, show, with_train=bool(trained)) for row in table.rows], right=headings[1:])
    _show_metrics(table)
    _show_differences(table)
    _show_ranks(table)
    _show_needs(table, show)
    _show_groups(table)
    _show_probes(table, show)
    _show_inside(table)
    show_growth(table, comparison.arms)
    _show_parts(run, table)
    _show_remarks(run, table, show)


def _show_parts(run: Run, table: ComparisonTable) -> None:
    """Print the tables that the procedures of the arms add."""
    from evodevo.experiments.procedures import PROCEDURES

    for name in dict.fromkeys(arm.procedure for arm in run.settings.experiment.arms):
        for part in PROCEDURES.get(name).page_parts():
            for title, words in part.tables(run, table).items():
                output.line(f"\n{title}:")
                right = [column for column in words.columns[1:] if column not in words.texts]
                output.table(words.columns, words.rows, right=right)
                output.words(words.caption)


def comparison_record(run: Run) -> dict[str, Any]:
    """The table's contents for ``--json``."""
    from evodevo.experiments.comparison import compare_arms
    from evodevo.experiments.ranking import ranks

    table, comparison = compare_arms(run), run.settings.experiment
    return {
        "title": comparison.title,
        "rows": [_record(row) for row in table.rows],
        "budgets": dict(table.budgets),
        "baselines": table.baselines,
        "facts": table.facts,
        "reference": table.reference,
        "ranks": {group: rank.to_json() for group, rank in ranks(table).items()},
        "growth": growth_record(table),
        "paper": [printed.model_dump(mode="json") for printed in comparison.paper],
        "caveats": list(comparison.caveats),
    }


def percent(spread: Spread | None) -> str:
    """A share in percent with its standard deviation over seeds: ``94.1 ± 0.4``."""
    if spread is None:
        return "–"
    deviation = f" ± {100 * spread.deviation:.1f}" if spread.count > 1 else ""
    return f"{100 * spread.mean:.1f}{deviation}"


def _cells(row: ComparisonRow, show: Any, *, with_train: bool) -> tuple[object, ...]:
    def amount(spread: Spread | None, unit: str) -> str:
        return "–" if spread is None else show(spread.mean, unit)

    seconds = None if row.training_seconds is None else row.training_seconds.mean
    return (
        row.group,
        f"{row.learning_rate:g}",
        len(row.trainings),
        *((percent(row.train),) if with_train else ()),
        percent(row.validation),
        percent(row.test),
        *(percent(row.at.get(name)) for name in EQUAL),
        amount(row.parameters, "parameters"),
        amount(row.executed_flops, "flops"),
        duration(seconds),
    )


def _show_metrics(table: ComparisonTable) -> None:
    names = table.headlines
    if not names:
        return
    output.line("\ntest, each output:")
    rows = [(row.group, *(_plain(row.metrics.get(name)) for name in names)) for row in table.rows if row.metrics]
    output.table(("arm", *names), rows, right=tuple(names))


def _show_differences(table: ComparisonTable) -> None:
    if not any(row.difference is not None for row in table.rows):
        return
    output.line(f"\ntest samples answered rightly, in points more than {table.reference} on the same ones:")
    rows = [
        (row.group, signed(d.mean), f"{signed(d.low)} to {signed(d.high)}", d.seeds, d.samples)
        for row in table.rows
        if (d := row.difference) is not None
    ]
    columns = ("difference", "95 % interval", "seeds", "samples")
    output.table(("arm", *columns), rows, right=columns)
    output.words("the intervals are paired bootstraps over seeds and samples; with few seeds they are too narrow.")


def _show_ranks(table: ComparisonTable) -> None:
    from evodevo.experiments.ranking import ranks

    row_ranks = ranks(table)
    if not row_ranks:
        return
    output.line("\nplace on the test split among the arms of the same cell, 1 the best:")
    rows = [
        (row.group, f"{rank.mean:.2f}", f"{rank.low:.2f} to {rank.high:.2f}", rank.arms, rank.seeds)
        for row in table.rows
        if (rank := row_ranks.get(row.group)) is not None
    ]
    columns = ("mean rank", "95 % interval", "arms", "seeds")
    output.table(("arm", *columns), rows, right=columns)


def _show_needs(table: ComparisonTable, show: Any) -> None:
    rows = [
        (
            row.group,
            _plain(row.epochs),
            "–" if row.peak_memory_bytes is None else show(row.peak_memory_bytes.mean, "bytes"),
        )
        for row in table.rows
        if row.epochs is not None
    ]
    if rows:
        output.line("\neach training:")
        output.table(("arm", "epochs", "peak memory"), rows, right=("epochs", "peak memory"))


def signed(share: float) -> str:
    """A difference of shares in percentage points: ``+1.3``."""
    return f"{100 * share:+.1f}"


def _show_groups(table: ComparisonTable) -> None:
    groups = dict.fromkeys(name for row in table.rows for name in row.groups)
    for group in groups:
        values = dict.fromkeys(value for row in table.rows for value in row.groups.get(group, {}))
        if len(values) < 2:
            continue
        output.line(f"\ntest accuracy in percent by {group}:")
        told = [(row.group, [percent(row.groups[group].get(v)) for v in values]) for row in table.rows if row.groups]
        if len(values) <= _MOST_COLUMNS:
            output.table(("arm", *values), [(arm, *shares) for arm, shares in told], right=tuple(values))
        else:  # a line each
            arms = [arm for arm, _ in told]
            lines = zip(values, *(shares for _, shares in told), strict=True)
            output.table((group, *arms), list(lines), right=tuple(arms))


def _show_probes(table: ComparisonTable, show: Any) -> None:
    names = dict.fromkeys(name for row in table.rows for name in row.probes)
    if not names:
        return
    output.line("\nvalidation accuracy in percent of the trained networks under other circumstances (FLOPs):")
    rows = []
    for row in table.rows:
        if row.probes:
            pairs = [row.probes.get(name, (None, None)) for name in names]
            rows.append(
                (row.group, *(percent(a) + ("" if f is None else f" ({show(f.mean, 'flops')})") for a, f in pairs))
            )
    output.table(("arm", *names), rows, right=tuple(names))


def _show_inside(table: ComparisonTable) -> None:
    names = dict.fromkeys(name for row in table.rows for name in row.inside)
    if names:
        output.line("\ninside the trained networks:")
        rows = [(row.group, *(_plain(row.inside.get(name)) for name in names)) for row in table.rows if row.inside]
        output.table(("arm", *names), rows, right=tuple(names))


def _show_remarks(run: Run, table: ComparisonTable, show: Any) -> None:
    comparison = run.settings.experiment
    for split, simple in table.baselines.items():
        if simple:
            known = ", ".join(f"{name} {value:.3f}" for name, value in simple.items())
            output.line(f"\nwithout a network, on {split}: {known}")
    for paper in comparison.paper:
        output.line(f"\n{'measured' if paper.is_ours else 'printed'} in {paper.source}:")
        output.table(paper.columns, paper.rows)
        for caveat in paper.caveats:
            output.words(f"note: {caveat}")
    if table.budgets:
        parts = [
            f"{table.budgets['steps']:,.0f} steps" if "steps" in table.budgets else "",
            f"{show(table.budgets['flops'], 'flops')} of training" if "flops" in table.budgets else "",
            duration(table.budgets["seconds"]) if "seconds" in table.budgets else "",
        ]
        output.words(
            f"equal steps, FLOPs and time are read from the curves at {', '.join(filter(None, parts))}; an arm that "
            "is read before its end has not yet lowered its learning rate as far."
        )
    for caveat in comparison.caveats:
        output.words(f"note: {caveat}")
    for row in table.rows:
        for sentence in row.remarks:
            output.words(f"{row.group}: {sentence}")
    for row in table.rows:
        for sentence in row.missing:
            output.words(f"missing: {sentence}")


def _plain(spread: Spread | None) -> str:
    if spread is None:
        return "–"
    return f"{spread.mean:.4g}" + (f" ± {spread.deviation:.2g}" if spread.count > 1 else "")


def _record(row: ComparisonRow) -> dict[str, Any]:
    def plain(spread: Spread | None) -> dict[str, float] | None:
        return None if spread is None else spread.to_json()

    return {
        "arm": row.name,
        "role": row.role,
        "cell": dict(row.cell),
        "learning_rate": row.learning_rate,
        "learning_rates": {f"{rate:g}": value for rate, value in row.rates.items()},
        "individuals": [training.id for training in row.trainings],
        "missing": list(row.missing),
        "train": plain(row.train),
        "validation": plain(row.validation),
        "test": plain(row.test),
        "metrics": {name: spread.to_json() for name, spread in row.metrics.items()},
        "groups": {g: {v: spread.to_json() for v, spread in values.items()} for g, values in row.groups.items()},
        "inside": {name: spread.to_json() for name, spread in row.inside.items()},
        "probes": {n: {"accuracy": plain(a), "executed_flops": plain(f)} for n, (a, f) in row.probes.items()},
        "parameters": plain(row.parameters),
        "executed_flops": plain(row.executed_flops),
        "steps": plain(row.steps),
        "training_flops": plain(row.training_flops),
        "training_seconds": plain(row.training_seconds),
        "epochs": plain(row.epochs),
        "peak_memory_bytes": plain(row.peak_memory_bytes),
        "difference": None if row.difference is None else row.difference.to_json(),
        "remarks": list(row.remarks),
        "at": {name: plain(spread) for name, spread in row.at.items()},
    }
