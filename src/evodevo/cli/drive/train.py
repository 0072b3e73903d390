"""``evodevo train``: the experiment of a recipe, or one architecture, for longer and with several seeds."""

from __future__ import annotations

import re
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.drive.evolve import RecipeSize
from evodevo.cli.ended import show_end
from evodevo.cli.listing import print_individuals, say_seeds
from evodevo.cli.options import (
    DEFAULT_STORE,
    Assignments,
    BlobsAddress,
    ClusterAddress,
    ConfigFile,
    Depth,
    Events,
    ExecutorName,
    GivenBudget,
    StoreFolder,
    Width,
    Workers,
    count_option,
    execution_flags,
    implied,
    parse_budget,
)
from evodevo.cli.overrides import overrides
from evodevo.cli.running import carry_out, keep_blobs_at, store_option

if TYPE_CHECKING:
    from evodevo.runs.archive import Run
    from evodevo.storage.addresses import Place


class Opponents(StrEnum):
    """Baselines that are trained beside the network of a recipe."""

    none = "none"
    quick = "quick"
    all = "all"


COMMAND = implied("--baselines", Opponents.all.value, [choice.value for choice in Opponents])
"""``--baselines`` alone means all of them."""


def train(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|ARCHITECTURE",
            help="A recipe for train; or a beginning of an individual's id, last, a genome, a named backbone, a file.",
        ),
    ],
    size: Annotated[
        RecipeSize | None, typer.Option(help="Size of a recipe's run: minutes on two cores, or all.  [default: quick]")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="Recipe whose data and training a genome, name or file gets.  [default: backbone.demo]"),
    ] = None,
    depth: Depth = None,
    width: Width = None,
    task: Annotated[str | None, typer.Option(help="Task of a recipe.  [default: its own]")] = None,
    data: Annotated[Path | None, typer.Option(help="Your data for a recipe or a genome, a file or a folder.")] = None,
    text: Annotated[
        str | None, typer.Option(help="Column of your texts, or several: context,question.  [default: text]")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column of your classes.  [default: label]")] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Column of depths, domains, …: accuracy for each; of tables: rows that stay together."),
    ] = None,
    budget: Annotated[
        GivenBudget | None,
        typer.Option(
            parser=parse_budget,
            metavar="BUDGET",
            help="Budget of each training: 10m, 90s, 1000steps, 50Ksamples, 2Tflops.",
        ),
    ] = None,
    tokens: Annotated[
        int | None, count_option("Tokens of each training, for example 5M; of networks: samples.")
    ] = None,
    steps: Annotated[int | None, count_option("Optimiser steps of each training.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Wall-clock seconds of each training.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Trainings of each kind.  [default: 1, or the recipe's]")] = None,
    baselines: Annotated[
        Opponents | None,
        typer.Option(
            help="Baselines, of recipes that leave them to you; of an architecture all or none; no value: all."
        ),
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
    """Compare the networks of a recipe, or train one architecture from scratch; a search trains briefly by design.

    A budget that is not given is that of the recipe or the search. With --depth a backbone is stacked or trimmed to
    whole copies of its motif, the shortest beginning whose copies are all of it. Ctrl-C stops safely; resume goes on
    from the last checkpoint.
    """
    flags: dict[str, Any] = {
        **execution_flags(workers, executor, address),
        "evaluation.training.device": device,
        "space.depth": depth,
        "space.dimensions.width": width,
    }
    columns = {"text": text, "label": label, "group": group}
    limits = _limits(budget, {"tokens": tokens, "steps": steps, "seconds": seconds, "flops": None})
    from evodevo.runs.recipe import RECIPES

    if what in RECIPES or _names_a_recipe(what):
        for option, value in {"--recipe": recipe, "--depth": depth, "--width": width}.items():
            if value is not None:
                raise typer.BadParameter(f"{option} is for an architecture; {what!r} is a recipe.")
        flags |= experiment_flags(limits, task, data, seeds)
        flags |= {f"evaluation.task_settings.{name}": column for name, column in columns.items()}
        keep_blobs_at(store, blobs)
        _compare(what, size or RecipeSize.quick, overrides(config, set or [], flags), baselines, store, json)
        return
    for option, value in {"task": task, **columns}.items():
        if value is not None:
            raise typer.BadParameter(f"--{option} is for a recipe; {what!r} is an architecture.")
    beside = baselines not in (None, Opponents.none)
    settings = {
        **limits,
        "seeds": 1 if seeds is None else seeds,
        "baselines": beside,
        "recipe": recipe,
        "size": None if size is None else size.value,
        "data": data,
        "overrides": overrides(config, set or [], flags),
    }
    keep_blobs_at(store, blobs)
    _alone(what, settings, store, json)


def _names_a_recipe(what: str) -> bool:
    """Whether it looks like the name of a recipe: letters with a dot between them; a file of that name is one."""
    return re.fullmatch(r"[a-z_]+\.[a-z_0-9]+", what) is not None and not Path(what).is_file()


def _limits(budget: GivenBudget | None, given: dict[str, Any]) -> dict[str, Any]:
    """The whole budget, from ``--budget`` and the options for each of its limits."""
    if budget is None:
        return given
    twice = next((name for name, limit in asdict(budget).items() if limit is not None and given[name] is not None), "")
    if twice:
        raise typer.BadParameter(f"--budget and --{twice} set the same; give one of them.")
    return {name: limit if (of_budget := getattr(budget, name)) is None else of_budget for name, limit in given.items()}


def experiment_flags(budget: dict[str, Any], task: str | None, data: Path | None, seeds: int | None) -> dict[str, Any]:
    """Settings for the options of a recipe, by dotted key; None leaves a setting as it is."""
    return {
        "evaluation.training.budget": budget if any(budget.values()) else None,
        "evaluation.task": task,
        "evaluation.task_settings.data": None if data is None else str(data),
        "experiment.seeds": seeds,
    }


def _compare(
    recipe: str, size: RecipeSize, changes: dict[str, Any], baselines: Opponents | None, store: Place, json: bool
) -> None:
    """Train and compare the networks of a recipe."""
    from evodevo.runs.train import experiment

    run = carry_out(
        lambda listener, begin: experiment(
            recipe,
            size=size.value,
            baselines=None if baselines is None else baselines.value,
            overrides=changes,
            store=store,
            listener=listener,
            on_start=begin,
        ),
        store=store,
        json=json,
    )
    present(run, store, json)


def present(run: Run, store: Place, json: bool) -> None:
    """Print the results of an experiment that has ended."""
    with run.archive:
        if not json:
            show_end(run)
            where = store_option(store)
            output.words(f"next: evodevo report {run.id}{where}   evodevo show {run.id}{where}")


def _alone(what: str, settings: dict[str, Any], store: Place, json: bool) -> None:
    """Train one architecture; ``settings`` are the arguments of ``runs.train.train``."""
    from evodevo.runs.train import train as train_one

    run = carry_out(
        lambda listener, begin: train_one(what, **settings, store=store, listener=listener, on_start=begin),
        store=store,
        json=json,
    )
    with run.archive:
        if json:
            return
        if run.is_experiment:
            show_end(run)
            return
        trained = [*run.individuals(), *run.baselines()]
        print_individuals(trained, run.goals)
        say_seeds(trained, run.goals)
        if run.slice.name == "backbone":
            output.words(f"next: evodevo generate {run.individuals()[0].id}{store_option(store)} --prompt 'def '")
