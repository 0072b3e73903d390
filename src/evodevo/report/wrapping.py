"""Text in several lines, of which nothing is lost: a reader finds a whole id on a page by a search."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evodevo.report.svg import text_width, whole

_BEHIND = frozenset(" _-.,:;/~")
"""Characters after which a line ends well."""


def wrap(text: object, width: float, size: float, mono: bool = False) -> list[str]:
    """Lines whose joined text is ``text`` on one line.

    Args:
        text: any length; it has one line at least.
        width: largest width of a line, in pixels; a character that is wider has a line of its own.
        size: font size, in pixels.
        mono: whether all characters are of one width.
    """
    left, lines = whole(text), []
    while text_width(left, size, mono) > width and len(left) > 1:
        end = _fitting(left, width, size, mono)
        # A line ends behind a separator, unless it would be less than half as long as it could be.
        good = [place for place in range((end + 1) // 2, end + 1) if left[place - 1] in _BEHIND]
        end = good[-1] if good else end
        lines.append(left[:end])
        left = left[end:]
    return [*lines, left]


def least_width(
    texts: Sequence[str], lines: int, size: float, low: float, high: float = math.inf, mono: bool = False
) -> float:
    """The first of some growing widths, from ``low`` to ``high`` pixels, at which each text has at most ``lines``
    lines."""
    width = low
    while width < high and any(len(wrap(text, width, size, mono)) > lines for text in texts):
        width *= 1.15
    return min(width, high)


def _fitting(text: str, width: float, size: float, mono: bool) -> int:
    """Number of characters of the longest beginning that fits, 1 at least."""
    used = 0.0
    for place, character in enumerate(text):
        used += text_width(character, size, mono)
        if used > width and place:
            return place
    return len(text)
