"""The sheet that every drawing is made on: SVG elements, safe text, room for it.

All markup is an ``xml.etree.ElementTree``, so that no text can become markup. There are no ids, scripts, links,
``url()`` or inline styles in a drawing: many fit on one page, under a content security policy that forbids them.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from evodevo.report.palette import STYLE

SVG_NAMESPACE = "http://www.w3.org/2000/svg"
_TOOLTIP = 20_000
"""Most characters of a tooltip, which may list many ids."""
Anchor = Literal["start", "middle", "end"]

# Control characters (terminal escapes among them), direction overrides, and what XML cannot hold.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_NARROW = frozenset("iIljtfr.,:;|!'`()[]{} -·")
_WIDE = frozenset("mwMW@%—…")


def clean(text: object, limit: int = 2000) -> str:
    """``text`` with control and direction characters made visible (``\\x1b``), at most ``limit`` characters long."""
    shown = _UNSAFE.sub(_visible, str(text)[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def one_line(text: object, limit: int = 2000) -> str:
    """As ``clean``, with every run of white space as one space."""
    return " ".join(clean(text, limit).split())


def whole(text: object) -> str:
    """As ``one_line``, of any length: for ids, which are never cut."""
    # A character takes six at most when it is made visible.
    return one_line(text, 6 * len(str(text)) + 1)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def text_width(text: str, size: float, mono: bool = False) -> float:
    """About how many units ``text`` takes at font size ``size``; on the wide side, since fonts differ."""
    if mono:
        return sum(0.62 if character < "\u2000" else 1.0 for character in text) * size
    width = 0.0
    for character in text:
        if character in _NARROW:
            width += 0.38
        elif character in _WIDE:
            width += 0.98
        elif character.isupper():
            width += 0.74
        else:
            width += 0.62 if character < "\u1100" else 1.0
    return width * size


def shorten(text: str, width: float, size: float, mono: bool = False) -> str:
    """``text``, cut with an ellipsis where it would not fit into ``width`` units."""
    if text_width(text, size, mono) <= width:
        return text
    while text and text_width(text + "…", size, mono) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def number(value: float) -> str:
    """A coordinate, to a tenth of a unit and without a useless zero."""
    rounded = round(value, 1)
    return str(int(rounded)) if rounded == int(rounded) else str(rounded)


def finite(value: float | int | None) -> float | None:
    """``value`` as a float that can be placed on an axis, else None (missing, nan, infinite, beyond 1e300)."""
    if value is None:
        return None
    try:
        given = float(value)
    except OverflowError:
        return None
    return given if math.isfinite(given) and abs(given) < 1e300 else None


class Drawing:
    """One SVG under construction; coordinates are CSS pixels, y grows downwards.

    ``label`` is the text for screen readers. Classes are roles of the palette. Every method returns the new element.
    """

    def __init__(self, width: float, height: float, label: str) -> None:
        self.width = math.ceil(width)
        self.height = math.ceil(height)
        self.root = ElementTree.Element(
            "svg",
            {
                "xmlns": SVG_NAMESPACE,
                "class": "diagram",
                "viewBox": f"0 0 {self.width} {self.height}",
                "width": str(self.width),
                "height": str(self.height),
                "role": "img",
                "aria-label": one_line(label),
            },
        )
        ElementTree.SubElement(self.root, "style").text = STYLE
        self._parent = self.root
        self.rect(0, 0, self.width, self.height, "fill-paper")

    def element(self, tag: str, classes: str, title: str = "", **attributes: str | float) -> ElementTree.Element:
        """A new element in the current group; underscores of attribute names become hyphens."""
        given = {
            name.replace("_", "-"): number(value) if isinstance(value, int | float) else value
            for name, value in attributes.items()
        }
        made = ElementTree.SubElement(self._parent, tag, {**({"class": classes} if classes else {}), **given})
        if title:
            ElementTree.SubElement(made, "title").text = clean(title, _TOOLTIP)
        return made

    @contextmanager
    def group(self, classes: str = "", title: str = "", **attributes: str | float) -> Iterator[ElementTree.Element]:
        """A ``<g>`` with one tooltip around the elements drawn inside the ``with``."""
        outer = self._parent
        self._parent = self.element("g", classes, title, **attributes)
        try:
            yield self._parent
        finally:
            self._parent = outer

    def rect(
        self, x: float, y: float, width: float, height: float, classes: str, title: str = "", **more: str | float
    ) -> ElementTree.Element:
        return self.element("rect", classes, title, x=x, y=y, width=max(width, 0), height=max(height, 0), **more)

    def line(
        self, x1: float, y1: float, x2: float, y2: float, classes: str, **more: str | float
    ) -> ElementTree.Element:
        return self.element("line", classes, "", x1=x1, y1=y1, x2=x2, y2=y2, **more)

    def path(self, data: str, classes: str, title: str = "", **more: str | float) -> ElementTree.Element:
        return self.element("path", classes, title, d=data, **more)

    def text(
        self,
        x: float,
        y: float,
        content: object,
        classes: str = "fill-ink",
        size: float = 11,
        anchor: Anchor = "start",
        turned: bool = False,
        title: str = "",
    ) -> ElementTree.Element:
        """One line of text on the baseline ``y``; ``turned`` reads upwards."""
        more: dict[str, str | float] = {"font_size": size, "text_anchor": anchor}
        if turned:
            more["transform"] = f"rotate(-90 {number(x)} {number(y)})"
        made = self.element("text", classes, "", x=x, y=y, **more)
        made.text = whole(content)
        if title:
            ElementTree.SubElement(made, "title").text = clean(title, _TOOLTIP)
        return made

    def lines(
        self,
        x: float,
        y: float,
        lines: Sequence[str],
        classes: str = "fill-ink",
        size: float = 11,
        anchor: Anchor = "start",
        turned: bool = False,
        title: str = "",
        step: float = 12,
    ) -> ElementTree.Element:
        """One text in several lines, as ``wrap`` makes them, the first on the baseline ``y`` and each ``step`` pixels
        below the one before (to its right where ``turned``)."""
        if len(lines) == 1:
            return self.text(x, y, lines[0], classes, size, anchor, turned, title)
        made = self.text(x, y, "", classes, size, anchor, turned)
        for place, line in enumerate(lines):
            # Without space between the elements, so that a search finds what the lines divide.
            part = ElementTree.SubElement(made, "tspan", {"x": number(x), "y": number(y + step * place)})
            part.text = clean(line, 6 * len(line) + 1)
        if title:
            ElementTree.SubElement(made, "title").text = clean(title, _TOOLTIP)
        return made

    def svg(self) -> str:
        """The drawing as one string that is a complete file."""
        return ElementTree.tostring(self.root, encoding="unicode")


def polyline(points: Sequence[tuple[float, float]]) -> str:
    """Path data through ``points``."""
    return "M" + "L".join(f"{number(x)},{number(y)}" for x, y in points)


def empty(message: str, width: float = 640, height: float = 90) -> str:
    """A drawing with the reason why there is nothing to draw."""
    drawing = Drawing(width, height, message)
    drawing.rect(6, 6, width - 12, height - 12, "fill-panel", rx=6)
    shown = shorten(one_line(message), width - 60, 13)
    drawing.text(width / 2, height / 2 + 4, shown, "fill-muted", size=13, anchor="middle")
    return drawing.svg()
