"""``evodevo train``: the experiment of a recipe, or one individual again, for longer and with several seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.comparing import show_comparison
from evodevo.cli.evolve import Size
from evodevo.cli.listing import print_individuals, say_seeds
from evodevo.cli.options import (
    DEFAULT_STORE,
    Assignments,
    ConfigFile,
    Events,
    StoreFolder,
    Workers,
    count_option,
)
from evodevo.cli.overrides import overrides
from evodevo.cli.running import carry_out, store_option


def train(
    what: Annotated[
        str, typer.Argument(metavar="RECIPE|INDIVIDUAL", help="A recipe for train, or a beginning of an id.")
    ],
    size: Annotated[
        Size | None, typer.Option(help="Of a recipe: minutes on two cores, or all.  [default: quick]")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Of a recipe: your data, a file or a folder.")] = None,
    tokens: Annotated[
        int | None, count_option("Tokens of each training, for example 5M; of networks: samples.")
    ] = None,
    steps: Annotated[int | None, count_option("Optimiser steps of each training.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Wall-clock seconds of each training.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Trainings of each kind.  [default: 1, or the recipe's]")] = None,
    baselines: Annotated[bool, typer.Option("--baselines", help="Train the baselines under the same budget.")] = False,
    workers: Workers = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N.")] = None,
    store: StoreFolder = DEFAULT_STORE,
    config: ConfigFile = None,
    set: Assignments = None,
    json: Events = False,
) -> None:
    """Compare the networks of a recipe, or train an individual from scratch; a search trains briefly by design.

    A budget that is not given is that of the recipe or the search. Ctrl-C stops safely; resume goes on from the last
    checkpoint.
    """
    flags: dict[str, Any] = {"execution.workers": workers, "evaluation.training.device": device}
    from evodevo.recipes.base import RECIPES

    if what in RECIPES or "." in what:
        limits = {"tokens": tokens, "steps": steps, "seconds": seconds}
        given = {name: limit for name, limit in limits.items() if limit is not None}
        flags |= {
            "evaluation.training.budget": {**dict.fromkeys(limits), **given} if given else None,
            "evaluation.task_settings.data": None if data is None else str(data),
            "experiment.seeds": seeds,
        }
        _compare(what, size or Size.quick, overrides(config, set or [], flags), baselines, store, json)
        return
    foreign = {"--size": size, "--data": data, "--config": config}
    for option, value in foreign.items():
        if value is not None:
            raise typer.BadParameter(f"{option} is for a recipe; {what!r} is an individual.")
    budget = {"tokens": tokens, "steps": steps, "seconds": seconds}
    _again(what, budget, 1 if seeds is None else seeds, baselines, overrides(None, set or [], flags), store, json)


def _compare(recipe: str, size: Size, changes: dict[str, Any], baselines: bool, store: Path, json: bool) -> None:
    """The experiment of a recipe."""
    if baselines:
        raise typer.BadParameter("--baselines is for an individual; a recipe names its arms itself.")
    from evodevo import runs

    run = carry_out(
        lambda listener, begin: runs.experiment(
            recipe, size=size.value, overrides=changes, store=store, listener=listener, on_start=begin
        ),
        store=store,
        json=json,
    )
    with run.archive:
        if not json:
            show_comparison(run)
            where = store_option(store)
            output.words(f"next: evodevo report {run.id}{where}   evodevo show {run.id}{where}")


def _again(
    individual: str,
    budget: dict[str, Any],
    seeds: int,
    baselines: bool,
    changes: dict[str, Any],
    store: Path,
    json: bool,
) -> None:
    """One individual."""
    from evodevo import runs

    run = carry_out(
        lambda listener, begin: runs.train(
            individual,
            **budget,
            seeds=seeds,
            baselines=baselines,
            overrides=changes,
            store=store,
            listener=listener,
            on_start=begin,
        ),
        store=store,
        json=json,
    )
    with run.archive:
        if json:
            return
        if run.is_experiment:
            show_comparison(run)
            return
        trained = [*run.individuals(), *run.baselines()]
        print_individuals(trained, run.goals)
        say_seeds(trained, run.goals)
        if run.slice.name == "backbone":
            output.words(f"next: evodevo generate {run.individuals()[0].id}{store_option(store)} --prompt 'def '")
