"""Runs that consist of other runs: each stage is a run of its own in the same store, named in the whole's events.

What a stage found is read from the store. A run that was stopped or killed therefore goes on in its stage, and ends as
the uninterrupted one does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from evodevo.errors import EvaluationsFailedError, UsageError
from evodevo.runs.archive import STAGE, Archive, Run
from evodevo.runs.drive import PLAN, create_run, drive, record_forecast
from evodevo.runs.recipe import RunSettings
from evodevo.search.members import Listener
from evodevo.search.study import Study
from evodevo.storage import Lease, Store
from evodevo.storage.addresses import place
from evodevo.storage.base import as_written

MOVABLE = ("workers", "executor", "options")
"""Settings of the execution that may change on resume: number of the workers, and where they are."""
Make = Callable[[], tuple[str, RunSettings]]
"""Kind and settings of the run of a stage that begins."""


class StoppedError(Exception):
    """A stage was stopped; the run can be resumed."""


class ComposedRun(ABC):
    """One composed run, new or resumed.

    Args:
        run_id: id of its recorded run.
        settings: settings with which it goes on; only the workers may differ from the recorded ones.
        store: folder of the store.
        listener: function called with the events of all stages, and with ``stage`` {"stage", "run", "number", "of",
            "kind", "whole"} before each.
        on_start: function called with the study of each stage before it runs.
        cache_folder: folder of prepared data; None is the user's.

    Attributes:
        noun: name of its kind in messages.
    """

    noun: ClassVar[str]

    def __init__(
        self,
        run_id: str,
        settings: Any,
        *,
        store: str | Path,
        listener: Listener | None,
        on_start: Callable[[Study], None] | None,
        cache_folder: Path | None,
    ) -> None:
        self.run_id = run_id
        self.settings = settings
        self.folder = place(store)
        self.cache_folder = cache_folder
        self._on_start = on_start
        self._study: Study | None = None
        self._told = listener or (lambda kind, facts: None)

    @property
    @abstractmethod
    def stages(self) -> Sequence[str]:
        """Names of all stages, in order."""

    @abstractmethod
    def go_on(self) -> None:
        """Carry out what is left, stage by stage."""

    def run(self) -> None:
        """Carry out what is left of it.

        Raises:
            UsageError: another setting than the workers has changed.
            RunOwnedError: it is open in another process.
            EvaluationsFailedError: a stage found nothing that the next could go on with.
        """
        with Store.open(self.folder, create=False) as self.store:
            self._check_unchanged()
            self.lease: Lease = self.store.acquire(self.run_id)
            try:
                self.store.keep_alive(self.lease)
                self.store.finish_run(self.lease, "running")
                self.go_on()
                self.store.finish_run(self.lease, "finished")
            except StoppedError:
                self.store.finish_run(self.lease, "interrupted")
            except EvaluationsFailedError:
                self.store.finish_run(self.lease, "failed")
                raise
            finally:
                self.store.release(self.lease)

    def _check_unchanged(self) -> None:
        if _compared(self.store.run(self.run_id).settings) != _compared(self.settings.model_dump(mode="json")):
            raise UsageError(
                f"of a {self.noun} only the workers, their number and where they are, can change on resume: its stages "
                "would no longer be comparable. For anything else begin a new one with: evodevo evolve"
            )

    def stage(self, name: str, make: Make) -> Run:
        """The finished run of a stage, begun or gone on with where it is not finished."""
        run_id = self._run_of(name)
        if run_id is None:
            kind, settings = make()
            recipe = self.store.run(self.run_id).recipe
            run_id = create_run(self.store, kind, recipe, settings, part_of=(self.lease, STAGE, name))
            self._pass_forecast(name, run_id)
        run = Archive(self.folder).run(run_id)
        if run.state == "finished":
            return run
        settings = run.settings.model_copy(update={"execution": self.settings.execution})
        run.archive.close()
        self.announce(name, run_id)
        run = drive(
            run_id,
            settings,
            store=self.folder,
            listener=self._listen,
            on_start=self._begin,
            cache_folder=self.cache_folder,
        )
        if run.state != "finished":
            raise StoppedError
        return run

    def announce(self, name: str, run_id: str | None) -> None:
        """Tell the listener which stage comes.

        Raises:
            StoppedError: the run was stopped while nothing ran.
        """
        if self._study is not None and self._study.stopping:
            raise StoppedError
        place = {"number": self.stages.index(name) + 1, "of": len(self.stages)}
        self._told("stage", {"stage": name, "run": run_id, **place, "kind": self.noun, "whole": self.run_id})

    @property
    def dropping(self) -> bool:
        """Whether what is running is to be dropped: a second stop came."""
        return self._study is not None and self._study.dropping

    def event(self, kind: str) -> dict[str, Any] | None:
        """What the first event of a type holds; None where there is none."""
        return next((event.payload for event in self.store.events(self.run_id) if event.type == kind), None)

    def _pass_forecast(self, stage: str, run_id: str) -> None:
        """Give the run of a stage its part of the whole's forecast, so that nothing is measured twice."""
        whole = self.event(PLAN) or {"stages": []}
        with as_written(f"run {self.run_id}", "a forecast"):
            part = next((part for part in whole["stages"] if part["stage"] == stage), None)
            if part is None:
                return
            facts = {"trainings": part["trainings"], "expected_seconds": 3600 * float(part["hours"])}
            facts["workers"] = whole["workers"]
        record_forecast(self.store, run_id, facts, self._told)

    def _run_of(self, stage: str) -> str | None:
        for event in self.store.events(self.run_id):
            if event.type == STAGE and event.subject == stage:
                return event.fact("run", str)
        return None

    def _listen(self, kind: str, facts: dict[str, Any]) -> None:
        self.store.heartbeat(self.lease)
        self._told(kind, facts)

    def _begin(self, study: Study) -> None:
        self._study, study.part_of = study, self.run_id
        if self._on_start is not None:
            self._on_start(study)


def _compared(settings: dict[str, Any]) -> dict[str, Any]:
    """Recorded settings without those that may change on resume."""
    kept = {name: value for name, value in settings["execution"].items() if name not in MOVABLE}
    return {**settings, "execution": kept}


def stage_runs(run: Run) -> dict[str, Run]:
    """Stage -> its run, in the order in which they began."""
    events = [event for event in run.events() if event.type == STAGE]
    return {event.subject: run.archive.run(event.fact("run", str)) for event in events}
