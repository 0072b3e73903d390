"""Needs of a protocol or a search on this machine, from the static costs and a short measurement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from evodevo import canonical
from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.protocol import derived
from evodevo.backbone.protocol.devices import DeviceProfile, profile_of
from evodevo.backbone.protocol.machine import disk_left, memory_left
from evodevo.backbone.protocol.settings import ProtocolSettings
from evodevo.backbone.search_settings import EvolveSettings
from evodevo.backbone.space import BackboneSpace
from evodevo.errors import UsageError
from evodevo.execution.base import Job
from evodevo.execution.jobs import run_jobs
from evodevo.operators.cost import Cost
from evodevo.randomness import generator
from evodevo.report.charts.numbers import show
from evodevo.runs.drive import create_executor
from evodevo.tasks.base import Split
from evodevo.tasks.text.language import LanguageTask

SAMPLES = 3
"""Random genomes that are measured beside the baselines."""
MOST_FLOPS = {"cpu": 2e11, "cuda": 1e14}
"""FLOPs of the largest step that is measured; larger ones are counted, and timed by a roofline that it calibrates."""
LEAST_TOKENS = 64
LONGEST = 120.0
"""Seconds after which what was not measured is taken to be like the rest."""
LONGEST_COUNT = 900.0
"""The same where steps are counted operation by operation."""
_FORWARD = 1 / 3
"""A forward pass as a share of the FLOPs of a step."""


@dataclass(frozen=True)
class PlannedStage:
    """One stage.

    Attributes:
        stage: name of the stage.
        trainings: number of trainings.
        tokens: mean number of training tokens of a training, which rungs lower.
        flops: FLOPs of all its trainings, measurements included.
        hours: duration with all workers, in hours.
    """

    stage: str
    trainings: int
    tokens: int
    flops: float
    hours: float


@dataclass(frozen=True)
class Plan:
    """The needs of a run.

    Attributes:
        stages: needs by stage.
        trainings: number of trainings, evaluations of searches included.
        tokens: training tokens of all stages.
        flops: FLOPs of all stages.
        memory_bytes: largest memory of all workers together, in bytes.
        memory_left: free memory now, in bytes; None where that is not known.
        disk_bytes: largest size of what is written to the store, in bytes.
        disk_left: free bytes of the disk now.
        expected_seconds: duration with these workers, in seconds.
        workers: number of evaluations at a time.
        flops_per_second: measured speed of one worker, in FLOPs per second.
        warnings: warnings, one sentence each.
        calibrated: whether speed was measured on the device; false for published peaks of another.
        refusal: sentence with the reason why the run does not fit in memory or on the disk, and a remedy; empty where
            it does.
    """

    stages: tuple[PlannedStage, ...]
    trainings: int
    tokens: int
    flops: float
    memory_bytes: int
    memory_left: int | None
    disk_bytes: int
    disk_left: int
    expected_seconds: float
    workers: int
    flops_per_second: float
    warnings: tuple[str, ...] = ()
    calibrated: bool = True
    refusal: str = ""

    def to_json(self) -> dict[str, Any]:
        """The fields by name, with ``hours``."""
        stages = [asdict(stage) for stage in self.stages]
        hours = self.expected_seconds / 3600
        return {**asdict(self), "stages": stages, "hours": hours, "warnings": list(self.warnings)}


@dataclass(frozen=True)
class PlannedWork:
    """Trainings that a stage makes.

    Attributes:
        stage: its name.
        trainings: their number; of a test, that of the networks.
        tokens: mean number of training tokens of each, which rungs lower; 0 for a test.
        settings: sizes of the networks, and how they are trained.
        split: split that each is measured on at its end.
        measured: number of tokens of that split; None for all.
        kept: whether their weights stay in the store.
        checkpoints: number of checkpoints of each where the settings name no steps between two.
    """

    stage: str
    trainings: int
    tokens: int
    settings: EvolveSettings
    split: Split = "validation"
    measured: int | None = None
    kept: bool = False
    checkpoints: int = 0

    @property
    def checkpoints_written(self) -> int:
        """Number of checkpoints of each training."""
        evaluation = self.settings.evaluation
        every = evaluation.training.checkpoint_every
        step = evaluation.training.batch_size * evaluation.language.context_length
        return self.checkpoints if every is None else self.tokens // step // every


@dataclass(frozen=True)
class _Pace:
    """Speed and memory of one kind of network: seconds per FLOP, bytes per token, seconds before the first step, bytes
    held before there is a network; of a counted step the bytes of its whole training."""

    seconds: float
    begin: float
    bytes: float
    base: int
    memory: int | None = None


@dataclass(frozen=True)
class _Networks:
    """Networks of one size, on average; of their memory and parameters the most.

    Attributes:
        flops: FLOPs per training token.
        seconds: seconds per training token.
        begin: seconds before the first step.
        parameters: with embedding and head.
        memory: bytes of one training.
    """

    flops: float
    seconds: float
    begin: float
    parameters: int
    memory: int


def plan(
    settings: EvolveSettings,
    store: Path,
    cache_folder: Path | None = None,
    works: Sequence[PlannedWork] | None = None,
    *,
    device_profile: str | None = None,
) -> Plan:
    """Measure, and add up.

    Args:
        settings: settings of a protocol, of a search alone, or of what the works belong to.
        store: folder of the store, which need not exist.
        cache_folder: folder of prepared data; None is the user's.
        works: all trainings; those of the protocol or the search if left out.
        device_profile: name of a device that is not here (``devices.PROFILES``): nothing is measured then, and times
            are those of its published peaks.

    Raises:
        UsageError: its budget is not in tokens, its pace could not be measured, or no such device is known.
    """
    profile = None if device_profile is None else profile_of(device_profile)
    works = works_of(settings) if works is None else works
    task = LanguageTask.open(settings.evaluation.language, cache_folder)
    sizes: dict[str, _Networks] = {}
    for work in works:
        if _size(work) not in sizes:
            sizes[_size(work)] = _networks(work.settings, task, cache_folder, profile)
    workers = settings.execution.workers
    stages = []
    for work in works:
        networks = sizes[_size(work)]
        # Every training ends with a forward pass over what it is measured on; a test is nothing else.
        equivalent = work.tokens + _FORWARD * min(work.measured or math.inf, len(task.tokens(work.split)))
        seconds = work.trainings * (networks.begin + equivalent * networks.seconds)
        hours = seconds / min(workers, max(1, work.trainings)) / 3600
        flops = work.trainings * equivalent * networks.flops
        stages.append(PlannedStage(work.stage, work.trainings, work.tokens, flops, hours))
    each = max(networks.memory for networks in sizes.values())
    found = Plan(
        stages=tuple(stages),
        trainings=sum(work.trainings for work in works if work.split != "test"),
        tokens=sum(stage.trainings * stage.tokens for stage in stages),
        flops=math.fsum(stage.flops for stage in stages),
        memory_bytes=workers * each,
        memory_left=memory_left(settings.evaluation.training.device)
        if profile is None or profile.memory is None
        else workers * settings.evaluation.training.replicas * profile.memory,
        disk_bytes=_disk(works, sizes),
        disk_left=disk_left(store),
        expected_seconds=3600 * math.fsum(stage.hours for stage in stages),
        workers=workers,
        flops_per_second=fmean(networks.flops / networks.seconds for networks in sizes.values()),
        warnings=(*_warnings(works, len(task.tokens("train"))), *_uncalibrated(profile)),
        calibrated=profile is None,
    )
    return replace(found, refusal=_refusal(settings, found, each))


def search_work(settings: EvolveSettings, stage: str, evaluations: int, baselines: int = 0) -> PlannedWork:
    """The trainings of a search; rungs stop most of them early.

    Raises:
        UsageError: its budget is not in tokens.
    """
    tokens = settings.evaluation.training.budget.tokens
    if tokens is None:
        raise UsageError(
            "a run is planned by its tokens, and its budget is in steps or seconds; give evaluation.training.budget."
            "tokens."
        )
    population, rungs = settings.study.population, settings.study.rungs
    each = tokens if rungs is None else round(tokens * rungs.planned(population) / population)
    trainings = evaluations + baselines
    mean = (evaluations * each + baselines * tokens) // trainings
    evaluation = settings.evaluation
    return PlannedWork(
        stage, trainings, mean, settings, measured=evaluation.validation_tokens, kept=evaluation.keep_weights
    )


def works_of(settings: EvolveSettings) -> list[PlannedWork]:
    """All trainings of a protocol, or of a search alone.

    Raises:
        UsageError: the budget is not in tokens.
    """
    evaluations = settings.study.population * settings.study.generations
    if not isinstance(settings, ProtocolSettings):
        return [search_work(settings, "search", evaluations)]
    stages, drawn = settings.protocol, len(derived.baselines(settings))
    rates, measured = len(stages.learning_rates), settings.evaluation.validation_tokens
    searches = [search_work(settings, "search", evaluations, drawn), search_work(settings, "random", evaluations)]
    finalists, controls = stages.finalists, stages.controls
    if stages.finalists_from == "start":
        searches, finalists, controls = [], max(1, len(settings.study.start)), 0
    several = min(stages.best, finalists)
    final = several * stages.seeds + (finalists - several) + (controls + drawn) * stages.seeds
    return [
        PlannedWork("baselines", drawn * rates, stages.tuning_tokens, settings, measured=measured),
        *searches,
        PlannedWork("tuning", (finalists + controls) * rates, stages.tuning_tokens, settings, measured=measured),
        *final_works(settings, final, stages.final_tokens, stages.test_tokens),
    ]


def final_works(settings: EvolveSettings, trainings: int, tokens: int, test_tokens: int | None) -> list[PlannedWork]:
    """The trainings whose networks are tested, and the test."""
    measured = settings.evaluation.validation_tokens
    return [
        PlannedWork(
            "training", trainings, tokens, settings, measured=measured, kept=True, checkpoints=derived.CHECKPOINTS
        ),
        PlannedWork("test", trainings, 0, settings, split="test", measured=test_tokens),
    ]


def _size(work: PlannedWork) -> str:
    """What decides how long a token takes."""
    return canonical.dumps([work.settings.space.model_dump(mode="json"), work.settings.evaluation.tied])


def _networks(
    settings: EvolveSettings, task: LanguageTask, cache_folder: Path | None, profile: DeviceProfile | None
) -> _Networks:
    """Measure random genomes, and the baselines where there are some at this depth."""
    training, context = settings.evaluation.training, settings.evaluation.language.context_length
    space = BackboneSpace(settings.space)
    drawn = derived.baselines_at(settings)
    kinds = [*drawn.values(), *(space.sample(generator(settings.study.seed, n, "plan")) for n in range(SAMPLES))]
    costs = [_cost(settings, space, genome, task, context) for genome in kinds]
    flops = fmean(cost.flops / context for cost in costs)
    paces = _measure(settings, task, space, kinds, flops, cache_folder, profile)
    parameters = max(cost.parameters + cost.embedding_parameters for cost in costs)
    tokens = training.batch_size // training.parts // training.replicas * context
    # Weights, their gradients and two moments; or all of that, counted.
    each = [pace.bytes * tokens + 16 * parameters if pace.memory is None else pace.memory for pace in paces]
    return _Networks(
        flops=flops,
        seconds=flops * fmean(pace.seconds for pace in paces),
        begin=fmean(pace.begin for pace in paces),
        parameters=parameters,
        memory=training.replicas * int(max(pace.base for pace in paces) + max(each)),
    )


def _measure(
    settings: EvolveSettings,
    task: LanguageTask,
    space: BackboneSpace,
    kinds: Sequence[BackboneGenome],
    flops_per_token: float,
    cache_folder: Path | None,
    profile: DeviceProfile | None,
) -> list[_Pace]:
    evaluation, training = settings.evaluation, settings.evaluation.training
    from evodevo.training.precision import decide

    length = evaluation.language.context_length
    whole = training.batch_size // training.parts // training.replicas * length
    most = MOST_FLOPS["cpu" if profile is not None else decide(training.device).device.type]
    tokens = min(whole, max(LEAST_TOKENS, int(most / flops_per_token)))
    context = min(length, tokens)
    counted = tokens < whole or profile is not None
    language = evaluation.language.model_copy(update={"context_length": context})
    samples = tokens // context
    jobs = []
    for number, genome in enumerate(kinds):
        arm = derived.trial(settings, f"kind-{number}", genome)
        payload = {
            "arm": arm.model_dump(mode="json"),
            "training": training.model_dump(mode="json"),
            "language": language.model_dump(mode="json"),
            "task_key": task.key,
            "cache_folder": None if cache_folder is None else str(cache_folder),
            "seed": settings.study.seed,
            "samples": samples,
            "whole": {"samples": whole // length, "length": length} if counted else None,
            "profile": None if profile is None else profile.name,
            "memory_bytes": evaluation.memory_bytes,
        }
        jobs.append(Job(f"pace/{number}", "backbone_pace", canonical.dumps(payload).encode()))
    with create_executor(settings.execution, ("torch", "networks")) as executor:
        results = run_jobs(executor, jobs, seconds=LONGEST_COUNT if counted else LONGEST)
    paces = []
    for number, genome in enumerate(kinds):
        result = results.get(f"pace/{number}")
        if result is None or result.payload is None:
            continue
        answer = canonical.loads(result.payload, what="a pace")
        measured = length if counted else context
        flops = _cost(settings, space, genome, task, measured).flops / measured * answer["tokens"]
        each = answer["bytes"] / answer["tokens"]
        paces.append(_Pace(answer["seconds"] / flops, answer["begin"], each, answer["base"], answer.get("memory")))
    if not paces:
        why = next((result.detail[-300:] for result in results.values()), f"no step ended within {LONGEST:g} s")
        raise UsageError(f"the pace of a training could not be measured, so that nothing can be planned: {why}")
    return paces


def _cost(
    settings: EvolveSettings, space: BackboneSpace, genome: BackboneGenome, task: LanguageTask, length: int
) -> Cost:
    """Of a training pass over one context of this length."""
    return space.cost(
        genome,
        length=length,
        mode="train",
        convention="actual",
        vocabulary=task.vocabulary,
        tied=settings.evaluation.tied,
    )


def _disk(works: Sequence[PlannedWork], sizes: Mapping[str, _Networks]) -> int:
    """Weights that are kept, and the checkpoints of the stage that writes most; these are freed after it."""
    parameters = [sizes[_size(work)].parameters * work.trainings for work in works]
    kept = sum(4 * count for work, count in zip(works, parameters, strict=True) if work.kept)
    return kept + max(12 * count * work.checkpoints_written for work, count in zip(works, parameters, strict=True))


def _warnings(works: Sequence[PlannedWork], corpus: int) -> tuple[str, ...]:
    longest = max(work.tokens for work in works)
    if longest <= corpus:
        return ()
    times = longest / corpus
    return (f"the longest trainings read {longest:,} tokens, {times:.1f} times the {corpus:,} of the training split.",)


def _uncalibrated(profile: DeviceProfile | None) -> tuple[str, ...]:
    if profile is None:
        return ()
    speed = f"{show(profile.half, 'flops', 3)} and {show(profile.bandwidth, 'bytes', 3)} a second"
    sentence = (
        f"nothing was measured: time and memory are counted for {profile.name} at its published peaks ({speed}). The "
        "estimate is uncalibrated, and its time a lower bound, since no training reaches peaks. Each worker, and each "
        "replica in it, is taken to have a device of its own."
    )
    return (sentence,)


def _refusal(settings: EvolveSettings, found: Plan, each: int) -> str:
    """Why a run does not fit; empty where it does."""

    def size(count: int) -> str:
        return show(count, "bytes", 3)

    limit = settings.evaluation.memory_bytes
    smaller = (
        "more parts of a batch (evaluation.training.parts), recomputed activations (evaluation.training.checkpointing="
        "blocks), a shorter context or a smaller width"
    )
    if limit is not None and each > limit:
        return (
            f"one training takes about {size(each)} of memory, and evaluation.memory_bytes allows {size(limit)}. Raise "
            f"that limit; or {smaller} helps."
        )
    if found.memory_left is not None and found.memory_bytes > found.memory_left:
        return (
            f"{found.workers} trainings at a time take about {size(found.memory_bytes)} of memory, and "
            f"{size(found.memory_left)} are free. Fewer workers (--workers), {smaller} helps."
        )
    if found.disk_bytes > found.disk_left:
        return (
            f"the store will take up to {size(found.disk_bytes)}, and {size(found.disk_left)} are free there. Take "
            "another --store, fewer checkpoints (evaluation.training.checkpoint_every), or free some space: "
            "evodevo store gc."
        )
    return ""
