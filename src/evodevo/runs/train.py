"""One architecture alone, longer and with several seeds: search fidelity is low by design."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from evodevo.errors import UsageError
from evodevo.registry import enable_packages
from evodevo.runs.archive import Individual, Run
from evodevo.runs.command import Command, named, record_command, with_data
from evodevo.runs.drive import TRAIN, check_machine, create_run, drive
from evodevo.runs.evolve import ARCHITECTURE, begin, with_absolute_paths
from evodevo.runs.fixed_generation import OPERATION, record_source
from evodevo.runs.given import Given, find, opened, scaled
from evodevo.runs.progress import shown
from evodevo.runs.resolve import resolve
from evodevo.runs.slices import Slice, absolute, slice_of
from evodevo.search.base import Proposal
from evodevo.search.members import Listener
from evodevo.search.space import Space
from evodevo.search.start import START
from evodevo.search.study import Study
from evodevo.settings import merge, nested, validate
from evodevo.storage import Store

CHECKPOINTS = 20
RECIPE = "backbone.demo"
"""Recipe whose data and training a genome gets."""
READ_BY = ("residuals", "share_queries", "partial_featurizers", "dimensions")
"""Settings of a space that decide how the integers of a genome are read."""


def train(
    what: str | Path | Individual,
    *,
    tokens: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    flops: float | None = None,
    seeds: int = 1,
    baselines: bool = False,
    recipe: str | None = None,
    size: str | None = None,
    data: str | Path | None = None,
    overrides: dict[str, Any] | None = None,
    store: str | Path = "runs",
    progress: bool | None = None,
    listener: Listener | None = None,
    on_start: Callable[[Study], None] | None = None,
    cache_folder: Path | None = None,
) -> Run:
    """Train one architecture from scratch, with checkpoints from which an interrupted training goes on exactly.

    Args:
        what: an individual of the store (an id, a prefix of it, or ``last``), a genome, the name of a backbone, or a
            file with a genome. For the experiments of a recipe see ``experiment``.
        tokens, steps, seconds, flops: the budget of each training; the search's own if none is given.
        seeds: number of trainings.
        baselines: train the hand-drawn ones under the same budget too.
        recipe: recipe of a search whose data and training an architecture gets that is no individual;
            ``backbone.demo`` if left out. An individual has those of its own run.
        size: quick or full, of the recipe; quick if left out.
        data: your data for an architecture that is no individual, a file or a folder; the recipe's if left out.
        overrides: other settings, for example the learning rate. With another ``space.depth`` the architecture is
            stacked or trimmed by its motif.
        store, progress, listener, on_start, cache_folder: as for ``evolve``.

    Returns:
        A run of kind ``train``; its first individual is the one that was trained.

    Raises:
        NotFoundError: no such individual.
        UsageError: a budget or number that cannot be, or a setting that one genome cannot follow.
    """
    if seeds < 1:
        raise UsageError(f"{seeds} seeds: at least one training is wanted.")
    budget = {"tokens": tokens, "steps": steps, "seconds": seconds, "flops": flops}
    changes = overrides or {}
    with opened(store) as archive:
        given = find(what, _space(recipe or RECIPE).named_genomes, archive, store)
        if given.individual is not None:
            _refuse(given, recipe=recipe, size=size, data=data)
            run = given.individual.run
            recipe, kind, before = run.recipe, run.slice, run.settings
            values = kind.retraining(before, given.individual, budget, seeds)
            values = merge(values, _without_depth(changes))
        else:
            recipe = recipe or RECIPE
            before = resolve(recipe, size=size or "quick", overrides=_how_to_read(changes))
            kind = slice_of(recipe, type(before).model_fields)
            if data is not None:
                changes = merge(changes, nested(kind.data_setting, str(data)))
            values = kind.retraining(
                resolve(recipe, size=size or "quick", overrides=_without_depth(changes)), None, budget, seeds
            )
        source = None  # an experiment's settings list what is trained
        if given.individual is None or not run.is_experiment:
            source, resized = _source(given, kind, before, changes)
            values = kind.at_depth(source.genome, values) if resized else values
        values["study"]["baselines"] = baselines
        settings = validate(type(before), _with_checkpoints(values, kind), what="settings of train")
    settings = with_absolute_paths(kind, settings)
    enable_packages(settings.execution.packages)
    space = kind.space(settings)
    if source is not None:
        space.check(source.genome)
    # Device and data are tried before anything is recorded.
    check_machine(settings)
    kind.problem(settings, cache_folder=cache_folder)
    subject = named(what) if given.individual is None else given.individual.id
    options = {
        **{name: limit for name, limit in budget.items() if name != "flops"},
        "seeds": seeds,
        "baselines": "all" if baselines else None,
        **({"recipe": recipe, "size": size} if given.individual is None else {}),
        "data": None if data is None else absolute(str(data)),
    }
    command = Command("train", subject, options, _with_flops(overrides or {}, budget))
    with Store.open(store, create=given.individual is None) as records:
        run_id = create_run(records, TRAIN, recipe, settings)
        lease = records.acquire(run_id)
        if source is not None:
            record_source(records, lease, space, source)
        record_command(records, lease, command)
        records.release(lease)
    with shown(progress, listener, on_start) as (listen, start):
        if source is not None and "scaling" in source.details and listen is not None:
            listen(ARCHITECTURE, source.details)
        return drive(run_id, settings, store=store, listener=listen, on_start=start, cache_folder=cache_folder)


def _source(given: Given, kind: Slice[Run, Individual], before: Any, changes: dict[str, Any]) -> tuple[Proposal, bool]:
    """The genome that is trained, and whether its depth decides that of the settings.

    Raises:
        UsageError: a setting of the space that one genome cannot follow, or a depth that it cannot reach.
    """
    wanted = changes.get("space", {})
    recorded = before.model_dump(mode="json")["space"]
    follows = kind.follows if given.individual is not None else {*kind.follows, *READ_BY}
    for name, value in wanted.items():
        if name in type(before.space).model_fields and name not in follows and recorded.get(name) != value:
            raise UsageError(
                f"space.{name} decides what a search draws; {given.source} is one genome and cannot follow it. Leave "
                f"it out; what can change: {', '.join(f'space.{each}' for each in sorted(kind.follows))}."
            )
    depth = wanted.get("depth") if "depth" in kind.follows else None
    genome, scaling = scaled(given, kind.space(before), depth)
    details = {"source": given.source, "scaling": scaling} if scaling else {}
    if given.individual is None:
        return Proposal(genome, (), START, {"source": given.source, **details}), True
    return Proposal(genome, (given.individual.id,), OPERATION, details), depth is not None


def _how_to_read(changes: dict[str, Any]) -> dict[str, Any]:
    """The changes that decide how a genome is read, without those that a search draws by."""
    space = changes.get("space", {})
    read = {name: space[name] for name in READ_BY if name in space}
    return {"space": read} if read else {}


def _without_depth(changes: dict[str, Any]) -> dict[str, Any]:
    """The changes without the depth, which the genome has reached already."""
    if "depth" not in changes.get("space", {}):
        return changes
    return {**changes, "space": {name: value for name, value in changes["space"].items() if name != "depth"}}


def _space(recipe: str) -> Space[Any]:
    settings = resolve(recipe, overrides={})
    return slice_of(recipe, type(settings).model_fields).space(settings)


def _refuse(given: Given, **options: str | Path | None) -> None:
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"{given.source} has the settings of its own run; leave --{name} out.")


def experiment(
    recipe: str,
    *,
    size: str = "quick",
    baselines: str | None = None,
    data: str | Path | None = None,
    overrides: dict[str, Any] | None = None,
    store: str | Path = "runs",
    progress: bool | None = None,
    listener: Listener | None = None,
    on_start: Callable[[Study], None] | None = None,
    cache_folder: Path | None = None,
) -> Run:
    """Train all arms of a recipe, with every learning rate and seed.

    Args:
        recipe: name of the recipe; see ``evodevo recipes``.
        size: quick or full.
        baselines: set of opponents: none, quick or all, where the recipe leaves that to its user.
        data: the user's data, a file or a folder; the recipe's own if left out.
        overrides: nested settings that replace the recipe's, for example ``{"experiment": {"seeds": 3}}``.
        store, progress, listener, on_start, cache_folder: as for ``evolve``.

    Returns:
        A run of kind ``train``; see ``experiments.comparison`` for its table.

    Raises:
        UsageError, DataError: settings or data cannot be used; nothing was recorded then.
    """
    changes = with_data(recipe, overrides, data)
    settings = resolve(recipe, size=size, driver="train", baselines=baselines, overrides=changes)
    with shown(progress, listener, on_start) as (listen, start):
        return begin(
            TRAIN,
            recipe,
            settings,
            store=store,
            listener=listen,
            on_start=start,
            cache_folder=cache_folder,
            command=Command("train", recipe, {"size": size, "baselines": baselines}, changes),
        )


def _with_flops(overrides: dict[str, Any], budget: dict[str, Any]) -> dict[str, Any]:
    """A budget in FLOPs has no option of its own; written as a setting, it replaces the search's budget whole."""
    if budget["flops"] is None:
        return overrides
    return merge({"evaluation": {"training": {"budget": budget}}}, overrides)


def _with_checkpoints(values: dict[str, Any], kind: Slice[Run, Individual]) -> dict[str, Any]:
    """Settings, as plain data, with twenty checkpoints where no number is given."""
    training = values["evaluation"]["training"]
    if training["checkpoint_every"] is None:
        budget = training["budget"]
        total = budget["steps"] or (budget["tokens"] or 0) // kind.tokens_per_step(values) or 2000
        training["checkpoint_every"] = max(1, total // CHECKPOINTS)
    return values
