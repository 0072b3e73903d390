"""``evodevo extend run``: agents work, until each has ended so many cycles."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.extend.live import View, choose, number
from evodevo.cli.extend.options import SystemName, words_of
from evodevo.cli.failures import TerminatedError
from evodevo.cli.options import DEFAULT_STORE, Events, StoreFolder
from evodevo.cli.running import store_option
from evodevo.errors import ExitCode

if TYPE_CHECKING:
    from evodevo.runs.extend_running import Ended, Session


def run(
    system: SystemName,
    agents: Annotated[
        str, typer.Option(metavar="A,B", help="single, multi (added where missing), classes, or names of agents.")
    ] = "single",
    tasks: Annotated[str | None, typer.Option(metavar="A,B", help="Of these tasks alone.  [default: all]")] = None,
    cycles: Annotated[int, typer.Option(help="That each agent is to have ended in its life.")] = 1,
    workers: Annotated[int, typer.Option(help="Children that are trained at a time.")] = 1,
    free: Annotated[
        bool, typer.Option("--free", help="Each agent begins its next cycle at once, with what is there by then.")
    ] = False,
    test: Annotated[
        bool, typer.Option("--test", help="Measure the best path of each cycle on the test split, once.")
    ] = False,
    store: StoreFolder = DEFAULT_STORE,
    json: Events = False,
) -> None:
    """Let agents run: first the root, then those with one path, then those that combine paths.

    The same command goes on with what was stopped or killed, a larger --cycles with what is finished. Test accuracies
    are shown and never used. Ctrl-C stops safely.
    """
    from evodevo.runs.extend_running import run_system

    again = _again(system, agents, tasks, cycles, workers, free, test, store)
    with choose(json=json) as view, _Stopping(view) as stopping:
        try:
            ended = run_system(
                system,
                agents=words_of(agents),
                tasks=words_of(tasks or ""),
                cycles=cycles,
                workers=workers,
                schedule="free" if free else "rounds",
                test=test,
                store=store,
                listener=view.hear,
                on_start=stopping.begin,
            )
        except (KeyboardInterrupt, TerminatedError):
            view.end()
            _say_how_to_go_on(again)
            raise
    if ended.state == "interrupted":
        _say_how_to_go_on(again)
        raise typer.Exit(ExitCode.TERMINATED if stopping.terminated else ExitCode.INTERRUPTED)
    present(ended, view, json=json)


def present(ended: Ended, view: View, *, json: bool) -> None:
    """How the agents stand at the end."""
    if json:
        view.show("finished", {"system": ended.system, "agents": [vars(one) for one in ended.agents]})
        return
    tested = any(one.test is not None for one in ended.agents)
    columns = ("agent", "task", "cycles", "validation", *(["test"] if tested else []), "parameters")
    table = [
        (
            one.agent,
            one.task,
            one.cycles,
            number(one.validation),
            *([number(one.test)] if tested else []),
            "–" if one.parameters is None else f"{one.parameters:,.0f}",
        )
        for one in ended.agents
    ]
    output.table(columns, table, right=("cycles", "validation", "test", "parameters"))


def _again(
    system: str,
    agents: str,
    tasks: str | None,
    cycles: int,
    workers: int,
    free: bool,
    test: bool,
    store: Path,
) -> str:
    """The command that goes on."""
    options = [
        *(["--agents", agents] if agents != "single" else []),
        *(["--tasks", tasks] if tasks else []),
        *(["--cycles", str(cycles)] if cycles != 1 else []),
        *(["--workers", str(workers)] if workers != 1 else []),
        *(["--free"] if free else []),
        *(["--test"] if test else []),
    ]
    return f"evodevo extend run {shlex.join([system, *options])}{store_option(store)}"


def _say_how_to_go_on(command: str) -> None:
    output.words(f"what was finished is safe. Go on with: {command}")


class _Stopping:
    """While it lasts, Ctrl-C once ends the run safely, twice at once; SIGTERM ends it safely."""

    def __init__(self, view: View) -> None:
        self.terminated = False
        self._session: Session | None = None
        self._view = view
        self._presses = 0
        self._before: dict[signal.Signals, Any] = {}

    def begin(self, session: Session) -> None:
        """Agents are about to run; from now on they can be stopped."""
        self._view.begin(session)
        self._session = session

    def __enter__(self) -> _Stopping:
        self._before = {
            signal.SIGINT: signal.signal(signal.SIGINT, self._interrupt),
            signal.SIGTERM: signal.signal(signal.SIGTERM, self._terminate),
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._presses += 1
        if self._session is None or self._presses > 1:
            raise KeyboardInterrupt
        self._session.stop()
        self._view.say("stopping; children that are under way are trained again when it goes on. Ctrl-C: at once.")

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self.terminated = True
        if self._session is None:
            raise TerminatedError
        self._session.stop()
