"""``evodevo evolve``: search for architectures."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evodevo.cli import output
from evodevo.cli.look.front import show_front
from evodevo.cli.options import (
    DEFAULT_STORE,
    Assignments,
    BlobsAddress,
    ClusterAddress,
    ConfigFile,
    Depth,
    Events,
    ExecutorName,
    FailedShare,
    Generations,
    StoreFolder,
    Width,
    Workers,
    count_option,
    execution_flags,
)
from evodevo.cli.overrides import overrides
from evodevo.cli.protocols import show_composed, show_needs
from evodevo.cli.running import carry_out, keep_blobs_at, store_option
from evodevo.errors import UsageError


class RecipeSize(StrEnum):
    """Size of a recipe's run."""

    quick = "quick"
    full = "full"


class SearchSize(StrEnum):
    """Size of a search or a protocol; ``paper`` is that of the recipes that have it."""

    quick = "quick"
    full = "full"
    paper = "paper"


class SearchMode(StrEnum):
    """Time at which children are created."""

    generational = "generational"
    steady = "steady"


def evolve(
    recipe: Annotated[str, typer.Argument(help="A recipe; see: evodevo recipes")],
    size: Annotated[
        SearchSize, typer.Option(help="Minutes on two cores, or the whole thing; paper where the recipe has it.")
    ] = SearchSize.quick,
    start: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARCHITECTURE",
            help="An architecture to begin with: a genome, a named backbone, a file, an individual; repeatable.",
        ),
    ] = None,
    depth: Depth = None,
    width: Width = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(help="Objective: quality, cache, …; repeatable, most important first."),
    ] = None,
    population: Annotated[int | None, typer.Option(help="Number of individuals in the population.")] = None,
    generations: Generations = None,
    algorithm: Annotated[
        str | None, typer.Option(help="nsga2, surrogate, genetic, firefly, regularized, random.")
    ] = None,
    mode: Annotated[SearchMode | None, typer.Option(help="Whole generations, or a child for each free worker.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random draw.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Your text: a file or a folder (text, jsonl, parquet)."),
    ] = None,
    tokens: Annotated[int | None, count_option("Training tokens of each candidate.")] = None,
    max_parameters: Annotated[
        int | None, count_option("Limit of parameters; larger candidates are not trained.")
    ] = None,
    max_cache_bytes: Annotated[
        int | None, count_option("Limit of the cache in bytes; candidates above it are not trained.")
    ] = None,
    max_failed_share: FailedShare = None,
    workers: Workers = None,
    executor: ExecutorName = None,
    address: ClusterAddress = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N.")] = None,
    store: StoreFolder = DEFAULT_STORE,
    blobs: BlobsAddress = None,
    config: ConfigFile = None,
    set: Assignments = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Measure what it will need (tokens, memory, disk, hours), and stop.")
    ] = False,
    device_profile: Annotated[
        str | None,
        typer.Option(help="With --dry-run: a device that is not here (h100, h200, a100, l4, rtx4090), uncalibrated."),
    ] = None,
    json: Events = False,
) -> None:
    """Search for architectures: train a population on text, generation by generation, and keep the best trade-offs.

    Settings: those of the recipe, then --config, then --set, then the other options. Ctrl-C stops safely. With --depth,
    what --start names is stacked or trimmed to that depth: to whole copies of its motif, the shortest beginning whose
    copies are all of it.
    """
    flags = {
        "space.depth": depth,
        "space.dimensions.width": width,
        "evaluation.objectives": objective or None,
        "evaluation.training.budget.tokens": tokens,
        "evaluation.training.device": device,
        "evaluation.max_parameters": max_parameters,
        "evaluation.max_cache_bytes": max_cache_bytes,
        "study.population": population,
        "study.generations": generations,
        "study.algorithm": algorithm,
        "study.mode": None if mode is None else mode.value,
        "study.seed": seed,
        "study.max_failed_share": max_failed_share,
        **execution_flags(workers, executor, address),
    }
    changes = overrides(config, set or [], flags)
    if device_profile is not None and not dry_run:
        raise UsageError("--device-profile says what a run would need elsewhere; give --dry-run with it.")
    if dry_run:
        from evodevo.runs.evolve import dry_run as needs_of

        needs = needs_of(
            recipe,
            size=size.value,
            start=start or (),
            data=data,
            overrides=changes,
            store=store,
            device_profile=device_profile,
        )
        if json:
            output.document("evodevo.needs/1", {"recipe": recipe, "size": size.value, **needs})
        else:
            show_needs(needs)
        if needs["refusal"]:
            raise UsageError(needs["refusal"])
        return
    from evodevo.runs.evolve import evolve as evolve_run

    keep_blobs_at(store, blobs)
    run = carry_out(
        lambda listener, begin: evolve_run(
            recipe,
            size=size.value,
            start=start or (),
            data=data,
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
        where = store_option(store)
        if run.is_composed:
            show_composed(run)
            output.words(f"next: evodevo report {run.id}{where}")
        else:
            show_front(run)
            output.words(f"next: evodevo pick {run.id}{where}   evodevo report {run.id}{where}")
