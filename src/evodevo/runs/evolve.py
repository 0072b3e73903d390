"""Begin a search, and go on with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evodevo.errors import UsageError
from evodevo.registry import enable_packages
from evodevo.runs.archive import Archive, Individual, Run
from evodevo.runs.command import Command, named, record_command, with_data
from evodevo.runs.drive import EVOLVE, check_machine, create_run, drive, record_forecast
from evodevo.runs.given import starts
from evodevo.runs.progress import shown
from evodevo.runs.recipe import RunSettings
from evodevo.runs.resolve import resolve
from evodevo.runs.slices import OWN_STUDY, Slice, slice_of
from evodevo.search.members import Listener
from evodevo.search.start import founders
from evodevo.search.study import Study
from evodevo.settings import merge, validate
from evodevo.storage import Store
from evodevo.storage.addresses import disk_of

CHANGEABLE = (
    ("study", "generations"),
    ("study", "confirmations"),
    ("study", "max_failed_share"),
    ("execution", "workers"),
    ("execution", "executor"),
    ("execution", "options"),
    ("evaluation", "keep_weights"),
)
"""Settings that a resumed run may change: budget, workers and where they are, retention."""

ARCHITECTURE = "architecture"
"""Event before a run begins: a given architecture was brought to another depth."""


def evolve(
    recipe: str = "backbone.demo",
    *,
    size: str = "quick",
    start: Sequence[str | Path | Individual] = (),
    data: str | Path | None = None,
    overrides: dict[str, Any] | None = None,
    store: str | Path = "runs",
    progress: bool | None = None,
    listener: Listener | None = None,
    on_start: Callable[[Study], None] | None = None,
    cache_folder: Path | None = None,
) -> Run:
    """Run a search to its end.

    Args:
        recipe: name of the recipe; see ``evodevo recipes``.
        size: quick or full.
        start: architectures that come first in the initial population: genomes, names, files with a genome, or
            individuals of this store. Where ``overrides`` name a depth, they are stacked or trimmed to it.
        data: the user's data, a file or a folder; the recipe's own if left out.
        overrides: nested settings that replace the recipe's, for example ``{"study": {"population": 8}}``.
        store: folder of the store.
        progress: whether a bar with the time left is shown; None shows it on a terminal and in a notebook, where no
            listener is given.
        listener: called with events of the search.
        on_start: called with the study before it runs, to call its ``stop`` from a signal handler.
        cache_folder: folder of prepared data; None is the user's.

    Returns:
        The run, finished or interrupted.

    Raises:
        UsageError, DataError, NotFoundError: settings, data or architectures cannot be used; nothing was recorded then.
        EvaluationsFailedError: none succeeded, or more failed than the settings allow.
    """
    changes = with_data(recipe, overrides, data)
    options = {"size": size, "start": [named(one) for one in start] or None}
    with shown(progress, listener, on_start) as (listen, begun):
        settings = _resolved(recipe, size, start, changes, store, listen)
        return begin(
            EVOLVE,
            recipe,
            settings,
            store=store,
            listener=listen,
            on_start=begun,
            cache_folder=cache_folder,
            command=Command("evolve", recipe, options, changes),
        )


def _resolved(
    recipe: str,
    size: str,
    start: Sequence[str | Path | Individual],
    changes: dict[str, Any],
    store: str | Path,
    listener: Listener | None,
) -> RunSettings:
    """All settings of a search, with the architectures that it begins with; see ``evolve``."""
    settings = resolve(recipe, size=size, driver="evolve", overrides=changes)
    if start:
        settings = _beginning_with(start, recipe, settings, changes, store)
        for given in settings.study.start:
            if given.scaling and listener is not None:
                listener(ARCHITECTURE, {"source": given.source, "scaling": given.scaling})
    return settings


def _beginning_with(
    start: Sequence[str | Path | Individual],
    recipe: str,
    settings: RunSettings,
    changes: Mapping[str, Any],
    store: str | Path,
) -> RunSettings:
    """The settings with the architectures of the user's; see ``evolve``."""
    enable_packages(settings.execution.packages)
    which = slice_of(recipe, type(settings).model_fields)
    depth = changes.get("space", {}).get("depth", which.start_depth(settings))
    given = [one.model_dump(mode="json") for one in starts(start, which.space(settings), store, depth)]
    values = merge(settings.model_dump(mode="json"), {"study": {"start": given}})
    return validate(type(settings), values, what=f"settings of {recipe}")


