"""``evodevo extend``: a system of frozen, shared components that takes one task after another."""

from __future__ import annotations

import typer

from evodevo.cli import output
from evodevo.cli.extend.add import add
from evodevo.cli.extend.create import create
from evodevo.cli.extend.graph import graph
from evodevo.cli.extend.import_ import import_
from evodevo.cli.extend.run import run
from evodevo.cli.extend.status import status
from evodevo.cli.extend.withdraw import withdraw

COMMAND = typer.Typer(
    help="A multitask system: agents add tasks to it and improve them, and nothing that exists is ever damaged."
)


@COMMAND.callback(invoke_without_command=True)
def extend(context: typer.Context) -> None:
    """A multitask system: agents add tasks to it and improve them, and nothing that exists is ever damaged."""
    if context.invoked_subcommand is None:
        output.line(context.get_help())


COMMAND.command()(create)
COMMAND.command()(add)
COMMAND.command()(run)
COMMAND.command()(status)
COMMAND.command()(graph)
COMMAND.command()(withdraw)
COMMAND.command("import")(import_)
