"""The operators of a population, generation by generation (paper, Fig. 5.4, B.26, B.27)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evodevo.report.charts.axes import BOTTOM_MARGIN, LEFT_MARGIN, Axis, Frame, Scale, draw_frame
from evodevo.report.charts.glyphs import family_glyph
from evodevo.report.charts.line_names import stack_apart
from evodevo.report.charts.numbers import show
from evodevo.report.palette import FAMILIES, family_role
from evodevo.report.svg import Drawing, empty, finite, one_line, shorten, text_width


@dataclass(frozen=True)
class Composition:
    """One generation: the mean number of LIVs per genome for every class or family that occurs."""

    generation: int
    counts: Mapping[str, float]


def composition_chart(
    generations: Sequence[Composition],
    families: Mapping[str, str] | None = None,
    width: float = 760,
    height: float = 340,
) -> str:
    """Stacked bars. ``families`` gives the family, and so the colour, of each name; a name that is not in it is its
    own family (so counts per family need none). Names are written beside the last bar."""
    rows = [
        (item.generation, {name: value for name, count in item.counts.items() if (value := finite(count) or 0.0) > 0})
        for item in sorted(generations, key=lambda item: item.generation)
    ]
    rows = [(generation, counts) for generation, counts in rows if counts]
    if not rows:
        return empty("No genomes to count.", width)
    families = families or {}

    def role(name: str) -> str:
        return family_role(families.get(name, name))

    names = sorted({name for _, counts in rows for name in counts}, key=lambda name: (FAMILIES.index(role(name)), name))
    shown = {name: shorten(one_line(name, 60), 150, 11) for name in names}
    right = width - 44 - max(text_width(f"{text} 00.0", 11) for text in shown.values())
    frame = Frame(
        Scale(-0.6, len(rows) - 0.4, LEFT_MARGIN, right),
        Scale.fit((sum(counts.values()) for _, counts in rows), height - BOTTOM_MARGIN, 20, False, 0.04, True),
    )
    drawing = Drawing(width, height, f"Mean number of LIVs per genome over {len(rows)} generations")
    bars = [str(generation) for generation, _ in rows]
    draw_frame(drawing, frame, Axis("generation"), Axis("LIVs per genome"), bars=bars)
    bar = min((frame.right - frame.left) / len(rows) * 0.78, 70.0)
    tops: dict[str, float] = {}
    for index, (generation, counts) in enumerate(rows):
        total = 0.0
        for name in names:
            count = counts.get(name, 0.0)
            low, high = frame.y(total), frame.y(total + count)
            total += count
            if index == len(rows) - 1:
                tops[name] = (low + high) / 2
            if count:
                words = f"{name}\ngeneration {generation}: {show(count, digits=3)} per genome"
                classes = f"bar fill-{role(name)}-soft stroke-{role(name)}"
                drawing.rect(frame.x(index) - bar / 2, high, bar, low - high, classes, words, stroke_width=0.9)
                if low - high >= 13 and bar >= 16:
                    drawing.path(family_glyph(role(name), frame.x(index), (low + high) / 2, 3.4), f"fill-{role(name)}")
    ends = stack_apart([tops[name] for name in names], [14.0] * len(names), frame.top - 3, frame.bottom + 5)
    edge = frame.x(len(rows) - 1) + bar / 2
    for name, end in zip(names, ends, strict=True):
        count = rows[-1][1].get(name, 0.0)
        drawing.path(f"M{edge + 1:.1f},{tops[name]:.1f}L{right + 10:.1f},{end:.1f}", "hollow stroke-faint")
        drawing.path(family_glyph(role(name), right + 17, end, 4), f"fill-{role(name)}")
        drawing.text(right + 26, end + 4, f"{shown[name]} {count:.1f}", "fill-ink")
    return drawing.svg()
