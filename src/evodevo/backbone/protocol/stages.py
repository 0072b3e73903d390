"""The course of a protocol, stage by stage. What a stage found is read from the store, so that a resume goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evodevo import canonical
from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.protocol import derived
from evodevo.backbone.protocol.record import (
    FINALISTS,
    TEST,
    chosen,
    common_rate,
    tuned_rates,
)
from evodevo.backbone.protocol.settings import ProtocolSettings
from evodevo.errors import EvaluationsFailedError, UsageError
from evodevo.execution.base import Job
from evodevo.execution.jobs import run_jobs
from evodevo.experiments.comparison import compare_arms
from evodevo.experiments.trials import Role
from evodevo.runs.archive import STAGE, Archive, Run
from evodevo.runs.drive import EVOLVE, PLAN, TRAIN, create_executor, create_run, drive, record_forecast
from evodevo.runs.recipe import RunSettings
from evodevo.search.members import Listener
from evodevo.search.study import Study
from evodevo.storage import Lease, Store
from evodevo.tasks.text.language import LanguageTask

Make = Callable[[], tuple[str, RunSettings]]
STAGES = ("baselines", "search", "random", "tuning", "training", "test")


class _InterruptedError(Exception):
    """A stage was stopped; the protocol can be resumed."""


class Protocol:
    """One protocol, new or resumed.

    Args:
        run_id: id of its recorded run.
        settings: settings with which it goes on; only the workers may differ from the recorded ones.
        store: folder of the store.
        listener: function called with the events of all stages, and with ``stage`` {"stage", "run", "number", "of",
            "protocol"} before each.
        on_start: function called with the study of each stage before it runs.
        cache_folder: folder of prepared data; None is the user's.
    """

    def __init__(
        self,
        run_id: str,
        settings: ProtocolSettings,
        store: str | Path,
        listener: Listener | None,
        on_start: Callable[[Study], None] | None,
        cache_folder: Path | None,
    ) -> None:
        self.run_id = run_id
        self.settings = settings
        self.folder = Path(store)
        self._on_start = on_start
        self._cache_folder = cache_folder
        self._study: Study | None = None
        self._told = listener or (lambda kind, facts: None)

    def run(self) -> None:
        """Carry out what is left of it.

        Raises:
            UsageError: another setting than the workers has changed.
            RunOwnedError: it is open in another process.
            EvaluationsFailedError: a stage found nothing that the next could go on with.
        """
        with Store.open(self.folder, create=False) as self._store:
            self._check_unchanged()
            self._lease: Lease = self._store.acquire(self.run_id)
            try:
                self._store.finish_run(self._lease, "running")
                self._go_on()
                self._store.finish_run(self._lease, "finished")
            except _InterruptedError:
                self._store.finish_run(self._lease, "interrupted")
            except EvaluationsFailedError:
                self._store.finish_run(self._lease, "failed")
                raise
            finally:
                self._store.release(self._lease)

    def _check_unchanged(self) -> None:
        recorded = self._store.run(self.run_id).settings
        now = self.settings.model_dump(mode="json")
        other = {**now, "execution": {**now["execution"], "workers": recorded["execution"]["workers"]}}
        if other != recorded:
            raise UsageError(
                "of a protocol only the number of workers can change on resume: its stages would no longer be "
                "comparable. For anything else begin a new one with: evodevo evolve"
            )

    def _go_on(self) -> None:
        settings = self.settings
        drawn = derived.baselines(settings)
        arms = [derived.variant(settings, name, genome, role="opponent") for name, genome in drawn.items()]
        tuned = self._stage(
            "baselines", lambda: (TRAIN, derived.tuning(settings, arms, "Learning rates of the baselines"))
        )
        rates = tuned_rates(tuned)
        if rates.keys() != drawn.keys():
            missing = ", ".join(name for name in drawn if name not in rates)
            raise EvaluationsFailedError(f"no learning rate trains {missing}; see: evodevo show {tuned.id}")
        given = settings.evaluation.training.optimizer.learning_rate
        rate = given if settings.protocol.search_rate == "given" else common_rate(tuned)
        search = self._stage("search", lambda: (EVOLVE, derived.search(settings, rate, random=False)))
        random = self._stage("random", lambda: (EVOLVE, derived.search(settings, rate, random=True)))
        finalists, controls = self._choose(search, random)
        tuned = self._stage("tuning", lambda: (TRAIN, self._tuning(finalists, controls)))
        rates |= tuned_rates(tuned)
        final = [derived.final_arms(settings, finalists, controls, rates)]
        trained = self._stage("training", lambda: (TRAIN, derived.training(settings, *final)))
        self._test(trained)

    def _stage(self, name: str, make: Make) -> Run:
        """The finished run of a stage, begun or gone on with where it is not finished."""
        run_id = self._run_of(name)
        if run_id is None:
            kind, settings = make()
            run_id = create_run(self._store, kind, self._store.run(self.run_id).recipe, settings)
            self._store.add_event(self._lease, STAGE, name, {"run": run_id})
            self._pass_forecast(name, run_id)
        run = Archive(self.folder).run(run_id)
        if run.state == "finished":
            return run
        settings = run.settings.model_copy(update={"execution": self.settings.execution})
        run.archive.close()
        self._announce(name, run_id)
        run = drive(
            run_id,
            settings,
            store=self.folder,
            listener=self._listen,
            on_start=self._begin,
            cache_folder=self._cache_folder,
        )
        if run.state != "finished":
            raise _InterruptedError
        return run

    def _pass_forecast(self, stage: str, run_id: str) -> None:
        """Give the run of a stage its part of the protocol's forecast, so that nothing is measured twice."""
        whole = next((event.payload for event in self._store.events(self.run_id) if event.type == PLAN), None)
        part = next((part for part in (whole or {"stages": []})["stages"] if part["stage"] == stage), None)
        if whole is not None and part is not None:
            facts = {"trainings": part["trainings"], "expected_seconds": 3600 * part["hours"]}
            record_forecast(self._store, run_id, {**facts, "workers": whole["workers"]}, self._told)

    def _announce(self, stage: str, run_id: str | None) -> None:
        if self._study is not None and self._study.stopping:
            raise _InterruptedError  # stopped while nothing ran
        place = {"number": STAGES.index(stage) + 1, "of": len(STAGES)}
        self._told("stage", {"stage": stage, "run": run_id, **place, "protocol": self.run_id})

    def _run_of(self, stage: str) -> str | None:
        for event in self._store.events(self.run_id):
            if event.type == STAGE and event.subject == stage:
                return str(event.payload["run"])
        return None

    def _listen(self, kind: str, facts: dict[str, Any]) -> None:
        self._store.heartbeat(self._lease)
        self._told(kind, facts)

    def _begin(self, study: Study) -> None:
        self._study, study.part_of = study, self.run_id
        if self._on_start is not None:
            self._on_start(study)

    def _choose(
        self, search: Run, random: Run
    ) -> tuple[dict[str, tuple[str, BackboneGenome]], dict[str, tuple[str, BackboneGenome]]]:
        """Finalists and controls by name: individual and genome, best first; recorded once."""
        stages = self.settings.protocol
        both = {
            prefix: chosen(run, self.settings, count)
            for prefix, run, count in (
                (derived.STAR, search, stages.finalists),
                (derived.RANDOM, random, stages.controls),
            )
        }
        named = {
            prefix: {f"{prefix}-{place}": individual for place, individual in enumerate(individuals, 1)}
            for prefix, individuals in both.items()
        }
        if not named[derived.STAR]:
            raise EvaluationsFailedError(
                f"no individual of the search {search.id} is below the baselines in {stages.limit}, so that there are "
                "no finalists (STAR, section 5). Search longer, or in another space."
            )
        if not any(event.type == FINALISTS for event in self._store.events(self.run_id)):
            facts = {name: one.id for individuals in named.values() for name, one in individuals.items()}
            self._store.add_event(self._lease, FINALISTS, self.run_id, facts)
        finalists, controls = (
            {name: (one.id, one.genome) for name, one in named[prefix].items()}
            for prefix in (derived.STAR, derived.RANDOM)
        )
        return finalists, controls

    def _tuning(
        self, finalists: Mapping[str, tuple[str, BackboneGenome]], controls: Mapping[str, tuple[str, BackboneGenome]]
    ) -> RunSettings:
        roles: tuple[tuple[Role, Mapping[str, tuple[str, BackboneGenome]]], ...]
        roles = (("other", finalists), ("control", controls))
        arms = [
            derived.variant(self.settings, name, genome, role=role, parent=parent)
            for role, group in roles
            for name, (parent, genome) in group.items()
        ]
        return derived.tuning(self.settings, arms, "Learning rates of the finalists")

    def _test(self, trained: Run) -> None:
        """Every trained network on the test split: the one time that it is read."""
        if any(event.type == TEST for event in self._store.events(self.run_id)):
            return
        self._announce("test", None)
        networks = [one for row in compare_arms(trained).rows for one in row.trainings]
        if not networks:
            raise EvaluationsFailedError(f"no training of {trained.id} ended; see: evodevo show {trained.id}")
        language, folder = self.settings.evaluation.language, self._cache_folder
        task = LanguageTask.open(language, folder)
        common = {
            "language": language.model_dump(mode="json"),
            "task_key": task.key,
            "cache_folder": None if folder is None else str(folder),
            "blobs": str(self._store.blobs_folder),
            "device": self.settings.evaluation.training.device,
            "precision": self.settings.evaluation.training.precision,
            "tokens": self.settings.protocol.test_tokens,
            "tasks": list(self.settings.protocol.tasks),
        }
        digests = {one.id: one.weights() for one in networks}
        jobs = [
            Job(digest, "backbone_test", canonical.dumps({**common, "weights": digest}).encode())
            for digest in dict.fromkeys(digests.values())
        ]
        with create_executor(self.settings.execution, ("torch", "networks")) as executor:
            answers = run_jobs(executor, jobs, dropped=lambda: self._study is not None and self._study.dropping)
        if len(answers) < len(jobs):
            raise _InterruptedError
        measured = {
            digest: canonical.loads(answer.payload, what="a test")
            for digest, answer in answers.items()
            if answer.payload is not None
        }
        results = {name: measured[digest] for name, digest in digests.items() if digest in measured}
        failed = {name: answers[digest].detail[-300:] for name, digest in digests.items() if digest not in measured}
        if not results:
            raise EvaluationsFailedError(f"no network could be tested: {next(iter(failed.values()), 'nothing ran')}")
        count_models = task.baselines("test", task.spread("test", self.settings.protocol.test_tokens))
        payload = {"results": results, "failed": failed, "count_models": count_models}
        self._store.add_event(self._lease, TEST, trained.id, payload)
