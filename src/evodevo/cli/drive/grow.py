"""``evodevo grow``: a zoo of modules that is pruned, grown and hybridised while it trains, beside one that is not."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from evodevo.cli.drive.evolve import Size
from evodevo.cli.drive.train import Opponents, experiment_flags, present
from evodevo.cli.options import (
    DEFAULT_STORE,
    Assignments,
    ConfigFile,
    Events,
    GivenBudget,
    StoreFolder,
    Workers,
    parse_budget,
)
from evodevo.cli.overrides import overrides
from evodevo.cli.running import carry_out


def grow(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe for grow; see: evodevo recipes")],
    size: Annotated[Size, typer.Option(help="Minutes on two cores, or all.")] = Size.quick,
    task: Annotated[str | None, typer.Option(help="Another task than the recipe's own.")] = None,
    data: Annotated[Path | None, typer.Option(help="Your data, a file or a folder.")] = None,
    budget: Annotated[
        GivenBudget | None,
        typer.Option(parser=parse_budget, metavar="BUDGET", help="Of each training: 10m, 90s, 1000steps, 2Tflops."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Trainings of each kind.  [default: the recipe's]")] = None,
    strategist: Annotated[
        str | None,
        typer.Option(help="Who decides, or several with commas between them.  [default: ppo]"),
    ] = None,
    baselines: Annotated[
        Opponents | None, typer.Option(help="Opponents under the same budget; alone it means all.  [default: none]")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="RUN", help="A run that grew, whose edits are learned from; or none.")
    ] = None,
    workers: Workers = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N.")] = None,
    store: StoreFolder = DEFAULT_STORE,
    config: ConfigFile = None,
    set: Assignments = None,
    json: Events = False,
) -> None:
    """Train a zoo of modules that grows: a strategist prunes, grows and hybridises it, and every edit is written down.

    The same zoo is trained fixed, and where the strategist learns, under a random and a heuristic one. --set
    grow.events.count=4 changes how all of them grow. Ctrl-C stops safely, and resume goes on.
    """
    flags: dict[str, Any] = {
        **experiment_flags({} if budget is None else asdict(budget), task, data, seeds),
        "execution.workers": workers,
        "evaluation.training.device": device,
    }
    changes = overrides(config, set or [], flags)
    from evodevo.growth.run import grow as grow_run

    run = carry_out(
        lambda listener, begin: grow_run(
            recipe,
            size=size.value,
            strategist=strategist,
            baselines=None if baselines is None else baselines.value,
            memory=memory,
            overrides=changes,
            store=store,
            listener=listener,
            on_start=begin,
        ),
        store=store,
        json=json,
    )
    present(run, store, json)
