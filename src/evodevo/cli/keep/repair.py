"""``evodevo repair``: find damage in a store, and repair it where possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from evodevo.cli import output
from evodevo.cli.keep.progress import byte_progress
from evodevo.cli.options import DEFAULT_STORE, Json, StoreFolder
from evodevo.errors import ExitCode

if TYPE_CHECKING:
    from evodevo.storage.base import Damage

BACKUPS = "what remains cannot be mended; put a backup back (backups/), or keep what can still be read."


def repair(
    store: StoreFolder = DEFAULT_STORE,
    check: Annotated[bool, typer.Option("--check", help="Only search for damage; change nothing.")] = False,
    json: Json = False,
) -> None:
    """Find and repair damage in a store: set damaged blobs aside, so that resume repeats evaluations that lost them.

    Every stored byte is hashed. Exit code 7 where damage remains.
    """
    from evodevo.runs.rederive import rederived
    from evodevo.storage import Store

    words = "checking" if check else "repairing"
    opening = Store.open(store, "ro" if check else "rw", create=False, without_damaged_log=not check)
    with opening as opened, byte_progress(words) as progress:
        if check:
            report = opened.check(deep=True, progress=progress)
            remaining: tuple[Damage, ...] = report.problems
            quarantined: tuple[str, ...] = ()
            lost: tuple[str, ...] = ()
        else:
            done = opened.repair(progress)
            remaining, quarantined, lost = done.remaining, done.quarantined, done.lost_evaluations
    # Derived once rows can be read, and no further: what a front was is not known where it was changed.
    remaining = remaining or rederived(store)
    if json:
        data = {
            "checked_only": check,
            "quarantined_blobs": list(quarantined),
            "evaluations_to_redo": list(lost),
            "problems": [{"kind": p.kind, "subject": p.subject, "message": p.message} for p in remaining],
        }
        output.document("evodevo.repair/1", data)
    else:
        for digest in quarantined:
            output.line(f"set aside   blob {digest}")
        for evaluation in lost:
            output.line(f"to be redone   evaluation {evaluation}")
        for problem in remaining:
            output.line(f"{'found' if check else 'remains'}   {problem.kind} {problem.subject}: {problem.message}")
    if remaining:
        output.words(f"the store is damaged. Next: {'evodevo store repair' if check else BACKUPS}")
        raise typer.Exit(ExitCode.STORE_DAMAGED)
    output.words("every evaluation that lost its blobs is done again by: evodevo resume RUN" if lost else "no damage.")
