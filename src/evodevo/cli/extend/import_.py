"""``evodevo extend import``: add a network that was trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evodevo.cli import output
from evodevo.cli.extend.options import Document, SystemName
from evodevo.cli.options import DEFAULT_STORE, StoreFolder
from evodevo.cli.running import store_option


def import_(
    system: SystemName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice; the agent is Import~NAME.")],
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="RUN", help="Run whose best network is imported; last for the newest."),
    ] = None,
    individual: Annotated[
        str | None, typer.Option(metavar="ID", help="Id of a network, or its unique beginning.  [default: the best]")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="STORE", help="The store of that run.  [default: the system's]")
    ] = None,
    store: StoreFolder = DEFAULT_STORE,
    json: Document = False,
) -> None:
    """Add a network that evolve, grow or train produced to a system; nothing is trained.

    Multipath models of any class with the same inputs can use it as a support, and agents of class Net as a parent.
    """
    from evodevo.multitask.run.imports import import_individual

    made = import_individual(system, name, run, individual=individual, source=source, store=store)
    roles = [component.role for component in made.path.components]
    if json:
        facts = {
            "system": made.system,
            "agent": made.agent.name,
            "path": made.path.path.id,
            "individual": made.individual,
            "components": {component.role: component.digest for component in made.path.components},
            "parameters": made.path.parameters,
            "flops": made.path.flops,
            "reads": list(made.modalities),
        }
        output.document("evodevo.extend.import/1", facts)
        return
    output.line(f"agent {made.agent.name}   {made.path.parameters:,} parameters in {', '.join(roles)}")
    output.line(f"reads {', '.join(made.modalities)}   from {made.individual}")
    output.words(f"Next: evodevo extend add {made.system} TASK --class Net --data PATH{store_option(store)}")
