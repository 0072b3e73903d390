"""Evaluation of one arm in a worker: build its network, train it by its procedure, measure, trace, keep."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

# The first optimiser of a process imports it, which takes two seconds. Imported here, a warm worker pays once for all
# the children that it forks, and commands that train nothing do not pay.
import torch._dynamo  # noqa: F401

from evodevo import canonical
from evodevo.errors import NotFoundError, StoreDamagedError, UnsafeFileError, UsageError
from evodevo.execution.base import Report
from evodevo.experiments.correct_bits import pack
from evodevo.experiments.diagnostics import look_inside
from evodevo.experiments.flop_counter import look_at_step
from evodevo.experiments.measure import NetworkMeasurement, measure, places
from evodevo.experiments.peak_memory import forget_peak, peak_bytes
from evodevo.experiments.problem import PACED_STEPS
from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.settings import NetworkEvaluationSettings, ProbeSettings, procedure_options, task_settings
from evodevo.experiments.tower_features import precompute
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import INHERITED, Trainer, specification_of
from evodevo.experiments.trials import Trial
from evodevo.networks.base import Network
from evodevo.objectives.base import OBJECTIVES, Subject, parse_objectives
from evodevo.search.problem import INHERITANCE, SNAPSHOT, Terms, answered, write_numbers
from evodevo.settings import merge, validate
from evodevo.storage.blobs import BlobPool
from evodevo.storage.pools import pool_at
from evodevo.tasks.base import TASKS, SampleTask
from evodevo.tasks.text.token_cache import default_folder
from evodevo.training import replicas
from evodevo.training.precision import decide

TELL_SECONDS = 5.0


def evaluate_network(payload: bytes, report: Report) -> bytes:
    """See ``NetworkProblem.payload`` and ``NetworkProblem.read`` for both ends.

    Live messages: {"step", "tokens", "share", "loss"}, where tokens are samples and the share is that of the whole
    budget, also where there are several stages; {"growth": {"told": words}}; {"checkpoint": digest, "blobs":
    digests of all that it is made of}; {"restarted": why} where one could not be used; those of ``prepare_features``.
    """
    return answered(lambda: NetworkEvaluation(canonical.loads(payload, what="an evaluation"), report).run())


def measure_pace(payload: bytes, report: Report) -> bytes:
    """Duration of a step of an arm on this machine: {"step": seconds, "begin": seconds until the first one}.

    With a budget in FLOPs also {"flops": FLOPs of a step}.
    """
    begin = time.perf_counter()
    evaluation = NetworkEvaluation(canonical.loads(payload, what="an evaluation"), report)
    bench = evaluation.bench(None)
    network = bench.build()
    network.train()
    size = bench.training.batch_size
    times = []
    for step in range(PACED_STEPS):
        before = time.perf_counter()
        placed = bench.precision.place(bench.task.batch("train", bench.seed, step, size))
        with bench.precision.autocast():
            network.loss(placed).backward()  # type: ignore[no-untyped-call]
        times.append(time.perf_counter() - before)
    answer = {"step": min(times[1:]), "begin": time.perf_counter() - begin - sum(times[1:])}
    if bench.training.budget.flops is not None:
        answer["flops"] = look_at_step(network, placed).flops
    return canonical.dumps(answer).encode()


def prepare_features(payload: bytes, report: Report) -> bytes:
    """Have the frozen towers of an arm read all samples of its task and of its probes: {}.

    Live messages: {"features": input, "done", "total"}, in samples.
    """
    evaluation = NetworkEvaluation(canonical.loads(payload, what="an evaluation"), report)
    for probe in evaluation.settings.probes:
        evaluation.open(probe.task)
    return canonical.dumps({}).encode()


@dataclass
class TrainingFacts:
    """What is known of a training.

    Attributes:
        cost: Cost of the network, JSON.
        extra: Facts, JSON.
        scores: Objective -> value; none of a training that failed.
        explain: Objective -> its name, with the reason why it gave no number.
    """

    cost: dict[str, Any]
    extra: dict[str, Any]
    scores: dict[str, float] = field(default_factory=dict)
    explain: Callable[[str], str] = str


class ArmEvaluation(ABC):
    """One arm in a worker: built, trained by its procedure, measured, kept.

    Args:
        data: See ``NetworkProblem.payload``.
        report: Live messages.
    """

    trainer: ClassVar[type[Trainer]] = Trainer

    def __init__(self, data: dict[str, Any], report: Report) -> None:
        self.data = data
        self.report = report
        arm = validate(Trial, data["arm"], what="an arm")
        self.arm = arm.model_copy(update={"network": arm.network.settled()})
        self.settings = validate(NetworkEvaluationSettings, data["settings"], what="evaluation settings")
        self.pool = None if data["blobs"] is None else pool_at(data["blobs"])
        device = merge(self.settings.training.model_dump(mode="json"), self.arm.training)
        self.precision = decide(device["device"], device["precision"])
        self._reported_at = -math.inf
        terms = data.get("terms", {})
        self.terms = Terms(**{**terms, "donors": tuple((one, digest) for one, digest in terms.get("donors", ()))})
        self.task = self.open({}, data["task_key"])

    def open(self, changes: Mapping[str, Any], key: str | None = None) -> SampleTask:
        """The task with these changes, and with features where frozen towers read it."""
        folder = self.data["cache_folder"]
        values = task_settings(self.settings, merge(self.arm.task, dict(changes)))
        task = TASKS.get(self.settings.task).open(values, None if folder is None else Path(folder), key)
        towers = self.arm.network.towers(task.inputs)
        if self.settings.features == "live" or not towers:
            return task
        return precompute(task, towers, self._cache_folder, self.precision.device, self._report_features)

    @property
    def _cache_folder(self) -> Path:
        folder = self.data["cache_folder"]
        return default_folder() if folder is None else Path(folder)

    def _report_features(self, name: str, done: int, total: int) -> None:
        if done == total or time.monotonic() - self._reported_at > TELL_SECONDS:
            self._reported_at = time.monotonic()
            self.report({"features": name, "done": done, "total": total})

    def bench(self, resume: str | None) -> Trainer:
        """A new one."""
        bench = self.trainer(
            self.arm,
            self.settings,
            self.task,
            self.data["seed"],
            self.precision,
            self.pool,
            self.report,
            resume,
            self._cache_folder,
        )
        bench.terms = self.terms
        return bench

    @abstractmethod
    def course(self, bench: Trainer, trained: Trained) -> TrainingFacts:
        """What is known of a training, whether or not it failed."""

    @abstractmethod
    def measure(self, bench: Trainer, network: Network, found: TrainingFacts) -> None:
        """Measure a trained network: add to what is known of it."""

    @abstractmethod
    def series(self, bench: Trainer, trained: Trained) -> dict[str, list[list[float]]]:
        """Curves by name."""

    def run(self) -> dict[str, Any]:
        """The answer; see ``search.problem.read_answer``."""
        begin = time.perf_counter()
        bench, trained = self._trained()
        if replicas.rank():
            replicas.leave()
            return {}  # the first replica measures and answers
        replicas.leave()
        ended = ("finished", "paused") if self.terms.share < 1 else ("finished",)
        reason, detail = None if trained.result.state in ended else trained.result.state, trained.result.reason
        if trained.result.state == "finished" and bench.num_stages > 1:
            bench.report_end(trained.result)  # those of one stage report as they always did
        found = self.course(bench, trained)
        if INHERITED in bench.facts:
            found.extra[INHERITED] = bench.facts[INHERITED]
        if reason is None:
            self.measure(bench, trained.network, found)
            wrong = [found.explain(name) for name, value in found.scores.items() if not math.isfinite(value)]
            if wrong:
                reason, detail = "nan", f"not a finite number: {', '.join(wrong)}."
        return {
            "reason": reason,
            "detail": detail,
            "scores": write_numbers(found.scores),
            "cost": found.cost,
            "extra": found.extra,
            "blobs": {} if self.pool is None or reason is not None else self._kept(self.pool, bench, trained),
            "series": self.series(bench, trained),
            "seconds": time.perf_counter() - begin,
        }

    def keep(self, pool: BlobPool, bench: Trainer, trained: Trained) -> dict[str, str]:
        """Role -> digest of what is kept of a training."""
        if not self.settings.keep_weights:
            return {}
        return _roles("weights", *bench.save(trained.network, pool))

    def _kept(self, pool: BlobPool, bench: Trainer, trained: Trained) -> dict[str, str]:
        """The same, with what children and the next rung need."""
        blobs = self.keep(pool, bench, trained)
        if self.terms.bequeaths:
            blobs |= _roles(INHERITANCE, *bench.save(trained.network, pool))
        if bench.snapshot is not None:
            blobs |= _roles(SNAPSHOT, *bench.snapshot)
        return blobs

    def _trained(self) -> tuple[Trainer, Trained]:
        procedure, options = PROCEDURES.get(self.arm.procedure), procedure_options(self.settings, self.arm)
        if self.terms.share < 1 and self.arm.procedure != "train":
            raise UsageError(f"the procedure {self.arm.procedure!r} cannot stop at a rung; leave study.rungs out.")
        bench = self.bench(self.data["resume"])
        try:
            return bench, procedure.train(bench, options)
        except (NotFoundError, StoreDamagedError, UnsafeFileError) as error:
            if self.data["resume"] is None:
                raise
            # A checkpoint that is damaged or gone costs its work, not the evaluation.
            self.report({"restarted": str(error)})
        bench = self.bench(None)
        return bench, procedure.train(bench, options)


class NetworkEvaluation(ArmEvaluation):
    """An arm that answers to samples."""

    def run(self) -> dict[str, Any]:
        """See ``ArmEvaluation``; with the memory that all of it took at most."""
        forget_peak(self.precision)
        answer = super().run()
        answer["extra"]["peak_memory_bytes"] = peak_bytes(self.precision)
        return answer

    def course(self, bench: Trainer, trained: Trained) -> TrainingFacts:
        """See ``ArmEvaluation``."""
        extra: dict[str, Any] = {
            "title": self.arm.title,
            "train_loss": trained.result.final_loss,
            "steps": bench.steps,
            "samples": bench.samples,
            "epochs": bench.samples / self.task.count("train"),
            "training_seconds": bench.seconds,
            "training_flops": bench.flops,
            "device": str(self.precision.device),
            "facts": bench.facts,
            "selection": bench.selections,
            **trained.extra,
        }
        trainable = sum(one.numel() for one in trained.network.parameters() if one.requires_grad)
        return TrainingFacts({"parameters": trainable}, extra)

    def measure(self, bench: Trainer, network: Network, found: TrainingFacts) -> None:
        """See ``ArmEvaluation``."""
        inspected = self.settings.inspected
        validation = self._measure(network, count_flops=inspected)
        if inspected:
            found.cost["executed_flops"] = validation.executed_flops
        found.extra |= {"validation": validation.to_json(), "probes": self._probes(network)}
        if self.settings.test_samples != 0:
            test = self._measure(network, split="test", thresholds=validation.thresholds)
            found.extra["test"] = {**test.to_json(), "right": pack(test.right)}
        if self.settings.train_samples:
            found.extra["train"] = self._measure(network, split="train").to_json()
        if inspected:
            before = bench.build(specification_of(self.arm.network, network))
            found.extra |= look_inside(network, before, self.task, self.settings, self.precision)
        subject = Subject(space=None, genome=self.arm, length=0, vocabulary=0, model=network, held_out=validation)
        objectives = parse_objectives(self.settings.objectives, "network")
        found.scores = {objective.name: objective.measure(subject).value for objective in objectives}
        found.explain = partial(_explained, validation=validation)

    def _measure(
        self,
        network: Network,
        split: Any = "validation",
        *,
        task: SampleTask | None = None,
        shuffle: tuple[str, ...] = (),
        count_flops: bool = False,
        thresholds: Mapping[str, Sequence[float]] | None = None,
    ) -> NetworkMeasurement:
        settings, source = self.settings, task or self.task
        most = {
            "train": settings.train_samples,
            "validation": settings.validation_samples,
            "test": settings.test_samples,
        }[split]
        return measure(
            network,
            source,
            split,
            places(source, split, most),
            batch_size=max(64, settings.training.batch_size),
            precision=self.precision,
            shuffle=shuffle,
            count_flops=count_flops,
            thresholds=thresholds,
        )

    def _probes(self, network: Network) -> dict[str, Any]:
        results = {}
        names = [spec.name for spec in self.task.inputs]
        exchanged = names if self.settings.exchange and len(names) > 1 else []
        for probe in (
            *self.settings.probes,
            *(ProbeSettings(name=f"other {name}", shuffle=(name,)) for name in exchanged),
        ):
            if not probe.changes.keys() <= set(network.adjustable):
                continue
            unknown = [name for name in probe.shuffle if name not in names]
            if unknown:
                raise UsageError(f"the probe {probe.name!r} shuffles {unknown[0]!r}; inputs are {', '.join(names)}.")
            task = self.open(probe.task) if probe.task else None
            with _changed(network, probe):
                measured = self._measure(network, task=task, shuffle=probe.shuffle, count_flops=bool(probe.changes))
            results[probe.name] = measured.to_json()
        return results

    def keep(self, pool: BlobPool, bench: Trainer, trained: Trained) -> dict[str, str]:
        """See ``ArmEvaluation``; with traces."""
        blobs = {role: pool.put_bytes(data) for role, data in {**bench.course, **trained.blobs}.items()}
        blobs |= super().keep(pool, bench, trained)
        if self.settings.trace_samples:
            chosen = places(self.task, "validation", self.settings.trace_samples)
            trace = trained.network.trace_blob(self.task, "validation", chosen, self.precision)
            if trace is not None:
                blobs["trace"] = pool.put_bytes(trace)
        return blobs

    def series(self, bench: Trainer, trained: Trained) -> dict[str, list[list[float]]]:
        """See ``ArmEvaluation``; a point that is not finite is left out."""
        size = bench.training.batch_size
        before = bench.steps - trained.result.steps  # those of earlier stages, such as a race
        series: dict[str, Any] = {
            "train_loss": [(before + samples / size, loss) for samples, loss in trained.result.curve],
            **bench.series,
            **trained.series,
        }
        return {name: [[float(x), float(y)] for x, y in points if math.isfinite(y)] for name, points in series.items()}


def _roles(role: str, digest: str, parts: Sequence[str]) -> dict[str, str]:
    return {role: digest, **{f"{role}/{number}": part for number, part in enumerate(parts)}}


class _changed:
    """A network under the circumstances of a probe, and afterwards as it was."""

    def __init__(self, network: Network, probe: ProbeSettings) -> None:
        self.network = network
        self.changes = probe.changes
        self.before: dict[str, Any] = {}

    def __enter__(self) -> None:
        for name, value in self.changes.items():
            self.before[name] = getattr(self.network, name)
            setattr(self.network, name, value)

    def __exit__(self, *error: object) -> None:
        for name, value in self.before.items():
            setattr(self.network, name, value)


def _explained(objective: str, validation: NetworkMeasurement) -> str:
    """An objective that gave no number, with the reason where its metric has one."""
    metric = OBJECTIVES.get(objective).metric
    why = validation.why(metric) if metric else ""
    return f"{objective} ({why})" if why else objective