def begin(
    kind: str,
    recipe: str,
    settings: RunSettings,
    *,
    store: str | Path,
    listener: Listener | None,
    on_start: Callable[[Study], None] | None,
    cache_folder: Path | None,
    held: Mapping[str, bytes] | None = None,
    command: Command | None = None,
) -> Run:
    """Check, record and drive a new run.

    Args:
        kind: ``evolve``, ``train`` or ``grow``.
        recipe: name of the recipe.
        settings: resolved.
        held: role -> what the run itself keeps in the store, and its settings name by digest.
        command: the command that gives these settings, to be recorded.
        store, listener, on_start, cache_folder: as for ``evolve``.
    """
    which = slice_of(recipe, type(settings).model_fields)
    paths = which.paths(settings)
    # All is tried before the store is made: a wrong name or path leaves nothing behind.
    settings = _tried(which, settings, cache_folder)
    expected = which.needs(settings, disk_of(store), cache_folder) if which.composed else None
    if expected is not None and expected["refusal"]:
        raise UsageError(str(expected["refusal"]))
    with Store.open(store) as opened:
        run_id = create_run(opened, which.kind or kind, recipe, settings)
        record_forecast(opened, run_id, expected, listener)
        if held or command is not None:
            lease = opened.acquire(run_id)
            if held:
                opened.attach_blobs(lease, {role: opened.blobs.put_bytes(data) for role, data in held.items()})
            if command is not None:
                record_command(opened, lease, command.found_from_anywhere(paths))
            opened.release(lease)
    return drive(run_id, settings, store=store, listener=listener, on_start=on_start, cache_folder=cache_folder)


def _tried(which: Slice[Run, Individual], settings: RunSettings, cache_folder: Path | None) -> RunSettings:
    """The settings with absolute paths, after device, algorithm, architectures and data were tried.

    Raises:
        UsageError, DataError, NotFoundError: one of them cannot be used.
    """
    settings = with_absolute_paths(which, settings)
    enable_packages(settings.execution.packages)
    check_machine(settings)
    settings.study.create()
    founders(settings.study.start, which.space(settings), settings.study.population)
    settings.study.check(which.problem(settings, cache_folder=cache_folder))
    return settings


def dry_run(
    recipe: str,
    *,
    size: str = "quick",
    start: Sequence[str | Path | Individual] = (),
    data: str | Path | None = None,
    overrides: dict[str, Any] | None = None,
    store: str | Path = "runs",
    cache_folder: Path | None = None,
    device_profile: str | None = None,
) -> dict[str, Any]:
    """What a run would need, measured on this machine: evaluations, tokens, FLOPs, memory, disk, hours. Nothing runs.

    Args:
        recipe, size, start, data, overrides, store, cache_folder: as for ``evolve``.
        device_profile: name of a device that is not here (h100, a100, …): nothing is measured then.

    Raises:
        UsageError, DataError, NotFoundError: as for ``evolve``, or a recipe without a plan.
    """
    settings = _resolved(recipe, size, start, with_data(recipe, overrides, data), store, None)
    which = slice_of(recipe, type(settings).model_fields)
    return which.needs(_tried(which, settings, cache_folder), disk_of(store), cache_folder, device_profile)


def resume(
    run: str,
    *,
    overrides: dict[str, Any] | None = None,
    store: str | Path = "runs",
    progress: bool | None = None,
    listener: Listener | None = None,
    on_start: Callable[[Study], None] | None = None,
    cache_folder: Path | None = None,
) -> Run:
    """Go on with a run that was interrupted or killed, or make a finished one longer.

    Args:
        run: its id or a prefix of it, or ``last``.
        overrides: only budget, workers and retention may change.
        store, progress, listener, on_start, cache_folder: as for ``evolve``.

    Raises:
        NotFoundError: no such run.
        RunOwnedError: it is open in another process.
        UsageError: another setting was to change, or the data are no longer those of the run.
    """
    with Archive(store) as archive:
        opened = archive.run(run)
        before = opened.settings
        if opened.kind == OWN_STUDY:
            opened.slice.problem(before)  # refuses what needs the user's code
        run_id, changed = opened.id, _changed(before, overrides or {})
    command = None if changed == before else Command("resume", run_id, {}, overrides or {})
    with shown(progress, listener, on_start) as (listen, start):
        return drive(
            run_id,
            changed,
            store=store,
            listener=listen,
            on_start=start,
            cache_folder=cache_folder,
            command=command,
        )


def with_absolute_paths(kind: Slice[Run, Individual], settings: RunSettings) -> RunSettings:
    """The settings, with paths that are found from any folder."""
    changes = kind.paths(settings)
    if not changes:
        return settings
    return validate(type(settings), merge(settings.model_dump(mode="json"), changes), what="settings")


def _changed(recorded: RunSettings, overrides: dict[str, Any]) -> RunSettings:
    values = merge(recorded.model_dump(mode="json"), overrides)
    if values["execution"].get("executor") != recorded.execution.executor:
        values["execution"]["options"] = overrides["execution"].get("options", {})  # those of the other one are no use
    changed = validate(type(recorded), values, what="settings")
    before, after = recorded.model_dump(mode="json"), changed.model_dump(mode="json")
    for room in before:
        # Some settings are not written where they have their default.
        for key in before[room] | after[room]:
            if before[room].get(key) != after[room].get(key) and (room, key) not in CHANGEABLE:
                allowed = ", ".join(f"{a}.{b}" for a, b in CHANGEABLE)
                raise UsageError(
                    f"{room}.{key} cannot change on resume: the scores would no longer be comparable. "
                    f"What may change: {allowed}. For anything else begin a new run with: evodevo evolve"
                )
    return changed
