"""Plain texts and drawings as parts of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from evodevo.report.html import cut, details, figure, table
from evodevo.report.svg import whole

MOST_ROWS = 600


@dataclass(frozen=True)
class TextTable:
    """A table of texts: the first column names the rows.

    Args:
        texts: columns beside the first that hold words; the others hold numbers, which are set flush right.
        ids: columns beside the first that hold ids; these and the first are never cut.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    texts: Sequence[str] = ()
    ids: Sequence[str] = ()


@dataclass(frozen=True)
class CaptionedDrawing:
    """One drawing, as SVG.

    Args:
        caption: below it.
        folded: summary of a table that is closed at first; empty for one that is always open.
    """

    svg: str
    caption: str = ""
    folded: str = ""


def words_table(words: TextTable) -> Element:
    """A table of texts; of very many rows the first."""
    caption = cut(words.caption, 400)
    if len(words.rows) > MOST_ROWS:
        caption = f"{caption} The first {MOST_ROWS:,} of {len(words.rows):,} rows; the store holds all.".strip()
    ids = {0, *(place for place, name in enumerate(words.columns) if name in words.ids)}
    rows = [
        [whole(cell) if place in ids else cut(cell, 200) for place, cell in enumerate(row)]
        for row in words.rows[:MOST_ROWS]
    ]
    numeric = [place for place, name in enumerate(words.columns) if place and name not in words.texts]
    return table([cut(name, 60) for name in words.columns], rows, numeric, caption)


def pictures(drawn: Iterable[CaptionedDrawing]) -> list[Element]:
    """Drawings, folded where they are to be."""
    figures = []
    for drawing in drawn:
        shown = figure(drawing.svg, cut(drawing.caption, 400), classes="fits")
        figures.append(details(cut(drawing.folded, 160), shown) if drawing.folded else shown)
    return figures
