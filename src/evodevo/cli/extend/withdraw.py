"""``evodevo extend withdraw``: remove a task or an agent from those that a system offers."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from evodevo.cli import output
from evodevo.cli.extend.options import Document, SystemName
from evodevo.cli.options import DEFAULT_STORE, StoreFolder
from evodevo.errors import UsageError


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
    from evodevo.storage import Store

    if not yes:
        with Store.open(store, "ro", create=False) as opened:
            gone = ", ".join(agent.name for agent in withdrawable(open_system(opened, system), name))
        if not sys.stdin.isatty():
            raise UsageError(f"this withdraws {gone} for good. Add --yes to do it.")
        if not typer.confirm(f"Withdraw {gone} for good?", err=True):
            output.words("nothing was withdrawn.")
            return
    agents = take_out(system, name, store=store)
    if json:
        output.document("evodevo.extend.withdraw/1", {"system": system, "withdrawn": agents})
        return
    for agent in agents:
        output.line(f"withdrawn   {agent}")
