"""An ablation for people: one table of texts for each block, on the terminal and on a page."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evodevo.experiments.comparison import ComparisonTable, Spread
from evodevo.experiments.report.parts import PagePart
from evodevo.growth.ablation.paper import BASE, CAVEATS, SOURCE
from evodevo.growth.ablation.recipe import GROWING
from evodevo.growth.ablation.row import BLOCKS
from evodevo.growth.ablation.table import AblationLine, ablation_lines
from evodevo.report.charts.numbers import show
from evodevo.report.html import cut, element, section
from evodevo.report.word_tables import TextTable, words_table
from evodevo.runs.archive import Run
from evodevo.runs.drive import ABLATE

COLUMNS = ("row", "what is switched", "test %", "points to base", "95 % interval", "AUC", "parameters", "FLOPs/sample",
           "training s", "paper AUC", "paper acc. %", "paper: to base")  # fmt: skip
CAPTION = (
    "Test samples answered rightly, in percent and in points more than the base of the block on the same samples and "
    "seeds; mean ± standard deviation over seeds. ~: not the same samples, so a difference of means without interval. "
    f"On the right what {SOURCE} prints."
)
_DASH = "–"


class AblationPart(PagePart):
    """A table for each block, one under the other; nothing where the run is no ablation."""

    is_first = True

    def section(self, run: Run, table: ComparisonTable) -> Element | None:
        if run.kind != ABLATE:
            return None
        content: list[Element] = []
        for title, words in ablation_blocks(run, table).items():
            content += [element("h3", cut(title, 160)), words_table(words)]
        return section("ablation", "Ablation", *content) if content else None

    def remarks(self, run: Run, table: ComparisonTable) -> Sequence[str]:
        return CAVEATS if run.kind == ABLATE else ()


ABLATION = AblationPart()


def ablation_blocks(run: Run, table: ComparisonTable) -> dict[str, TextTable]:
    """Title of a block -> its rows, the base first.

    Raises:
        UsageError: the run is no ablation.
    """
    blocks: dict[str, list[AblationLine]] = {}
    for line in ablation_lines(run, table):
        blocks.setdefault(line.block, []).append(line)
    titles = {str(key): words for key, words in BLOCKS.items()}
    tables = {}
    for block, lines in blocks.items():
        name = block.removesuffix(GROWING)
        title = f"{block}: {titles.get(name, name)}"
        tables[title] = TextTable(COLUMNS, [_cells(line) for line in lines], CAPTION)
    return tables


def _cells(line: AblationLine) -> tuple[str, ...]:
    result, difference, printed = line.result, line.difference, line.printed
    interval = _DASH if difference is None else f"{_points(difference.low)} to {_points(difference.high)}"
    gap = _DASH if line.gap is None else f"~{_points(line.gap)}"
    auc = line.metric("auc")
    failed = any("waiting" not in words for words in result.missing)
    return (
        f"{line.code} {result.name}",
        "" if line.row is None else line.row.words,
        _percent(result.test) if result.test is not None else "failed" if failed else _DASH,
        gap if difference is None else _points(difference.mean),
        interval,
        _DASH if auc is None else f"{auc.mean:.4f}",
        _DASH if result.parameters is None else show(result.parameters.mean, "parameters"),
        _DASH if result.executed_flops is None else show(result.executed_flops.mean, "flops"),
        _DASH if result.training_seconds is None else f"{result.training_seconds.mean:.1f}",
        _DASH if printed is None else f"{printed.auc:.4f}",
        _DASH if printed is None else f"{printed.accuracy:.1f}",
        _DASH if printed is None or line.row is None else f"{printed.accuracy - BASE.accuracy:+.1f}",
    )


def _percent(spread: Spread) -> str:
    return f"{100 * spread.mean:.1f}" + (f" ± {100 * spread.deviation:.1f}" if spread.count > 1 else "")


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"
