"""``evodevo extend withdraw``: remove a task or an agent from those that a system offers."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from evodevo.cli import output
from evodevo.cli.extend.options import Document, SystemName
from evodevo.cli.options import DEFAULT_STORE, StoreFolder
from evodevo.errors import UsageError

if TYPE_CHECKING:
    from evodevo.multitask.run.remains import Remains


def withdraw(
    system: SystemName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A task, or an agent.")],
    yes: Annotated[bool, typer.Option("--yes", help="Withdraw without confirmation.")] = False,
    store: StoreFolder = DEFAULT_STORE,
    json: Document = False,
) -> None:
    """Withdraw a task, or one agent, from a system for good. Components that other tasks use stay."""
    from evodevo.multitask.run.create import open_system, withdrawable
    from evodevo.multitask.run.create import withdraw as take_out
    from evodevo.multitask.run.remains import remains_of
    from evodevo.storage import Store

    with Store.open(store, "ro", create=False) as opened:
        before = open_system(opened, system)
        names = [agent.name for agent in withdrawable(before, name)]
        remains = remains_of(before.view(), names)
    if not yes:
        gone = ", ".join(names)
        if not sys.stdin.isatty():
            raise UsageError(f"this withdraws {gone} for good. Add --yes to do it.")
        for line in _words(remains):
            output.words(line)
        if not typer.confirm(f"Withdraw {gone} for good?", err=True):
            output.words("nothing was withdrawn.")
            return
    agents = take_out(system, name, store=store)
    if json:
        facts = {"system": system, "withdrawn": agents, "remains": asdict(remains)}
        output.document("evodevo.extend.withdraw/1", facts)
        return
    for agent in agents:
        output.line(f"withdrawn   {agent}")
    for line in _words(remains):
        output.words(line)


def _words(remains: Remains) -> list[str]:
    """What stays, in sentences."""
    lines = []
    if remains.used:
        users = ", ".join(f"{name} ({count})" for name, count in remains.users.items())
        lines.append(f"{_parts(remains.used, remains.used_parameters)} stay, frozen: others use them: {users}.")
    if remains.unused:
        parts = _parts(remains.unused, remains.unused_parameters)
        lines.append(f"{parts} are used by nobody any more; the record keeps them.")
    return lines


def _parts(count: int, parameters: int) -> str:
    return f"{count} component{'' if count == 1 else 's'} of {parameters:,} parameters"
