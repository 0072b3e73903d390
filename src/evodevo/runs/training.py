"""One individual again, longer and with several seeds: search fidelity is low by design."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from evodevo.errors import UsageError
from evodevo.recipes.base import EvolveSettings
from evodevo.runs.archive import Archive, Run
from evodevo.runs.driving import TRAIN, create_run, drive
from evodevo.runs.given import record_source
from evodevo.settings import merge, validate
from evodevo.spaces.backbone import BackboneSpace
from evodevo.storage import Store
from evodevo.study import Listener, Study

CHECKPOINTS = 20


def train(
    individual: str,
    *,
    tokens: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
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
        individual: its id or a prefix of it.
        tokens, steps, seconds: the budget of each training; the search's own if none is given.
        seeds: how many trainings.
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
    with Archive(store) as archive:
        source = archive.individual(individual)
        genome, source_id, recipe = source.genome, source.id, source.run.recipe
        settings = _longer(source.run.settings, tokens, steps, seconds, seeds, baselines, overrides or {})
    with Store.open(store, create=False) as opened:
        run_id = create_run(opened, TRAIN, recipe, settings)
        lease = opened.acquire(run_id)
        record_source(opened, lease, BackboneSpace(settings.space), source_id, genome)
        opened.release(lease)
    return drive(run_id, settings, store=store, listener=listener, on_start=on_start, cache_folder=cache_folder)


def _longer(
    settings: EvolveSettings,
    tokens: int | None,
    steps: int | None,
    seconds: float | None,
    seeds: int,
    baselines: bool,
    overrides: dict[str, Any],
) -> EvolveSettings:
    values = settings.model_dump(mode="json")
    training = values["evaluation"]["training"]
    if any(limit is not None for limit in (tokens, steps, seconds)):
        training["budget"] = {"tokens": tokens, "steps": steps, "seconds": seconds}
    values["evaluation"]["seconds"] = None
    values["study"] |= {"generations": 1, "confirmations": seeds - 1, "baselines": baselines, "mode": "generational"}
    values = merge(values, overrides)
    training = values["evaluation"]["training"]
    if training["checkpoint_every"] is None:
        per_step = training["batch_size"] * values["evaluation"]["language"]["context_length"]
        budget = training["budget"]
        total = budget["steps"] or (budget["tokens"] or 0) // per_step or 2000
        training["checkpoint_every"] = max(1, total // CHECKPOINTS)
    return validate(EvolveSettings, values, what="settings of train")
