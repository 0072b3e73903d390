"""What a command says: data on stdout, words on stderr, nothing of a user's text as a terminal escape.

The schema of a JSON document is ``evodevo.<command>/<version>``; its keys stand at the top level. Strings in JSON keep
what they are (JSON escapes them); everything for people goes through ``clean``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from evodevo.report.svg import clean, one_line

__all__ = [
    "ReaderGoneError",
    "clean",
    "close_quietly",
    "document",
    "event",
    "has_unicode",
    "line",
    "one_line",
    "table",
    "words",
]


LONGEST = 4_000_000


class ReaderGoneError(Exception):
    """Whoever read our stdout has seen enough (``evodevo front RUN | head -1``)."""


def document(schema: str, data: Mapping[str, Any]) -> None:
    """One JSON document on stdout; ``data`` holds no NaN (a score without a number is null beside its status)."""
    _write(sys.stdout, json.dumps({"schema": schema, **data}, allow_nan=False))


def event(data: Mapping[str, Any]) -> None:
    """One line of newline-delimited JSON on stdout, at once."""
    _write(sys.stdout, json.dumps(dict(data), allow_nan=False), now=True)


def line(text: str = "") -> None:
    """Data for people: one line, or a text with line ends."""
    _write(sys.stdout, clean(text, LONGEST))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Columns of text under a header; those named in ``right`` are aligned on the right."""
    cells = [[one_line(cell, 200) for cell in row] for row in [columns, *rows]]
    widths = [max(len(row[n]) for row in cells) for n in range(len(columns))]
    for row in cells:
        padded = (
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        )
        _write(sys.stdout, "  ".join(padded).rstrip())


def words(text: str) -> None:
    """One line for people, beside the data: progress, advice, errors."""
    _write(sys.stderr, clean(text, 10_000), now=True)


def has_unicode(stream: TextIO) -> bool:
    """Whether glyphs beyond ASCII arrive there as they are."""
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")


def close_quietly() -> None:
    """Hand over what stdout still holds; a reader that has gone is no error.

    Raises:
        ReaderGoneError: it has gone; stdout leads nowhere from now on, so that the interpreter ends in silence.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _close(sys.stdout)
        raise ReaderGoneError from None


def _write(stream: TextIO, text: str, *, now: bool = False) -> None:
    try:
        print(text, file=stream, flush=now)
    except BrokenPipeError:
        _close(stream)
        raise ReaderGoneError from None
    except UnicodeEncodeError:  # a terminal without UTF-8
        plain = text.encode(stream.encoding or "ascii", "backslashreplace").decode(stream.encoding or "ascii")
        print(plain, file=stream, flush=now)


def _close(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
