"""A protocol in words: the cells of its table, for the page and for the command line."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.backbone.protocol.record import TableRow
from evodevo.experiments.comparison import Spread
from evodevo.report.charts.numbers import MISSING, show

_STAGES = {
    "baselines": "tunes the learning rate of the baselines",
    "search": "the search",
    "random": "random search with as many evaluations",
    "tuning": "tunes the learning rate of the finalists",
    "training": "trains finalists and baselines for long",
    "test": "reads the test split, once",
}


def stage_words(stage: str) -> str:
    """The purpose of a stage."""
    return _STAGES.get(stage, stage)


def headings(rows: Sequence[TableRow], length: int) -> list[str]:
    """Names of the columns of the paper's Table 5.1; downstream tasks where there are some."""
    tasks = _tasks(rows)
    average = ["average"] if tasks else []
    cache = f"cache at {length:,}"
    return ["model", "size", cache, "perplexity", "bits per byte", *tasks, *average, "seeds", "rate", "dominates"]


def cells(rows: Sequence[TableRow]) -> list[list[str]]:
    """The rows as text."""
    tasks = _tasks(rows)
    return [
        [
            row.name,
            show(row.parameters, "parameters", 3),
            show(row.cache_bytes, "bytes", 3),
            MISSING if row.perplexity is None else show(row.perplexity.mean, digits=4, padded=True),
            spread_words(row.test),
            *(f"{row.tasks[task]:.1f}" if task in row.tasks else MISSING for task in tasks),
            *([MISSING if row.average is None else f"{row.average:.1f}"] if tasks else []),
            str(row.seeds),
            MISSING if row.learning_rate is None else f"{row.learning_rate:g}",
            ", ".join(row.dominates) or MISSING,
        ]
        for row in rows
    ]


def spread_words(spread: Spread | None) -> str:
    """``2.314 (2.301 to 2.330)``; the mean alone of one seed."""
    if spread is None:
        return MISSING
    mean = show(spread.mean, padded=True)
    if spread.count == 1:
        return mean
    return f"{mean} ({show(spread.low, padded=True)} to {show(spread.high, padded=True)})"


def _tasks(rows: Sequence[TableRow]) -> list[str]:
    return list(dict.fromkeys(task for row in rows for task in row.tasks))
