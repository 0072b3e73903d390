"""Progress of work on the bytes of a store: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from evodevo.cli import output

FIRST_SECONDS, NEXT_SECONDS = 10.0, 30.0
"""Seconds before the first line and between two, where there is no terminal."""


@contextmanager
def byte_progress(words: str) -> Iterator[Callable[[int, int], None]]:
    """A function of the bytes that are done, and of all.

    On a terminal it fills a bar with bytes and the time left; elsewhere it says so in a line where the work takes long.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(words)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(words, total=None)
        yield lambda done, whole: bar.update(task, completed=done, total=whole)


def _lines(words: str, now: Callable[[], float] = time.monotonic) -> Callable[[int, int], None]:
    began = now()
    due = began + FIRST_SECONDS

    def tell(done: int, whole: int) -> None:
        nonlocal due
        if (at := now()) < due or not 0 < done < whole:
            return
        due = at + NEXT_SECONDS
        left = (at - began) * (whole - done) / done
        output.words(f"{words}: {done:,} of {whole:,} bytes, about {left:,.0f} s left")

    return tell
