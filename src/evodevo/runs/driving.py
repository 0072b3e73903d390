"""From a recorded run to a study that runs: the one place where settings, data, store and workers meet."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from evodevo import __version__
from evodevo.evaluation.problem import BackboneProblem
from evodevo.execution.base import EXECUTORS, Executor
from evodevo.execution.processes import ProcessExecutor
from evodevo.recipes.base import EvolveSettings, ExecutionSettings
from evodevo.registry import enable_packages
from evodevo.runs.archive import Archive, Run
from evodevo.runs.given import recall_source
from evodevo.spaces.backbone import BackboneSpace
from evodevo.storage import Store
from evodevo.study import Listener, Study

TRAIN = "train"
EVOLVE = "evolve"


def create_run(store: Store, kind: str, recipe: str, settings: EvolveSettings) -> str:
    """Record a new run with all that it depends on."""
    return store.create_run(
        kind=kind,
        recipe=recipe,
        settings=settings.model_dump(mode="json"),
        seed=settings.study.seed,
        space={"name": BackboneSpace.name, "version": BackboneSpace.version},
        versions=versions(settings.execution.packages),
    )


def drive(
    run_id: str,
    settings: EvolveSettings,
    *,
    store: str | Path,
    listener: Listener | None,
    on_start: Callable[[Study], None] | None,
    cache_folder: Path | None,
) -> Run:
    """Do what a recorded run still lacks: all of it, if it is new.

    Args:
        run_id: of the run.
        settings: with which it goes on; recorded if they are not those that it has.
        store, listener, on_start, cache_folder: as for ``evolve``.
    """
    enable_packages(settings.execution.packages)
    check_device(settings)
    space = BackboneSpace(settings.space)
    with Store.open(store, create=False) as opened:
        problem = BackboneProblem(space, settings.evaluation, opened.blobs_folder, cache_folder)
        trains = opened.run(run_id).kind == TRAIN
        with create_executor(settings.execution) as executor:
            study = Study(
                space,
                problem,
                settings=settings.study,
                store=opened,
                executor=executor,
                algorithm=recall_source(opened, run_id, space) if trains else None,
                run=run_id,
                listener=listener,
            )
            record_change(opened, run_id, settings)
            if on_start is not None:
                on_start(study)
            study.run()
    return Archive(store).run(run_id)


def record_change(store: Store, run_id: str, settings: EvolveSettings) -> None:
    """Record the settings with which a run goes on, where they are not those that it has."""
    values = settings.model_dump(mode="json")
    if store.run(run_id).settings != values:
        lease = store.acquire(run_id)
        store.change_settings(lease, values)
        store.release(lease)


def create_executor(settings: ExecutionSettings) -> Executor:
    """The executor of these settings; processes have torch and the evaluator imported before the first job."""
    if settings.executor == "processes":
        return ProcessExecutor(
            settings.workers,
            threads=settings.threads,
            preload=("torch", "evaluation"),
            packages=settings.packages,
        )
    return EXECUTORS.get(settings.executor)()


def check_device(settings: EvolveSettings) -> None:
    """Refuse a device that this machine lacks once, not once per individual.

    Raises:
        UsageError: it has none of that kind or number.
    """
    training = settings.evaluation.training
    if training.device not in ("auto", "cpu"):
        from evodevo.training.precision import decide

        decide(training.device, training.precision)


def versions(packages: tuple[str, ...] = ()) -> dict[str, str]:
    """Versions that scores may depend on."""
    names = ("torch", "numpy", "tokenizers", "moocore", *packages)
    return {"evodevo": __version__, **{name: metadata.version(name) for name in names}}
