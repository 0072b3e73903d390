"""``evodevo extend run RECIPE``: create, run and compare the systems of a recipe."""

from __future__ import annotations

import json as plain
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evodevo.cli import output
from evodevo.cli.extend.live import WORDS, outcome
from evodevo.cli.failures import TerminatedError
from evodevo.cli.files import write_text
from evodevo.cli.stopping import Stopping
from evodevo.cli.views import EventStream, Region, Shown, fitting, progress_bar
from evodevo.errors import ExitCode, UsageError
from evodevo.runs.search_progress import duration

if TYPE_CHECKING:
    from evodevo.multitask.comparison.results import RecipeResult
    from evodevo.multitask.comparison.systems import RecipeSession
    from evodevo.storage.addresses import Place

SUFFIXES = (".csv", ".html", ".json")


def is_recipe(name: str) -> bool:
    """Whether ``extend run`` treats the name as a recipe."""
    from evodevo.runs.recipe import RECIPES

    return name in RECIPES


def run_recipe(
    name: str,
    *,
    size: str,
    store: Place,
    workers: int | None,
    changes: dict[str, Any],
    out: Path | None,
    json: bool,
    again: str,
) -> None:
    """Run a recipe, show its progress, and print its results; results of an earlier run are printed at once.

    Args:
        name: Name of the recipe.
        size: ``quick`` or ``full``.
        store: Folder of the store.
        workers: Number of children trained at a time; None leaves it to the recipe.
        changes: Nested settings that replace the recipe's.
        out: A .csv, .html or .json file for the results; None for none.
        json: Whether events are written on stdout.
        again: Command that continues the run, for messages.

    Raises:
        UsageError: No recipe of systems, or another kind of file.
    """
    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise UsageError(f"results are written as {', '.join(SUFFIXES)}; {out} is none of these.")
    from evodevo.multitask.comparison import runner as multitask_recipes

    view: RecipeView = fitting(json=json, events=_Events, live=_Live, lines=RecipeView)
    with view, Stopping(view, WORDS) as stopping:
        try:
            result = multitask_recipes.run_recipe(
                name,
                size=size,
                store=store,
                workers=workers,
                overrides=changes,
                listener=view.handle,
                on_start=stopping.begin,
            )
        except (KeyboardInterrupt, TerminatedError):
            view.end()
            output.words(f"what was finished is safe. Go on with: {again}")
            raise
    if result.state == "interrupted":
        output.words(f"what was finished is safe. Go on with: {again}")
        raise typer.Exit(ExitCode.TERMINATED if stopping.terminated else ExitCode.INTERRUPTED)
    if json:
        view.handle("finished", {"result": dict(result.document)})
    else:
        _present(result)
    if out is not None:
        write_text(out, _file(result, out.suffix.lower()))


def _file(result: RecipeResult, suffix: str) -> str:
    if suffix == ".html":
        return result.page
    return result.csv if suffix == ".csv" else plain.dumps(dict(result.document), indent=1, allow_nan=False) + "\n"


def _present(result: RecipeResult) -> None:
    for title, table in result.tables.items():
        output.line(title)
        right = [name for name in table.columns[1:] if name not in table.texts]
        output.table(table.columns, table.rows, right=right)
        output.line()
    for note in result.notes:
        output.words(note)


class RecipeView(Shown):
    """View with plain lines: the plan, one per comparison, one per child."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.session: RecipeSession | None = None
        self.wanted = self.done = 0
        self.planned = self.seen = 0
        self.place = "preparation"
        self._clock = clock
        self._begun = clock()

    def begin(self, session: RecipeSession) -> None:
        """Start the view, before the systems run."""
        self.session = session
        self.notify(f"recipe {session.recipe} {session.size}   systems {session.label}.*")

    def handle(self, kind: str, facts: dict[str, Any]) -> None:
        """Handle one message of the listener."""
        if kind == "plan":
            self.wanted, self.planned = int(facts["children"]), int(facts["samples"])
            self.done, self.seen, self._begun = 0, 0, self._clock()
        elif kind == "child":
            self.done += 1
            self.seen += facts["samples"] or 0
        elif kind in ("arm", "variant"):
            self.place = f"{kind} {facts[kind]}, seed {facts['seed']}"
        self.show(kind, facts)

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        """Show what has changed."""
        if kind == "plan":
            output.words(facts["words"])
        elif kind in ("arm", "variant"):
            output.words(f"{self.place}   {facts['system']}")
        elif kind == "child":
            output.words(f"{self.done} of {self.wanted}  {facts['agent']:<36}  {outcome(facts)}  {self.time_left}")

    @property
    def time_left(self) -> str:
        """Estimate of the time left, at the pace of samples so far: children differ in how many they see."""
        left = max(0, self.planned - self.seen) if self.done < self.wanted else 0
        seconds = left * (self._clock() - self._begun) / self.seen if self.seen else None
        return f"time left {duration(seconds)}"


class _Events(RecipeView):
    """View that writes the messages of the listener as events."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = EventStream(self._stop)

    def begin(self, session: RecipeSession) -> None:
        self.session = session
        self.show("begin", {"recipe": session.recipe, "size": session.size, "systems": session.label})

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        self._stream.write(kind, facts)

    def _stop(self) -> None:
        if self.session is not None:
            self.session.stop()


class _Live(RecipeView):
    """View with one live region: progress of the recipe, and the last message."""

    def __init__(self) -> None:
        super().__init__()
        self._region = Region(self._picture)
        self._plan = self._last = ""

    def begin(self, session: RecipeSession) -> None:
        self.session = session
        self._region.start()

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        if kind == "plan":
            self._plan = facts["words"]
        elif kind == "child":
            self._last = f"{facts['agent']}  {outcome(facts)}"
        self._region.refresh(now=kind in ("plan", "arm", "variant"))

    def notify(self, text: str) -> None:
        self._region.notify(text)

    def end(self) -> None:
        self._region.end()

    def _picture(self, notice: str) -> Any:
        from rich.console import Group
        from rich.text import Text

        assert self.session is not None, "it is drawn from its beginning on"
        bar = progress_bar(self.done / self.wanted if self.wanted else 0.0)
        parts = [
            Text(f"recipe {self.session.recipe} {self.session.size}   systems {self.session.label}.*", style="bold"),
            Text(self._plan),
            bar + Text(f"  {self.done} of {self.wanted or '?'} children  {self.time_left}"),
            Text(f"{self.place}   {output.one_line(self._last)}"),
        ]
        return Group(*parts, *([Text(notice, style="yellow")] if notice else []))
