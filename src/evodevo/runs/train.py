"""One individual again, longer and with several seeds: search fidelity is low by design."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from evodevo.errors import UsageError
from evodevo.runs.archive import Archive, Run, Slice
from evodevo.runs.drive import TRAIN, create_run, drive
from evodevo.runs.evolve import begin
from evodevo.runs.fixed_generation import record_source
from evodevo.runs.resolve import resolve
from evodevo.search.study import Listener, Study
from evodevo.settings import merge, validate
from evodevo.storage import Store

CHECKPOINTS = 20


def train(
    individual: str,
    *,
    tokens: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    flops: float | None = None,
    seeds: int = 1,
    baselines: bool = False,
    overrides: dict[str, Any] | None = None,
    store: str | Path = "runs",
    listener: Listener | None = None,
    on_start: Callable[[Study], None] | None = None,
    cache_folder: Path | None = None,
) -> Run:
    """Train an individual from scratch, with checkpoints from which an interrupted training goes on exactly.

    Args:
        individual: its id or a prefix of it. For the experiments of a recipe see ``experiment``.
        tokens, steps, seconds, flops: the budget of each training; the search's own if none is given.
        seeds: number of trainings.
        baselines: train the hand-drawn ones under the same budget too.
        overrides: other settings than those of the search, for example the learning rate.
        store, listener, on_start, cache_folder: as for ``evolve``.

    Returns:
        A run of kind ``train``; its first individual is the one that was trained.

    Raises:
        NotFoundError: no such individual.
        UsageError: a budget or number that cannot be.
    """
    if seeds < 1:
        raise UsageError(f"{seeds} seeds: at least one training is wanted.")
    budget = {"tokens": tokens, "steps": steps, "seconds": seconds, "flops": flops}
    with Archive(store) as archive:
        source = archive.individual(individual)
        genome, source_id, run = source.genome, source.id, source.run
        values = run.slice.retraining(run.settings, source, budget, seeds)
        values["study"]["baselines"] = baselines
        values = _with_checkpoints(merge(values, overrides or {}), run.slice)
        settings = validate(type(run.settings), values, what="settings of train")
        space, again = run.space, run.is_experiment
    with Store.open(store, create=False) as opened:
        run_id = create_run(opened, TRAIN, run.recipe, settings)
        if not again:  # an experiment's settings list what is trained
            lease = opened.acquire(run_id)
            record_source(opened, lease, space, source_id, genome)
            opened.release(lease)
    return drive(run_id, settings, store=store, listener=listener, on_start=on_start, cache_folder=cache_folder)


def experiment(
    recipe: str,
    *,
    size: str = "quick",
    baselines: str | None = None,
    overrides: dict[str, Any] | None = None,
    store: str | Path = "runs",
    listener: Listener | None = None,
    on_start: Callable[[Study], None] | None = None,
    cache_folder: Path | None = None,
) -> Run:
    """Train all arms of a recipe, with every learning rate and seed.

    Args:
        recipe: name of the recipe; see ``evodevo recipes``.
        size: quick or full.
        baselines: set of opponents: none, quick or all, where the recipe leaves that to its user.
        overrides: nested settings that replace the recipe's, for example ``{"experiment": {"seeds": 3}}``.
        store, listener, on_start, cache_folder: as for ``evolve``.

    Returns:
        A run of kind ``train``; see ``experiments.comparison`` for its table.

    Raises:
        UsageError, DataError: settings or data cannot be used; nothing was recorded then.
    """
    settings = resolve(recipe, size=size, driver="train", baselines=baselines, overrides=overrides or {})
    return begin(TRAIN, recipe, settings, store=store, listener=listener, on_start=on_start, cache_folder=cache_folder)


def _with_checkpoints(values: dict[str, Any], kind: Slice) -> dict[str, Any]:
    """Settings, as plain data, with twenty checkpoints where no number is given."""
    training = values["evaluation"]["training"]
    if training["checkpoint_every"] is None:
        budget = training["budget"]
        total = budget["steps"] or (budget["tokens"] or 0) // kind.tokens_per_step(values) or 2000
        training["checkpoint_every"] = max(1, total // CHECKPOINTS)
    return values
