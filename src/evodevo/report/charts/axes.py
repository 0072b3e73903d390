"""From numbers to places: scales with round ticks, and the frame of a chart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evodevo.report.charts.numbers import show, tick_texts
from evodevo.report.svg import Drawing, finite, one_line, shorten, text_width

_LOG_FROM = 30.0
"""An axis whose direction of scale is left open becomes logarithmic when its values span more than this ratio."""


@dataclass(frozen=True)
class Axis:
    """One axis of a chart.

    Args:
        name: name of the quantity, for example ``cache``.
        unit: ``bytes``, ``parameters``, ``flops``, ``tokens``, ``seconds`` (shown with prefixes) or any text.
        logarithmic: None decides by the values.
        minimise: whether lower is better; None where neither is.
    """

    name: str
    unit: str = ""
    logarithmic: bool | None = None
    minimise: bool | None = None


class Scale:
    """Places the values ``low`` to ``high`` on the pixels ``start`` to ``end``; values beyond are held at the edge."""

    def __init__(self, low: float, high: float, start: float, end: float, logarithmic: bool = False) -> None:
        self.low, self.high, self.start, self.end, self.logarithmic = low, high, start, end, logarithmic

    @classmethod
    def fit(
        cls,
        values: Iterable[float | None],
        start: float,
        end: float,
        logarithmic: bool | None = None,
        padding: float = 0.06,
        include_zero: bool = False,
    ) -> Scale:
        """A scale that holds all finite ``values`` and a little air; any values work, also none."""
        known = [value for value in map(finite, values) if value is not None] or [0.0, 1.0]
        low, high = min(known), max(known)
        if include_zero:
            low, high = min(low, 0.0), max(high, 0.0)
        positive = low > 1e-290
        log = positive and (high / low > _LOG_FROM if logarithmic is None else logarithmic)
        if log:
            bottom, top = math.log10(low), math.log10(high)
            air = padding * (top - bottom) if top - bottom > 1e-9 else 0.5
            return cls(10.0 ** (bottom - air), 10.0 ** min(top + air, 300.0), start, end, True)
        span = high - low
        if span <= max(abs(low), abs(high)) * 1e-12 or span < 1e-290:
            air = abs(high) * 0.05 or 0.5
            return cls(low - air, high + air, start, end)
        bottom_air = 0.0 if include_zero and low == 0.0 else padding * span
        return cls(low - bottom_air, high + padding * span, start, end)

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        held = min(max(value, low), high)
        if self.logarithmic:
            low, high, held = math.log10(low), math.log10(high), math.log10(held)
        # Halves keep the difference of two large numbers finite.
        share = (held / 2 - low / 2) / (high / 2 - low / 2)
        return self.start + (self.end - self.start) * share

    def ticks(self, wanted: int = 5) -> list[float]:
        """Round values within the scale, about ``wanted`` of them."""
        if self.logarithmic:
            decades = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            for marks in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
                spread = range(decades.start - 1, decades.stop + 1) if len(marks) > 1 else decades
                values = [mark * 10.0**power for power in spread for mark in marks]
                inside = [value for value in values if self.low <= value <= self.high]
                if len(inside) >= min(wanted - 1, 4):
                    stride = math.ceil(len(inside) / (wanted + 2))
                    return inside[::stride]
        # Three at least, as far as round numbers allow: one tick is no scale.
        tries = [self._even_ticks(wanted + more) for more in range(4)]
        return next((candidate for candidate in tries if len(candidate) >= 3), tries[-1])

    def _even_ticks(self, wanted: int) -> list[float]:
        rough = (self.high / wanted) - (self.low / wanted)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        values = [(first + index) * step for index in range(4 * wanted)]
        return [value for value in values if self.low <= value <= self.high]


@dataclass(frozen=True)
class Frame:
    """The rectangle of a chart with its two scales."""

    x: Scale
    y: Scale

    @property
    def left(self) -> float:
        return self.x.start

    @property
    def right(self) -> float:
        return self.x.end

    @property
    def top(self) -> float:
        return self.y.end

    @property
    def bottom(self) -> float:
        return self.y.start


def axis_title(axis: Axis, symbol: str) -> str:
    """``cache (MB), lower is better``."""
    unit = f" ({symbol})" if symbol else ""
    better = {True: ", lower is better", False: ", higher is better", None: ""}[axis.minimise]
    return one_line(f"{axis.name}{unit}{better}", 200)


def draw_frame(
    drawing: Drawing,
    frame: Frame,
    x_axis: Axis,
    y_axis: Axis,
    whole_x: bool = False,
    bars: Sequence[str] | None = None,
) -> None:
    """Grid, ticks and titles around the frame. ``whole_x`` keeps to whole numbers on the horizontal axis; ``bars``
    are the names of the places 0, 1, 2, … on it, written as far as they fit, without a grid."""
    width, height = frame.right - frame.left, frame.bottom - frame.top
    y_ticks = frame.y.ticks(max(2, int(height / 60)))
    y_texts, y_symbol = _texts(y_ticks, y_axis, frame.y)
    if bars is None:
        x_ticks = frame.x.ticks(max(2, int(width / 90)))
        if whole_x:
            x_ticks = sorted({float(round(tick)) for tick in x_ticks if frame.x.low <= round(tick) <= frame.x.high})
        x_texts, x_symbol = _texts(x_ticks, x_axis, frame.x)
        for value in x_ticks:
            drawing.line(frame.x(value), frame.top, frame.x(value), frame.bottom, "stroke-faint")
    else:
        stride = max(1, math.ceil(28 / (width / len(bars))))
        x_ticks = [float(index) for index in range(0, len(bars), stride)]
        x_texts, x_symbol = [bars[index] for index in range(0, len(bars), stride)], ""
    for value in y_ticks:
        drawing.line(frame.left, frame.y(value), frame.right, frame.y(value), "stroke-faint")
    drawing.line(frame.left, frame.bottom, frame.right, frame.bottom, "stroke-muted")
    drawing.line(frame.left, frame.top, frame.left, frame.bottom, "stroke-muted")
    for value, text in zip(x_ticks, x_texts, strict=True):
        drawing.line(frame.x(value), frame.bottom, frame.x(value), frame.bottom + 4, "stroke-muted")
        drawing.text(frame.x(value), frame.bottom + 17, text, "fill-muted", anchor="middle")
    for value, text in zip(y_ticks, y_texts, strict=True):
        drawing.line(frame.left - 4, frame.y(value), frame.left, frame.y(value), "stroke-muted")
        drawing.text(frame.left - 8, frame.y(value) + 4, text, "fill-muted", anchor="end")
    across = shorten(axis_title(x_axis, x_symbol), width, 12)
    drawing.text((frame.left + frame.right) / 2, frame.bottom + 38, across, size=12, anchor="middle")
    up = shorten(axis_title(y_axis, y_symbol), height + 20, 12)
    widest = max((text_width(text, 11) for text in y_texts), default=0.0)
    drawing.text(
        max(frame.left - 18 - widest, 14), (frame.top + frame.bottom) / 2, up, size=12, anchor="middle", turned=True
    )


def _texts(ticks: list[float], axis: Axis, scale: Scale) -> tuple[list[str], str]:
    if scale.logarithmic:
        shown = [show(tick, axis.unit) for tick in ticks]
        return shown, axis.unit if axis.unit not in ("bytes", "parameters", "flops", "tokens", "seconds") else ""
    return tick_texts(ticks, axis.unit)


LEFT_MARGIN = 84.0
"""Room for the vertical axis: its title, and labels of up to eight characters."""
BOTTOM_MARGIN = 52.0
"""Room for the horizontal axis: labels and title."""
