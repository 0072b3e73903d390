"""Running of a search with a view, and the command that continues it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from evodevo.cli import output
from evodevo.cli.live import choose
from evodevo.cli.options import DEFAULT_STORE
from evodevo.cli.stopping import Stopping
from evodevo.errors import EvaluationsFailedError, ExitCode, RunOwnedError

if TYPE_CHECKING:
    from evodevo.runs.archive import Run
    from evodevo.search.members import Listener
    from evodevo.search.study import Study
    from evodevo.storage.addresses import Place

    Action = Callable[[Listener, Callable[[Study], None]], Run]


WORDS = ("stopping when the running evaluations are done; Ctrl-C once more drops them.", "stopping now.")


def carry_out(action: Action, *, store: Place, json: bool) -> Run:
    """Run a search with a view, and stop it safely on Ctrl-C.

    Args:
        action: Called with a listener and with a callback for the new study; returns the run.
        store: Folder of the store, for the command that resumes.
        json: Whether events are written on stdout instead of a view for people.

    Returns:
        The finished run. An interrupted one ends the command with exit code 130, or 143 after SIGTERM.
    """
    with choose(json=json) as view, Stopping(view, WORDS) as stopping:
        try:
            run = action(view.handle, stopping.begin)
        except (EvaluationsFailedError, RunOwnedError):
            raise
        except BaseException:
            view.end()
            _say_how_to_go_on(stopping.session, store)
            raise
    if run.state == "interrupted":
        _say_how_to_go_on(stopping.session, store)
        run.archive.close()
        raise typer.Exit(ExitCode.TERMINATED if stopping.terminated else ExitCode.INTERRUPTED)
    return run


def store_option(store: Place) -> str:
    """The option that names this store in a command; empty for the default."""
    return "" if store == DEFAULT_STORE else f" --store {shlex.quote(str(store))}"


def keep_blobs_at(store: Place, blobs: str | None) -> None:
    """Make a store that keeps its blobs at an address; for an existing one, that is where they lie now."""
    if blobs is None:
        return
    from evodevo.storage import Store
    from evodevo.storage.addresses import BLOBS_VARIABLE

    with Store.open(store, blobs=blobs) as opened:
        if opened.folder is None:
            # A client's own path of a folder is recorded nowhere: all that opens the store in this process needs it.
            os.environ[BLOBS_VARIABLE] = str(opened.blobs_address)


def _say_how_to_go_on(study: Study | None, store: Place) -> None:
    if study is not None:
        name = study.part_of or study.run_id
        output.words(f"what was finished is safe. Go on with: evodevo resume {name}{store_option(store)}")
