"""The text form of genomes that consist of integers.

A segment's digits are concatenated if every value is below 10 (``12121``), else dots separate them (``12.1.1.1.1``).
Segments are separated by spaces, hyphens or en dashes. The caller gives the number of integers in a segment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evodevo.errors import GenomeError

MAX_TEXT = 65536
_SEPARATOR = re.compile(r"[\s\-\u2013]+")
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_DOTTED = re.compile(r"[0-9]{1,16}(\.[0-9]{1,16})+", re.ASCII)


def parse_segments(text: str, size: int, *, what: str, most: int) -> tuple[tuple[int, ...], ...]:
    """Read segments of ``size`` integers.

    Args:
        text: Text of the genome.
        size: Number of integers in each segment.
        what: Kind of genome, for error messages.
        most: Largest allowed number of segments.

    Raises:
        GenomeError: The text is not such segments; the message has the segment's position and text.
    """
    if len(text) > MAX_TEXT:
        raise GenomeError(f"{what}: the text has {len(text)} characters; at most {MAX_TEXT} are read.")
    parts = [part for part in _SEPARATOR.split(text) if part]
    if not parts:
        raise GenomeError(f"{what}: the text is empty; write segments of {size} integers, for example {'1' * size}.")
    if len(parts) > most:
        raise GenomeError(f"{what}: {len(parts)} segments; at most {most} are allowed.")
    segments = []
    for position, part in enumerate(parts, 1):
        if _DOTTED.fullmatch(part):
            values = tuple(int(value) for value in part.split("."))
        elif _DIGITS.fullmatch(part):
            values = tuple(int(digit) for digit in part)
        else:
            raise GenomeError(
                f"{what}: segment {position} is {part[:40]!r}; digits are allowed, or integers with dots."
            )
        if len(values) != size:
            raise GenomeError(
                f"{what}: segment {position} ({part[:40]!r}) has {len(values)} integers; {size} are wanted."
                + (" Values from 10 on need dots between the integers." if "." not in part else "")
            )
        segments.append(values)
    return tuple(segments)


def print_segments(segments: Sequence[Sequence[int]]) -> str:
    """The text of segments, separated by spaces; each segment has dots only where a value needs them."""
    return " ".join(
        ("" if all(value < 10 for value in segment) else ".").join(map(str, segment)) for segment in segments
    )
