"""A bar with the time left, for what is begun from Python, on a terminal and in notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evodevo.runs.search_progress import SearchProgress, duration

if TYPE_CHECKING:
    from rich.console import Console

    from evodevo.search.members import Listener
    from evodevo.search.study import Study

STEPS = 1000
"""Parts of a whole bar."""

Start = Callable[["Study"], None]


Show = Callable[[float, str, str], None]
"""Shows a fraction that is done, what is being done, and more words."""


@contextmanager
def bar_shown(progress: bool | None, listens: bool, console: Console | None = None) -> Iterator[Show | None]:
    """The function that moves a bar; None where none is wanted.

    Args:
        progress: Whether a bar is shown; None shows it on a terminal and in a notebook, where nobody else listens.
        listens: Whether the caller has a listener of its own.
        console: Console of the bar; None is that of stderr.
    """
    if progress is False or (progress is None and listens):
        yield None
        return
    from rich.console import Console as RichConsole

    console = console or RichConsole(stderr=True)
    if progress is None and not (console.is_terminal or console.is_jupyter):
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[words]}", markup=False),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("preparation", total=STEPS, words="")

        def show(share: float, description: str, words: str) -> None:
            bar.update(task, completed=share * STEPS, description=description, words=words)

        yield show


@contextmanager
def shown(
    progress: bool | None, listener: Listener | None, on_start: Start | None, console: Console | None = None
) -> Iterator[tuple[Listener | None, Start | None]]:
    """The listener and the start callback of a run, with a bar where one is wanted.

    Args:
        progress, console: See ``bar_shown``.
        listener: Listener of the caller, which is called too.
        on_start: Callback of the caller, which is called too.
    """
    with bar_shown(progress, listener is not None or on_start is not None, console) as move:
        if move is None:
            yield listener, on_start
            return
        counts = SearchProgress()

        def show() -> None:
            front = f", front {len(counts.front)}" if counts.study is not None else ""
            error = f", error {min(counts.errors.values()):.4f}" if counts.errors else ""
            words = f"{counts.done} of {counts.wanted}{front}{error}, time left {duration(counts.seconds_left)}"
            place = f"generation {counts.generation + 1} of {counts.generations}"
            move(counts.share, place if counts.phase == "generations" else counts.phase, words)

        def listen(kind: str, facts: dict[str, Any]) -> None:
            if listener is not None:
                listener(kind, facts)
            counts.handle(kind, facts)
            show()
            if kind == "finished" and facts["state"] == "finished":
                move(1.0, "finished", f"{counts.done} evaluations")

        def start(study: Study) -> None:
            if on_start is not None:
                on_start(study)
            counts.begin(study)

        yield listen, start
