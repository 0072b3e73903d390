"""Forecast of an experiment's duration: each kind of network trains for a few steps first, in the same workers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.execution.base import Executor, Job
from evodevo.execution.jobs import run_jobs
from evodevo.experiments.problem import PACE, PACED_STEPS, NetworkProblem
from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.settings import training_settings
from evodevo.experiments.trials import FixedTrials, Trial
from evodevo.training.settings import TrainingSettings

LONGEST = 180.0
"""Seconds after which kinds that were not measured are taken to be like the others."""
LARGEST_SHARE = 0.05
"""Share of the steps of all trainings that may be spent on the forecast; where it takes more there is none."""
_FORWARD = 0.4
"""A forward pass as a share of a step of training."""


@dataclass(frozen=True)
class Forecast:
    """The forecast of an experiment.

    Attributes:
        trainings: number of different trainings; arms that are alike are trained once.
        expected_seconds: expected duration with these workers, in seconds; None where nothing could be measured.
        workers: number of workers.
        warnings: warnings before it begins, one sentence each.
    """

    trainings: int
    expected_seconds: float | None
    workers: int
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return {**asdict(self), "warnings": list(self.warnings)}


@dataclass(frozen=True)
class Pace:
    """Speed of an arm on this machine: seconds of a step, seconds until the first one, FLOPs of a step where they
    count."""

    step: float
    begin: float
    flops: float | None = None


def forecast(arms: Sequence[Trial], problem: NetworkProblem, executor: Executor, seed: int) -> Forecast:
    """Measure and add up.

    Args:
        arms: all trainings.
        problem: problem of the experiment.
        executor: an idle executor; it is idle again afterwards.
        seed: seed of the run.

    Raises:
        UsageError: a budget in seconds or samples that is shorter than one step, or too short for a procedure.
    """
    space = FixedTrials()
    different = list({space.hash(arm): arm for arm in arms}.values())
    kinds: dict[str, Trial] = {}
    for arm in different:
        kinds.setdefault(_kind(arm), arm)
    paces = _measure(kinds, problem, executor, seed) if _pays(kinds, different, problem) else {}
    warnings = _too_short(different, problem, paces)
    if not paces:
        return Forecast(len(different), _of_budgets(different, problem, executor), executor.workers, warnings)
    known = [pace.flops for pace in paces.values() if pace.flops]
    typical = Pace(
        sum(pace.step for pace in paces.values()) / len(paces),
        max(pace.begin for pace in paces.values()),
        sum(known) / len(known) if known else None,
    )
    total = math.fsum(_seconds(arm, problem, paces.get(_kind(arm), typical)) for arm in different)
    return Forecast(len(different), total / min(executor.workers, len(different)), executor.workers, warnings)


def _pays(kinds: Mapping[str, Trial], arms: Sequence[Trial], problem: NetworkProblem) -> bool:
    """Whether the trainings are long beside the steps that are measured; True where a budget is one of time or FLOPs,
    since its check needs the pace."""
    budgets = [training_settings(problem.settings, arm).budget for arm in arms]
    if any(one.seconds is not None or one.flops is not None for one in budgets):
        return True
    return PACED_STEPS * len(kinds) <= LARGEST_SHARE * sum(problem.steps(arm) or 0 for arm in arms)


def _of_budgets(arms: Sequence[Trial], problem: NetworkProblem, executor: Executor) -> float | None:
    """Seconds of trainings with budgets in seconds, measurements left out; None where a training has no such budget."""
    budgets = [training_settings(problem.settings, arm).budget.seconds for arm in arms]
    known = [seconds for seconds in budgets if seconds is not None]
    return math.fsum(known) / min(executor.workers, len(arms)) if len(known) == len(arms) else None


def _kind(arm: Trial) -> str:
    """Arms of one kind take equally long for a step."""
    parts = {"network": arm.network.model_dump(mode="json"), "task": arm.task, "batch": arm.training.get("batch_size")}
    return canonical.digest(parts)


def _too_short(arms: Sequence[Trial], problem: NetworkProblem, paces: Mapping[str, Pace]) -> tuple[str, ...]:
    """One sentence for each group of arms that will not see all training samples once."""
    reasons: dict[str, list[str]] = {}
    for arm in arms:
        training = training_settings(problem.settings, arm)
        limits = [problem.steps(arm)]
        if limits == [0]:
            raise UsageError(
                f"a budget of {training.budget.tokens:,} samples is less than one batch of {training.batch_size:,}. "
                "Raise the budget or make the batch smaller."
            )
        pace, seconds = paces.get(_kind(arm)), training.budget.seconds
        if seconds is not None and pace is not None:
            if seconds < pace.step:
                raise UsageError(
                    f"a budget of {seconds:g} s is less than one step of {arm.name}, which takes {pace.step:.2g} s "
                    "here. Raise the budget or make the batch smaller."
                )
            limits.append(int(seconds / pace.step))
        if pace is not None:
            limits.append(_of_flops(arm, training, pace))
        known = [limit for limit in limits if limit is not None]
        if not known:
            continue
        if len(known) > (limits[0] is not None):
            _check_procedure(arm, problem, training, min(known))
        task = problem.open_task(arm.task)
        samples, whole = min(known) * training.batch_size, task.count("train")
        if samples < whole and not task.overlapping:
            sentence = f"the budget holds about {samples:,} of {whole:,} training samples, {samples / whole:.2g} epochs"
            reasons.setdefault(sentence, []).append(arm.name)
    return tuple(
        f"{', '.join(dict.fromkeys(names))}: {sentence}. What is not seen is not learned from; raise the budget."
        for sentence, names in reasons.items()
    )


def _measure(kinds: dict[str, Trial], problem: NetworkProblem, executor: Executor, seed: int) -> dict[str, Pace]:
    """By kind, of those that could be measured."""
    jobs = [
        Job(f"pace/{name}", PACE, problem.payload(arm, seed), problem.seconds, problem.memory_bytes)
        for name, arm in kinds.items()
    ]
    paces = {}
    for id, result in run_jobs(executor, jobs, seconds=LONGEST).items():
        if result.payload is not None:
            answer = canonical.loads(result.payload, what="a pace")
            paces[id.removeprefix("pace/")] = Pace(float(answer["step"]), float(answer["begin"]), answer.get("flops"))
    return paces


def _of_flops(arm: Trial, training: TrainingSettings, pace: Pace) -> int | None:
    """Steps that a budget in FLOPs holds; None where there is none, or it was not measured."""
    flops = training.budget.flops
    if flops is None or not pace.flops:
        return None
    if flops < pace.flops:
        raise UsageError(
            f"a budget of {flops:.3g} FLOPs is less than one step of {arm.name}, which takes {pace.flops:.3g}. Raise "
            "the budget or make the batch smaller."
        )
    return int(flops / pace.flops)


def _check_procedure(arm: Trial, problem: NetworkProblem, training: TrainingSettings, steps: int) -> None:
    """Check a procedure's refusals of a budget in steps, for a budget in another unit of about as many steps.

    Raises:
        UsageError: too few steps.
    """
    if not steps:
        return
    budget = training.budget.model_copy(update={"steps": steps, "seconds": None, "flops": None, "tokens": None})
    about = arm.model_copy(update={"training": {**arm.training, "budget": budget.model_dump(mode="json")}})
    try:
        PROCEDURES.get(arm.procedure).check(problem.settings, about)
    except UsageError as error:
        raise UsageError(f"{arm.name}: the budget holds about {steps:,} steps here. {error}") from None


def _seconds(arm: Trial, problem: NetworkProblem, pace: Pace) -> float:
    """Seconds of one training with its measurements."""
    settings, training = problem.settings, training_settings(problem.settings, arm)
    step, begin = pace.step, pace.begin
    limits = [training.budget.seconds]
    limits += [
        None if steps is None else steps * step for steps in (problem.steps(arm), _of_flops(arm, training, pace))
    ]
    # Without any limit that is known here, FLOPs were not measured: the training itself has no forecast.
    of_training = min((limit for limit in limits if limit is not None), default=0.0)
    whole = settings.validation_samples or problem.task.count("validation")
    tested = problem.task.count("test") if settings.test_samples is None else settings.test_samples
    samples = settings.curve_points * settings.curve_samples + (2 + len(settings.probes)) * whole + tested
    return begin + of_training + samples / training.batch_size * step * _FORWARD
