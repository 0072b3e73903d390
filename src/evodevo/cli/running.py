"""Carrying out a search: signals, the view, and the command that goes on with it."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import typer

from evodevo.cli import output
from evodevo.cli.failures import TerminatedError
from evodevo.cli.live import View, choose
from evodevo.cli.options import DEFAULT_STORE
from evodevo.errors import EvaluationsFailedError, ExitCode, RunOwnedError

if TYPE_CHECKING:
    from evodevo.runs import Run
    from evodevo.study import Listener, Study

    Action = Callable[[Listener, Callable[[Study], None]], Run]


def carry_out(action: Action, *, store: Path, json: bool) -> Run:
    """Run a search, show it, and stop it safely on Ctrl-C.

    Args:
        action: called with a listener and with what is to be called when the study exists; gives the run.
        store: for the command that resumes.
        json: events on stdout instead of a view for people.

    Returns:
        The finished run. An interrupted one ends the command with exit code 130, or 143 after SIGTERM.
    """
    with choose(json=json) as view, _Stopping(view) as stopping:
        try:
            run = action(view.hear, stopping.begin)
        except (EvaluationsFailedError, RunOwnedError):
            raise
        except BaseException:
            view.end()
            _say_how_to_go_on(stopping.study, store)
            raise
    if run.state == "interrupted":
        _say_how_to_go_on(stopping.study, store)
        run.archive.close()
        raise typer.Exit(ExitCode.TERMINATED if stopping.terminated else ExitCode.INTERRUPTED)
    return run


def store_option(store: Path) -> str:
    """How a command names this store."""
    return "" if store == DEFAULT_STORE else f" --store {shlex.quote(str(store))}"


def _say_how_to_go_on(study: Study | None, store: Path) -> None:
    if study is not None:
        output.words(f"what was finished is safe. Go on with: evodevo resume {study.run_id}{store_option(store)}")


class _Stopping:
    """While it lasts, Ctrl-C ends the search safely: once after the running evaluations, twice now, thrice at once."""

    def __init__(self, view: View) -> None:
        self.study: Study | None = None
        self.terminated = False
        self._view = view
        self._presses = 0
        self._before: dict[signal.Signals, Any] = {}

    def begin(self, study: Study) -> None:
        """The study exists; from now on it can be stopped."""
        self.study = study
        self._view.begin(study)

    def __enter__(self) -> _Stopping:
        self._before = {
            signal.SIGINT: signal.signal(signal.SIGINT, self._interrupt),
            signal.SIGTERM: signal.signal(signal.SIGTERM, self._terminate),
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._presses += 1
        if self.study is None or self._presses > 2:
            raise KeyboardInterrupt
        self.study.stop()
        if self._presses == 1:
            self._view.say("stopping when the running evaluations are done; Ctrl-C once more drops them.")
        else:
            self._view.say("stopping now.")

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        if self.study is None:
            raise TerminatedError
        # Whoever sends it will not wait long: drop what is running, as a second Ctrl-C does.
        self.terminated = True
        while self._presses < 2:
            self._presses += 1
            self.study.stop()
