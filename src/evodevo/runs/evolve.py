"""Begin a search, and go on with one."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from evodevo import __version__
from evodevo.errors import UsageError
from evodevo.evaluation.problem import BackboneProblem
from evodevo.execution.base import EXECUTORS, Executor
from evodevo.execution.processes import ProcessExecutor
from evodevo.recipes.base import EvolveSettings, ExecutionSettings, resolve
from evodevo.registry import enable_packages
from evodevo.runs.archive import Archive, Run
from evodevo.settings import merge, validate
from evodevo.spaces.backbone import BackboneSpace
from evodevo.storage import Store
from evodevo.study import Listener, Study

CHANGEABLE = (
    ("study", "generations"),
    ("study", "confirmations"),
    ("study", "max_failed_share"),
    ("execution", "workers"),
    ("evaluation", "keep_weights"),
)
"""What a resumed run may have otherwise: budget, workers, retention."""


def evolve(
    recipe: str = "backbone.demo",
    *,
    size: str = "quick",
    overrides: dict[str, Any] | None = None,
    store: str | Path = "runs",
    listener: Listener | None = None,
    on_start: Callable[[Study], None] | None = None,
    cache_folder: Path | None = None,
) -> Run:
    """Run a search to its end.

    Args:
        recipe: its name; see ``evodevo recipes``.
        size: quick or full.
        overrides: nested settings that replace the recipe's, for example ``{"study": {"population": 8}}``.
        store: folder of the store.
        listener: told what happens.
        on_start: given the study before it runs, to call its ``stop`` from a signal handler.
        cache_folder: of prepared data; None is the user's.

    Returns:
        The run, finished or interrupted.

    Raises:
        UsageError, DataError: settings or data cannot be used; nothing was recorded then.
        EvaluationsFailedError: none succeeded, or more failed than the settings allow.
    """
    settings = _absolute(resolve(recipe, size=size, driver="evolve", overrides=overrides or {}))
    enable_packages(settings.execution.packages)
    space = BackboneSpace(settings.space)
    # Algorithm and data are tried before the store is made: a wrong name or path leaves nothing behind.
    settings.study.create()
    BackboneProblem(space, settings.evaluation, cache_folder=cache_folder)
    with Store.open(store) as opened:
        problem = BackboneProblem(space, settings.evaluation, opened.blobs_folder, cache_folder)
        record = {
            "kind": "evolve",
            "recipe": recipe,
            "settings": settings.model_dump(mode="json"),
            "space": {"name": space.name, "version": space.version},
            "versions": versions(settings.execution.packages),
        }
        with create_executor(settings.execution) as executor:
            study = Study(
                space,
                problem,
                settings=settings.study,
                store=opened,
                executor=executor,
                record=record,
                listener=listener,
            )
            if on_start is not None:
                on_start(study)
            study.run()
        run_id = study.run_id
    return Archive(store).run(run_id)


def resume(
    run: str,
    *,
    overrides: dict[str, Any] | None = None,
    store: str | Path = "runs",
    listener: Listener | None = None,
    on_start: Callable[[Study], None] | None = None,
    cache_folder: Path | None = None,
) -> Run:
    """Go on with a run that was interrupted or killed, or make a finished one longer.

    Args:
        run: its id or a prefix of it, or ``last``.
        overrides: only budget, workers and retention may change.
        store, listener, on_start, cache_folder: as for ``evolve``.

    Raises:
        NotFoundError: no such run.
        RunOwnedError: it is open in another process.
        UsageError: another setting was to change, or the data are no longer those of the run.
    """
    archive = Archive(store)
    try:
        found = archive.run(run)
        run_id, kind, recorded = found.id, found.kind, found.settings
        changed = _changed(recorded, overrides or {})
    finally:
        archive.close()
    if kind == "train":
        from evodevo.runs.training import resume_training

        return resume_training(
            run_id, changed, store=store, listener=listener, on_start=on_start, cache_folder=cache_folder
        )
    enable_packages(changed.execution.packages)
    space = BackboneSpace(changed.space)
    with Store.open(store, create=False) as opened:
        problem = BackboneProblem(space, changed.evaluation, opened.blobs_folder, cache_folder)
        with create_executor(changed.execution) as executor:
            study = Study(
                space,
                problem,
                settings=changed.study,
                store=opened,
                executor=executor,
                run=run_id,
                listener=listener,
            )
            record_change(opened, run_id, changed)
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


def versions(packages: tuple[str, ...] = ()) -> dict[str, str]:
    """Versions that scores may depend on."""
    names = ("torch", "numpy", "tokenizers", "moocore", *packages)
    return {"evodevo": __version__, **{name: metadata.version(name) for name in names}}


def _absolute(settings: EvolveSettings) -> EvolveSettings:
    """Paths as they are found from any folder, so that a resume finds them too."""
    language = settings.evaluation.language
    changes: dict[str, Any] = {}
    if language.data is not None:
        changes["data"] = str(Path(language.data).expanduser().absolute())
    if language.tokenizer not in ("bytes", "bpe"):
        changes["tokenizer"] = str(Path(language.tokenizer).expanduser().absolute())
    if not changes:
        return settings
    values = merge(settings.model_dump(mode="json"), {"evaluation": {"language": changes}})
    return validate(EvolveSettings, values, what="settings")


def _changed(recorded: EvolveSettings, overrides: dict[str, Any]) -> EvolveSettings:
    values = merge(recorded.model_dump(mode="json"), overrides)
    changed = validate(EvolveSettings, values, what="settings")
    before, after = recorded.model_dump(mode="json"), changed.model_dump(mode="json")
    for room in before:
        for key in before[room]:
            if before[room][key] != after[room][key] and (room, key) not in CHANGEABLE:
                allowed = ", ".join(f"{a}.{b}" for a, b in CHANGEABLE)
                raise UsageError(
                    f"{room}.{key} cannot change on resume: the scores would no longer be comparable. "
                    f"What may change: {allowed}. For anything else begin a new run with: evodevo evolve"
                )
    return changed
