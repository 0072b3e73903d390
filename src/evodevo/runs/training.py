"""One individual again, longer and with several seeds: search fidelity is low by design."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evodevo.errors import NotFoundError, UsageError
from evodevo.evaluation.problem import BackboneProblem
from evodevo.evolution.base import Algorithm, AlgorithmSettings, Breed, Draw, Known, Proposal, Scored, State
from evodevo.recipes.base import EvolveSettings
from evodevo.registry import enable_packages
from evodevo.runs.archive import Archive, Run
from evodevo.runs.evolve import create_executor, record_change, versions
from evodevo.settings import merge, validate
from evodevo.spaces.backbone import BackboneSpace
from evodevo.spaces.base import Space
from evodevo.storage import Store
from evodevo.study import Listener, Study

OPERATION = "retrain"
CHECKPOINTS = 20


class Given(Algorithm):
    """No search: one generation of genomes that are there already."""

    name = "given"

    def __init__(self, proposals: Sequence[Proposal]) -> None:
        super().__init__(AlgorithmSettings(population=max(2, len(proposals))))
        self.proposals = list(proposals)

    def ask(self, state: State, space: Space[Any], draw: Draw, count: int, known: Known) -> list[Proposal]:
        """All of them, whatever ``count``."""
        return list(self.proposals)

    def _breeder(self, state: State, space: Space[Any], count: int) -> Breed:
        raise UsageError("given genomes have no children.")

    def _survive(
        self, parents: tuple[Scored, ...], children: tuple[Scored, ...]
    ) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
        return children, tuple(range(len(children)))


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
    archive = Archive(store)
    try:
        source = archive.individual(individual)
        genome, source_id, recipe = source.genome, source.id, source.run.recipe
        settings = _longer(source.run.settings, tokens, steps, seconds, seeds, baselines, overrides or {})
    finally:
        archive.close()
    with Store.open(store, create=False) as opened:
        run_id = opened.create_run(
            kind="train",
            recipe=recipe,
            settings=settings.model_dump(mode="json"),
            seed=settings.study.seed,
            space={"name": BackboneSpace.name, "version": BackboneSpace.version},
            versions=versions(settings.execution.packages),
        )
        lease = opened.acquire(run_id)
        space = BackboneSpace(settings.space)
        opened.add_event(lease, "train.source", source_id, {"genome": space.to_json(genome)})
        opened.release(lease)
    return resume_training(
        run_id, settings, store=store, listener=listener, on_start=on_start, cache_folder=cache_folder
    )


def resume_training(
    run_id: str,
    settings: EvolveSettings,
    *,
    store: str | Path,
    listener: Listener | None = None,
    on_start: Callable[[Study], None] | None = None,
    cache_folder: Path | None = None,
) -> Run:
    """Do what a recorded training still lacks."""
    enable_packages(settings.execution.packages)
    space = BackboneSpace(settings.space)
    with Store.open(store, create=False) as opened:
        problem = BackboneProblem(space, settings.evaluation, opened.blobs_folder, cache_folder)
        source = next((event for event in opened.events(run_id) if event.type == "train.source"), None)
        if source is None:
            raise NotFoundError(f"run {run_id} was killed before it said what to train. Begin a new one: evodevo train")
        genome = space.from_json(source.payload["genome"])
        proposal = Proposal(genome, (source.subject,), OPERATION, {})
        with create_executor(settings.execution) as executor:
            study = Study(
                space,
                problem,
                settings=settings.study,
                store=opened,
                executor=executor,
                algorithm=Given([proposal]),
                run=run_id,
                listener=listener,
            )
            record_change(opened, run_id, settings)
            if on_start is not None:
                on_start(study)
            study.run()
    return Archive(store).run(run_id)


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
