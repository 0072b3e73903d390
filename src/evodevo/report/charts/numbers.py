"""Numbers as people read them: SI prefixes, few digits, units. Bytes are decimal, as in the paper (150 MB at 4K)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evodevo.report.svg import finite

# unit of the settings: (symbol, may have large prefixes, may have small prefixes)
_UNITS: dict[str, tuple[str, bool, bool]] = {
    "bytes": ("B", True, False),
    "parameters": ("", True, False),
    "flops": ("FLOP", True, False),
    "tokens": ("", True, False),
    "seconds": ("s", False, True),
}
_PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
MISSING = "–"


def exponent_for(value: float, unit: str) -> int:
    """The power of ten, a multiple of three, that ``value`` is best shown in."""
    _, large, small = _UNITS.get(unit, ("", False, False))
    if value == 0 or not (large or small):
        return 0
    power = 3 * math.floor(math.log10(abs(value)) / 3 + 1e-9)
    return min(max(power, -9 if small else 0), 18 if large else 0)


def symbol_for(unit: str, exponent: int) -> str:
    """The unit with its prefix: ``symbol_for("bytes", 6)`` is ``MB``."""
    return _PREFIXES[exponent] + _UNITS[unit][0] if unit in _UNITS else unit


def says_its_unit(unit: str) -> bool:
    """Whether ``show`` writes ``unit`` beside the number, so that a heading need not name it."""
    return unit in _UNITS


def plain(value: float, digits: int = 4, padded: bool = False) -> str:
    """``value`` to ``digits`` significant digits, without an exponent where a person would not write one.

    ``padded`` keeps the zeros at the end, so that the numbers of a column are equally exact.
    """
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{max(digits - 2, 0)}e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    shown = f"{value:,.{decimals}f}"
    if padded:
        return shown
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def show(value: float | int | None, unit: str = "", digits: int = 4, padded: bool = False) -> str:
    """One number with its unit (``151 MB``, ``84.93 M``, ``1.832``); a dash for what is missing or not finite."""
    given = finite(value)
    if given is None:
        return MISSING
    exponent = exponent_for(given, unit)
    symbol = symbol_for(unit, exponent) if unit in _UNITS else ""
    whole = exponent == 0 and isinstance(value, int)  # counts have no decimals
    shown = plain(given / 10.0**exponent, digits, padded and not whole)
    return f"{shown} {symbol}".rstrip()


def tick_texts(ticks: Sequence[float], unit: str) -> tuple[list[str], str]:
    """Labels for evenly spaced ticks in one common unit, and that unit for the axis title."""
    largest = max((abs(tick) for tick in ticks), default=0.0)
    exponent = exponent_for(largest, unit)
    scaled = [tick / 10.0**exponent for tick in ticks]
    # The fewest decimals that write every tick exactly; ticks are round, so that few are enough.
    for decimals in range(7):
        if (
            all(abs(tick - round(tick, decimals)) <= 1e-9 * abs(tick) for tick in scaled)
            and largest < 1e6 * 10.0**exponent
        ):
            return [f"{tick:,.{decimals}f}" for tick in scaled], symbol_for(unit, exponent)
    return [f"{tick:.10g}" for tick in scaled], symbol_for(unit, exponent)
