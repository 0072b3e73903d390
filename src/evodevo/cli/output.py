"""Output of commands: data on stdout, messages on stderr, no text of a user as a terminal escape.

The schema of a JSON document is ``evodevo.<command>/<version>``; its keys are at the top level. Strings in JSON are
unchanged (JSON escapes them); everything for people passes through ``clean``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    "open_missing_streams",
    "table",
    "words",
]


LONGEST = 4_000_000


class ReaderGoneError(Exception):
    """The reader of stdout has closed it (``evodevo front RUN | head -1``)."""


def document(schema: str, data: Mapping[str, Any]) -> None:
    """Write one JSON document on stdout; ``data`` holds no NaN (a score without a number is null beside its status)."""
    _write(sys.stdout, json.dumps({"schema": schema, **data}, allow_nan=False))


def event(data: Mapping[str, Any]) -> None:
    """Write one line of newline-delimited JSON on stdout, unbuffered."""
    _write(sys.stdout, json.dumps(dict(data), allow_nan=False), now=True)


def line(text: str = "") -> None:
    """Write data for people: one line, or a text with line ends."""
    _write(sys.stdout, clean(text, LONGEST))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Write columns of text under a header; those named in ``right`` are aligned on the right."""
    cells = [[one_line(cell, 200) for cell in row] for row in [columns, *rows]]
    widths = [max(len(row[n]) for row in cells) for n in range(len(columns))]
    for row in cells:
        padded = (
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        )
        _write(sys.stdout, "  ".join(padded).rstrip())


def words(text: str) -> None:
    """Write one line for people on stderr: progress, advice, errors."""
    _write(sys.stderr, clean(text, 10_000), now=True)


def has_unicode(stream: TextIO) -> bool:
    """Whether the stream can represent glyphs beyond ASCII."""
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")


def close_quietly() -> None:
    """Flush stdout; a closed reader is no error.

    Raises:
        ReaderGoneError: It is closed; stdout goes to the null device from now on, so that the interpreter exits
            quietly.
    """
    with _guarded(sys.stdout):
        sys.stdout.flush()


def open_missing_streams() -> None:
    """Open the null device in the place of each standard stream that is closed (``evodevo … >&-``).

    A file that is opened later, the database of a store, would get its number, and what is printed would land in it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    closed = sys.stdout is None
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))
    if closed:
        words("evodevo: stdout is closed; answers go nowhere.")


@contextmanager
def _guarded(stream: TextIO) -> Iterator[None]:
    """After an error of the stream it leads to the null device, so that the interpreter exits without another one."""
    try:
        yield
    except BrokenPipeError:
        _close(stream)
        raise ReaderGoneError from None
    except OSError as error:
        _close(stream)
        if stream is not sys.stderr:  # of what cannot be told, nobody can be told
            raise OSError(error.errno, error.strerror, "stdout") from None


def _write(stream: TextIO, text: str, *, now: bool = False) -> None:
    try:
        with _guarded(stream):
            print(text, file=stream, flush=now)
    except UnicodeEncodeError:  # a terminal without UTF-8
        plain = text.encode(stream.encoding or "ascii", "backslashreplace").decode(stream.encoding or "ascii")
        with _guarded(stream):
            print(plain, file=stream, flush=now)


def _close(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
