"""``evodevo grow``: train a network that is edited on the way, and the same one fixed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from evodevo.cli.drive.evolve import RecipeSize
from evodevo.cli.drive.train import Opponents, experiment_flags, present
from evodevo.cli.options import (
    DEFAULT_STORE,
    Assignments,
    BlobsAddress,
    ClusterAddress,
    ConfigFile,
    Events,
    ExecutorName,
    GivenBudget,
    StoreFolder,
    Workers,
    execution_flags,
    parse_budget,
)
from evodevo.cli.overrides import overrides
from evodevo.cli.running import carry_out, keep_blobs_at


def grow(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe for grow; see: evodevo recipes")],
    size: Annotated[RecipeSize, typer.Option(help="Minutes on two cores, or all.")] = RecipeSize.quick,
    task: Annotated[str | None, typer.Option(help="Task to use.  [default: the recipe's]")] = None,
    data: Annotated[Path | None, typer.Option(help="Your data, a file or a folder.")] = None,
    budget: Annotated[
        GivenBudget | None,
        typer.Option(
            parser=parse_budget, metavar="BUDGET", help="Budget of each training: 10m, 90s, 1000steps, 2Tflops."
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Trainings of each kind.  [default: the recipe's]")] = None,
    strategist: Annotated[
        str | None,
        typer.Option(
            help="Strategist, or several with commas between them.  [default: of module_zoo.classifier a race, and "
            "growth after it that a fork confirms; elsewhere ppo]"
        ),
    ] = None,
    baselines: Annotated[
        Opponents | None, typer.Option(help="Baselines under the same budget; without a value, all.  [default: none]")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="RUN", help="Run of grow from whose edits and policy others go on; or none.")
    ] = None,
    workers: Workers = None,
    executor: ExecutorName = None,
    address: ClusterAddress = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N.")] = None,
    store: StoreFolder = DEFAULT_STORE,
    blobs: BlobsAddress = None,
    config: ConfigFile = None,
    set: Assignments = None,
    json: Events = False,
) -> None:
    """Train a zoo of modules that grows, beside the same zoo fixed; every edit is recorded.

    A race decides what it begins with, and a fork confirms what is added; or a strategist prunes, grows and hybridises
    it, and where that learns, the same zoo is trained under a random and a heuristic one, too. --set
    grow.events.count=4 changes how all of them grow. backbone.growing grows a language model by a plan. Ctrl-C stops
    safely, and resume goes on.
    """
    flags: dict[str, Any] = {
        **experiment_flags({} if budget is None else asdict(budget), task, data, seeds),
        **execution_flags(workers, executor, address),
        "evaluation.training.device": device,
    }
    changes = overrides(config, set or [], flags)
    from evodevo.growth.run import grow as grow_run

    keep_blobs_at(store, blobs)
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
