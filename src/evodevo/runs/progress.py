"""A bar with the time left, for searches and trainings that are begun from Python: on a terminal and in notebooks."""

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


@contextmanager
def shown(
    progress: bool | None, listener: Listener | None, on_start: Start | None, console: Console | None = None
) -> Iterator[tuple[Listener | None, Start | None]]:
    """The listener and the start callback of a run, with a bar where one is wanted.

    Args:
        progress: Whether a bar is shown; None shows it on a terminal and in a notebook, where no listener is given.
        listener: Listener of the caller, which is called too.
        on_start: Callback of the caller, which is called too.
        console: Console of the bar; None is that of stderr.
    """
    if progress is None and (listener is not None or on_start is not None):
        progress = False
    if progress is False:
        yield listener, on_start
        return
    from rich.console import Console as RichConsole

    console = console or RichConsole(stderr=True)
    if progress is None and not (console.is_terminal or console.is_jupyter):
        yield listener, on_start
        return
    from rich.progress import BarColumn, Progress, TextColumn

    counts = SearchProgress()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("preparation", total=STEPS, words="")

        def show() -> None:
            front = f", front {len(counts.front)}" if counts.study is not None else ""
            words = f"{counts.done} of {counts.wanted}{front}, time left {duration(counts.seconds_left)}"
            place = f"generation {counts.generation + 1} of {counts.generations}"
            description = place if counts.phase == "generations" else counts.phase
            bar.update(task, completed=counts.share * STEPS, description=description, words=words)

        def listen(kind: str, facts: dict[str, Any]) -> None:
            if listener is not None:
                listener(kind, facts)
            counts.handle(kind, facts)
            show()
            if kind == "finished" and facts["state"] == "finished":
                bar.update(task, completed=STEPS, description="finished", words=f"{counts.done} evaluations")

        def start(study: Study) -> None:
            if on_start is not None:
                on_start(study)
            counts.begin(study)

        yield listen, start
