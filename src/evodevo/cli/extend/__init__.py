"""``evodevo extend``: a system of frozen, shared components that takes one task after another."""

from __future__ import annotations

import typer

COMMAND = typer.Typer(
    no_args_is_help=True,
    help="A multitask system: agents add tasks to it and improve them, and nothing that exists is ever damaged.",
)


@COMMAND.callback()
def extend() -> None:
    """A multitask system: agents add tasks to it and improve them, and nothing that exists is ever damaged."""
