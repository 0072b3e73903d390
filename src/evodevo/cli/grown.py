"""Tables of networks that grew: a row per arm, and the history of one training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evodevo.cli import output

if TYPE_CHECKING:
    from evodevo.experiments.comparison import ComparisonTable
    from evodevo.experiments.trials import Variant
    from evodevo.report.word_tables import TextTable
    from evodevo.runs.archive import Individual


def show_growth(table: ComparisonTable, arms: Sequence[Variant]) -> None:
    """Print edits and decisions of the arms that could grow, and which rivals of one that learns are missing."""
    from evodevo.growth.report.tables import arms_table, decisions_table, grown_rows, missing_rivals

    rows = grown_rows(table)
    if not rows:
        return
    for title, words in (
        ("how the networks grew:", arms_table(rows)),
        ("how that was decided:", decisions_table(rows)),
    ):
        output.line(f"\n{title}")
        right = tuple(name for name in words.columns[1:] if name not in words.texts)
        output.table(words.columns, words.rows, right=right)
    for sentence in missing_rivals(arms):
        output.words(sentence)


def growth_record(table: ComparisonTable) -> dict[str, Any]:
    """Numbers by arm for ``--json``."""
    from evodevo.growth.report.tables import grown_rows, summaries

    return summaries(grown_rows(table))


def show_history(individual: Individual) -> None:
    """Print who raced, forks, falls of a cap and every edit of one training; nothing where the network did not grow."""
    from evodevo.growth.report.caps import cap_table, cap_words
    from evodevo.growth.report.forks import fork_table, fork_words
    from evodevo.growth.report.race import race_table
    from evodevo.growth.report.reading import growth_of
    from evodevo.growth.report.text import HISTORY, history

    growth = growth_of(individual)
    raced = None if growth is None else race_table(growth)
    if raced is not None:
        output.line("race        before the first event")
        output.table(raced.columns, raced.rows, right=tuple(name for name in raced.columns[1:3]))
    if growth is None or not growth.events:
        return
    events = f"{len(growth.events)} event{'' if len(growth.events) == 1 else 's'}"
    output.line(f"edits       {len(growth.accepted)} in {events}, {growth.refused} refused")
    right = tuple(name for name in HISTORY if name != "what")
    output.table(HISTORY, history(growth), right=right)
    for sentence in fork_words(growth.forks):
        output.line(f"forks       {sentence}")
    _print_table(fork_table(growth.forks))
    for sentence in cap_words(growth):
        output.line(f"caps        {sentence}")
    _print_table(cap_table(growth))


def _print_table(table: TextTable | None) -> None:
    """Numbers to the right, texts to the left; nothing where there is no table."""
    if table is not None:
        right = tuple(name for name in table.columns if name not in table.texts)
        output.table(table.columns, table.rows, right=right)
