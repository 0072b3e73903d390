"""Signs of edits: a lettered disc for a birth, a lettered square for an edit in place or around the modules, a cross, a
triangle."""

from __future__ import annotations

from collections.abc import Iterable

from evodevo.growth.around.base import AROUND
from evodevo.growth.spec import REPLACE
from evodevo.growth.tables.find import row_of
from evodevo.report.charts import glyphs as marks
from evodevo.report.svg import Drawing, shorten, text_width

EDGE, LEAST_ROOM = 8.0, 30.0
"""Space at the right edge, and the least for a sign's words, in units of the drawing."""

LETTERS = {"grow": "G", "spawn": "S", "hybridise": "H", REPLACE: "R", "stack": "S", "insert": "I", "lengthen": "L"}
REPLACED = "replaced"
WORDS = {
    "grow": "grown from a parent",
    "spawn": "spawned afresh",
    "hybridise": "hybrid of two",
    REPLACE: "put in the place of another",
    "prune": "pruned",
    REPLACED: "gave its place to a newborn",
    "rewarm": "warmed up again",
    "stack": "LIVs stacked",
    "insert": "LIV inserted",
    "lengthen": "longer windows",
}


def words_of(operation: str) -> str:
    """An operation in a legend."""
    row = row_of(operation)
    if row is None:
        return WORDS.get(operation, operation)
    return f"network {row.done}" if operation in AROUND else f"{row.done} in place"


def draw_sign(drawing: Drawing, operation: str, x: float, y: float, role: str = "ink") -> None:
    """The sign of an operation around a point; ``role`` is its colour where it has no meaning of its own."""
    if operation == "prune":
        drawing.path(marks.cross(x, y, 4.5), "hollow stroke-failed", stroke_width=2)
    elif operation == REPLACED:
        drawing.line(x - 8, y, x + 8, y, "stroke-failed", stroke_width=1.4, stroke_dasharray="2 3")
    elif operation == "rewarm":
        drawing.path(marks.triangle(x, y, 5), f"fill-paper stroke-{role}", stroke_width=1.3)
    elif (row := row_of(operation)) is not None:
        drawing.element(
            "rect", f"fill-paper stroke-{role}", x=x - 6.5, y=y - 6.5, width=13, height=13, rx=2, stroke_width=1.4
        )
        drawing.text(x, y + 3.4, row.letter, f"fill-{role} strong", 9.5, "middle")
    else:
        drawing.element("circle", f"fill-paper stroke-{role}", cx=x, cy=y, r=7, stroke_width=1.4)
        drawing.text(x, y + 3.4, LETTERS.get(operation, "+"), f"fill-{role} strong", 9.5, "middle")


def draw_signs(drawing: Drawing, operations: Iterable[str], x: float, y: float) -> None:
    """A legend of the operations that occur, on the baseline ``y``; what has no room is left out."""
    occurring = set(operations)
    for operation in [*(name for name in WORDS if name in occurring), *sorted(occurring - set(WORDS) - {""})]:
        room = drawing.width - x - 20 - EDGE
        if room < LEAST_ROOM:
            return
        words = shorten(words_of(operation), room, 10)
        draw_sign(drawing, operation, x + 7, y - 3.5)
        drawing.text(x + 20, y, words, "fill-muted", 10)
        x += 20 + text_width(words, 10) + 12
