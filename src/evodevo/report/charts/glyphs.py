"""Small shapes: the glyph of an operator family, the marker of an individual's state, arrow heads."""

from __future__ import annotations

from evodevo.report.palette import family_role
from evodevo.report.svg import number

TEXT_GLYPHS = {
    "attention": ("■", "□"),
    "recurrence": ("●", "○"),
    "convolution": ("▲", "△"),
    "memoryless": ("▬", "▭"),
    "other": ("◆", "◇"),
}
"""Family → (glyph, glyph of the differential form) for terminals; the drawn glyphs have the same shapes."""
ASCII_GLYPHS = {
    "attention": ("A", "a"),
    "recurrence": ("R", "r"),
    "convolution": ("C", "c"),
    "memoryless": ("M", "m"),
    "other": ("X", "x"),
}


def _polygon(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{number(x)},{number(y)}" for x, y in points) + "Z"


def circle(x: float, y: float, radius: float) -> str:
    left, size = number(x - radius), number(radius)
    return (
        f"M{left},{number(y)}a{size},{size} 0 1 0 {number(2 * radius)},0a{size},{size} 0 1 0 {number(-2 * radius)},0Z"
    )


def square(x: float, y: float, radius: float) -> str:
    return _polygon(
        [(x - radius, y - radius), (x + radius, y - radius), (x + radius, y + radius), (x - radius, y + radius)]
    )


def triangle(x: float, y: float, radius: float) -> str:
    return _polygon([(x, y - radius), (x + radius, y + radius * 0.8), (x - radius, y + radius * 0.8)])


def diamond(x: float, y: float, radius: float) -> str:
    return _polygon([(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)])


def cross(x: float, y: float, radius: float) -> str:
    """Two strokes; to be stroked, not filled."""
    left, right, top, bottom = (number(v) for v in (x - radius, x + radius, y - radius, y + radius))
    return f"M{left},{top}L{right},{bottom}M{left},{bottom}L{right},{top}"


def arrow_head(x: float, y: float, towards: int, size: float = 5.0) -> str:
    """A filled head whose tip is at (x, y); ``towards`` is 1 for right and -1 for left."""
    return _polygon([(x, y), (x - towards * size, y - size * 0.6), (x - towards * size, y + size * 0.6)])


def family_glyph(family: str, x: float, y: float, radius: float) -> str:
    """Path data of a family's glyph: square attention, round recurrence, triangular convolution, flat memoryless."""
    role = family_role(family)
    if role == "attention":
        return square(x, y, radius * 0.88)
    if role == "recurrence":
        return circle(x, y, radius)
    if role == "convolution":
        return triangle(x, y, radius * 1.1)
    if role == "memoryless":
        return _polygon(
            [
                (x - radius, y - radius * 0.4),
                (x + radius, y - radius * 0.4),
                (x + radius, y + radius * 0.4),
                (x - radius, y + radius * 0.4),
            ]
        )
    return diamond(x, y, radius * 1.1)
