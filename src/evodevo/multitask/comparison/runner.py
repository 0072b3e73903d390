"""Run a recipe of multitask systems by its name: make its systems, go on with them, or read what they found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from evodevo import canonical
from evodevo.errors import DiskFullError, UsageError
from evodevo.execution.base import Executor
from evodevo.multitask.comparison import characters, multipath
from evodevo.multitask.comparison.results import RecipeResult
from evodevo.multitask.comparison.systems import InterruptedRecipe, RecipeRunner, RecipeSession
from evodevo.multitask.recipes.settings import CharactersSettings, MultipathRecipeSettings, MultitaskRecipeSettings
from evodevo.multitask.stored import OF_CYCLE, OF_TRAINING, as_recorded_before
from evodevo.registry import enable_packages
from evodevo.runs.drive import check_machine, create_executor
from evodevo.runs.recipe import RunSettings
from evodevo.runs.resolve import resolve
from evodevo.search.members import Listener
from evodevo.settings import merge
from evodevo.storage import Store

PRELOAD = ("paths",)
_DRIVES: Mapping[type[RunSettings], Callable[[RecipeRunner, Any], RecipeResult]] = {
    CharactersSettings: characters.drive,
    MultipathRecipeSettings: multipath.drive,
}


def run_recipe(
    name: str,
    *,
    size: str = "quick",
    store: str | Path = "runs",
    workers: int | None = None,
    overrides: dict[str, Any] | None = None,
    listener: Listener | None = None,
    on_start: Callable[[RecipeSession], None] | None = None,
    cache_folder: Path | None = None,
    executor: Executor | None = None,
) -> RecipeResult:
    """Run a recipe to its end; the same call resumes systems that were stopped or killed, and reads finished ones.

    Args:
        name: ``multitask.characters`` or ``multitask.multipath``.
        size: quick or full.
        store: folder of the store.
        workers: number of children at a time; results do not depend on it.
        overrides: nested settings that replace the recipe's, and ``data``, a folder of the tasks. Other settings have
            other systems.
        listener: called with events: type and JSON-able facts; ``plan`` has the forecast, before it begins.
        on_start: called with the session before it begins, to call its ``stop`` from a signal handler.
        cache_folder: folder of prepared data and representations.
        executor: executor to use instead of workers of its own; the caller closes it.

    Raises:
        UsageError, DataError, NotFoundError: settings or data cannot be used.
        RunOwnedError: another process runs it in this store.
        EvaluationsFailedError: no child of an agent succeeded.
    """
    changes = dict(overrides or {})
    if workers is not None:
        changes = merge(changes, {"execution": {"workers": workers}})
    resolved = resolve(name, size=size, driver="extend", overrides=changes)
    drive = _DRIVES.get(type(resolved))
    if drive is None:
        raise UsageError(f"the recipe {name!r} makes no multitask systems.")
    settings = cast(MultitaskRecipeSettings, resolved)
    enable_packages(settings.execution.packages)
    if executor is None:
        check_machine(settings)
    session = RecipeSession(name, size, label(name, size, settings))
    own: list[Executor] = []

    def of_workers() -> Executor:  # whoever only reads starts none
        if executor is not None:
            return executor
        if not own:
            own.append(create_executor(settings.execution, PRELOAD))
        return own[0]

    try:
        with Store.open(store) as opened:
            cache = None if cache_folder is None else str(cache_folder)
            course = RecipeRunner(opened, settings, session, of_workers, cache, listener)
            if on_start is not None:
                on_start(session)
            try:
                result = drive(course, settings)
            except DiskFullError:
                opened.tidy()  # what nothing holds is not worth a stop
                raise
            opened.tidy()
            return result
    except InterruptedRecipe:
        facts = {"recipe": name, "size": size, "systems": session.label, "state": "interrupted"}
        return RecipeResult(name, size, session.label, "interrupted", facts)
    finally:
        for session_name in own:
            session_name.close()


def label(name: str, size: str, settings: MultitaskRecipeSettings) -> str:
    """Beginning of the names of a recipe's systems: other settings, other systems; workers are no part of them."""
    decisive = settings.model_dump(mode="json", exclude={"execution"})
    decisive["study"]["cycle"] = as_recorded_before(decisive["study"]["cycle"], OF_CYCLE)
    decisive["evaluation"]["training"] = as_recorded_before(decisive["evaluation"]["training"], OF_TRAINING)
    return f"{name}.{size}.{canonical.digest(decisive)[:8]}"
