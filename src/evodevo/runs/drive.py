"""From a recorded run to a study that runs: the one place where settings, data, store and workers meet."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from evodevo import __version__
from evodevo.errors import DiskFullError, UsageError
from evodevo.execution.base import EXECUTORS, Executor
from evodevo.execution.devices import outer_devices, visible_values
from evodevo.registry import enable_packages
from evodevo.runs.archive import Archive, Run
from evodevo.runs.command import Command, record_command
from evodevo.runs.fixed_generation import recall_source
from evodevo.runs.recipe import ExecutionSettings, RunSettings
from evodevo.runs.slices import COMPOSED, slice_of
from evodevo.runs.tidying import tidied
from evodevo.search.members import Listener
from evodevo.search.study import Study
from evodevo.storage import Lease, Store

TRAIN = "train"
EVOLVE = "evolve"
GROW = "grow"
ABLATE = "ablate"
PLAN = "experiment.plan"


def create_run(
    store: Store, kind: str, recipe: str, settings: RunSettings, *, part_of: tuple[Lease, str, str] | None = None
) -> str:
    """Record a new run with all that it depends on; ``part_of`` as for ``Store.create_run``."""
    space = slice_of(recipe, type(settings).model_fields).space(settings)
    return store.create_run(
        kind=kind,
        recipe=recipe,
        settings=settings.model_dump(mode="json"),
        seed=settings.study.seed,
        space={"name": space.name, "version": space.version},
        versions=versions(settings.execution.packages),
        part_of=part_of,
    )


def drive(
    run_id: str,
    settings: RunSettings,
    *,
    store: str | Path,
    listener: Listener | None,
    on_start: Callable[[Study], None] | None,
    cache_folder: Path | None,
    command: Command | None = None,
) -> Run:
    """Complete a recorded run: do all of it, if it is new.

    Args:
        run_id: id of the run.
        settings: settings with which it continues; recorded if they differ from its own.
        store, listener, on_start, cache_folder: as for ``evolve``.
        command: the command that changes its settings, to be recorded.
    """
    enable_packages(settings.execution.packages)
    check_machine(settings)
    rooms = type(settings).model_fields
    if not rooms.keys().isdisjoint(COMPOSED):
        slice_of("", rooms).carry_out(
            run_id, settings, store=store, listener=listener, on_start=on_start, cache_folder=cache_folder
        )
        return Archive(store).run(run_id)
    with Store.open(store, create=False) as opened:
        row = opened.run(run_id)
        kind = slice_of(row.recipe, type(settings).model_fields)
        space, problem = kind.space(settings), kind.problem(settings, opened.blobs_address, cache_folder)
        algorithm = kind.algorithm(settings)
        if algorithm is None and row.kind == TRAIN:
            algorithm = recall_source(opened, run_id, space)
        with create_executor(settings.execution, kind.preload) as executor:
            study = Study(
                space,
                problem,
                settings=settings.study,
                store=opened,
                executor=executor,
                algorithm=algorithm,
                run=run_id,
                listener=tidied(opened, listener),
            )
            record_change(opened, run_id, settings, command)
            if on_start is not None:
                on_start(study)
            kind.prepare(settings, problem, executor, listener)
            if not any(event.type == PLAN for event in opened.events(run_id)):
                record_forecast(opened, run_id, kind.forecast(settings, problem, executor), listener)
            try:
                study.run()
            except DiskFullError:
                opened.tidy()  # what nothing holds is not worth a stop
                raise
        opened.tidy()
    return Archive(store).run(run_id)


def record_forecast(store: Store, run_id: str, expected: dict[str, Any] | None, listener: Listener | None) -> None:
    """Record once, before the first evaluation, the forecast of a run's duration, where that was measured; pass it to
    the listener."""
    if expected is None:
        return
    lease = store.acquire(run_id)
    store.add_event(lease, PLAN, run_id, expected)
    store.release(lease)
    if listener is not None:
        listener("plan", expected)


def record_change(store: Store, run_id: str, settings: RunSettings, command: Command | None = None) -> None:
    """Record the settings with which a run goes on, and the command, where they are not those that it has."""
    values = settings.model_dump(mode="json")
    if store.run(run_id).settings != values:
        lease = store.acquire(run_id)
        store.change_settings(lease, values)
        if command is not None:
            record_command(store, lease, command)
        store.release(lease)


def create_executor(settings: ExecutionSettings, preload: tuple[str, ...]) -> Executor:
    """The executor of these settings; processes have torch and the evaluator imported before the first job."""
    return EXECUTORS.get(settings.executor).make(settings.setup(preload))


def check_machine(settings: RunSettings) -> None:
    """Refuse an executor that cannot work here, or a device that this machine lacks, once, not once per individual.

    Raises:
        UsageError: see ``check_execution``.
    """
    training = settings.evaluation.training
    check_execution(
        settings.execution,
        training.device,
        training.precision,
        replicas=getattr(training, "replicas", 1),
        setting="evaluation.training.device",
    )


def check_execution(
    execution: ExecutionSettings, device: str, precision: Any, *, replicas: int = 1, setting: str = "training.device"
) -> None:
    """As ``check_machine``, for trainings on this device.

    Args:
        execution: settings of the workers.
        device: device of a training, and ``precision`` its number format.
        replicas: number of processes of a training.
        setting: name of the setting of the device, for messages.

    Raises:
        UsageError: it has no device of that kind or number; workers with a device each are to use another one; or the
            executor is unknown, or its options are wrong.
    """
    executor = EXECUTORS.get(execution.executor)
    executor.check(execution.setup(()))
    if execution.devices:
        visible_values(execution.devices, outer_devices(os.environ))
        if replicas > 1:
            raise UsageError(
                "execution.devices gives each worker one device, and the replicas of a training need one each; leave "
                "execution.devices out."
            )
        if device not in ("auto", "cpu", "cuda", "cuda:0"):
            raise UsageError(
                f"{setting} is {device!r}, and with execution.devices each worker sees one "
                "device, as cuda:0. Leave one of the two out."
            )
        return
    if executor.is_local and device not in ("auto", "cpu"):
        from evodevo.training.precision import decide

        decide(device, precision)


def versions(packages: tuple[str, ...] = ()) -> dict[str, str]:
    """Versions that scores may depend on."""
    names = ("torch", "numpy", "tokenizers", "moocore", *packages)
    return {"evodevo": __version__, **{name: metadata.version(name) for name in names}}
