"""Needs of a protocol or a search on this machine, from the static costs and a short measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from evodevo import canonical
from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.protocol import derived
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
from evodevo.tasks.text.language import LanguageTask

SAMPLES = 3
"""Random genomes that are measured beside the baselines."""
MOST_FLOPS = {"cpu": 2e11, "cuda": 1e14}
"""FLOPs of the largest step that is measured; larger ones are extrapolated by their FLOPs and tokens."""
LEAST_TOKENS = 64
LONGEST = 120.0
"""Seconds after which what was not measured is taken to be like the rest."""
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
    refusal: str = ""

    def to_json(self) -> dict[str, Any]:
        """The fields by name, with ``hours``."""
        stages = [asdict(stage) for stage in self.stages]
        hours = self.expected_seconds / 3600
        return {**asdict(self), "stages": stages, "hours": hours, "warnings": list(self.warnings)}


@dataclass(frozen=True)
class _Pace:
    """Speed and memory of one kind of network: seconds per FLOP, bytes per token, seconds before the first step, bytes
    held before there is a network."""

    seconds: float
    begin: float
    bytes: float
    base: int


def plan(settings: EvolveSettings, store: Path, cache_folder: Path | None = None) -> Plan:
    """Measure, and add up.

    Args:
        settings: settings of a protocol, or of a search alone.
        store: folder of the store, which need not exist.
        cache_folder: folder of prepared data; None is the user's.

    Raises:
        UsageError: its budget is not in tokens, or its pace could not be measured.
    """
    counted = _trainings(settings)
    evaluation = settings.evaluation
    task = LanguageTask.open(evaluation.language, cache_folder)
    space = BackboneSpace(settings.space)
    drawn = derived.baselines(settings) if isinstance(settings, ProtocolSettings) else {}
    kinds = [*drawn.values(), *(space.sample(generator(settings.study.seed, n, "plan")) for n in range(SAMPLES))]
    costs = [_cost(settings, space, genome, task, evaluation.language.context_length) for genome in kinds]
    flops_per_token = fmean(cost.flops / evaluation.language.context_length for cost in costs)
    paces = _measure(settings, task, space, kinds, flops_per_token, cache_folder)
    per_token = flops_per_token * fmean(pace.seconds for pace in paces)
    validation = min(evaluation.validation_tokens or math.inf, len(task.tokens("validation")))
    tested = len(task.tokens("test"))
    if isinstance(settings, ProtocolSettings):
        tested = min(settings.protocol.test_tokens or tested, tested)
    workers = settings.execution.workers
    begin = fmean(pace.begin for pace in paces)
    stages = []
    for name, trainings, tokens in counted:
        # A test is one forward pass; every training ends with one over the validation split.
        equivalent = _FORWARD * tested if name == "test" else tokens + _FORWARD * validation
        seconds = trainings * (begin + equivalent * per_token) / min(workers, max(1, trainings))
        stages.append(PlannedStage(name, trainings, tokens, trainings * equivalent * flops_per_token, seconds / 3600))
    parameters = max(cost.parameters + cost.embedding_parameters for cost in costs)
    training = evaluation.training
    step = training.batch_size // training.parts * evaluation.language.context_length
    activations = max(pace.bytes for pace in paces) * step
    each = int(max(pace.base for pace in paces) + 16 * parameters + activations)
    found = Plan(
        stages=tuple(stages),
        trainings=sum(stage.trainings for stage in stages if stage.stage != "test"),
        tokens=sum(stage.trainings * stage.tokens for stage in stages),
        flops=math.fsum(stage.flops for stage in stages),
        memory_bytes=workers * each,
        memory_left=memory_left(training.device),
        disk_bytes=_disk(settings, parameters),
        disk_left=disk_left(store),
        expected_seconds=3600 * math.fsum(stage.hours for stage in stages),
        workers=workers,
        flops_per_second=flops_per_token / per_token,
        warnings=_warnings(counted, len(task.tokens("train"))),
    )
    return replace(found, refusal=_refusal(settings, found, each))


def _trainings(settings: EvolveSettings) -> list[tuple[str, int, int]]:
    """(stage, trainings, mean tokens of each); rungs stop most trainings of a search early."""
    tokens = settings.evaluation.training.budget.tokens
    if tokens is None:
        raise UsageError(
            "a run is planned by its tokens, and its budget is in steps or seconds; give evaluation.training.budget."
            "tokens."
        )
    population = settings.study.population
    evaluations, rungs = population * settings.study.generations, settings.study.rungs
    each = tokens if rungs is None else round(tokens * rungs.planned(population) / population)
    if not isinstance(settings, ProtocolSettings):
        return [("search", evaluations, each)]
    stages, drawn = settings.protocol, len(derived.baselines(settings))
    rates = len(stages.learning_rates)
    several = min(stages.best, stages.finalists)
    final = several * stages.seeds + (stages.finalists - several) + (stages.controls + drawn) * stages.seeds
    return [
        ("baselines", drawn * rates, stages.tuning_tokens),
        ("search", evaluations + drawn, (evaluations * each + drawn * tokens) // (evaluations + drawn)),
        ("random", evaluations, each),
        ("tuning", (stages.finalists + stages.controls) * rates, stages.tuning_tokens),
        ("training", final, stages.final_tokens),
        ("test", final, 0),
    ]


def _measure(
    settings: EvolveSettings,
    task: LanguageTask,
    space: BackboneSpace,
    kinds: Sequence[BackboneGenome],
    flops_per_token: float,
    cache_folder: Path | None,
) -> list[_Pace]:
    evaluation, training = settings.evaluation, settings.evaluation.training
    from evodevo.training.precision import decide

    whole = training.batch_size // training.parts * evaluation.language.context_length
    most = MOST_FLOPS[decide(training.device).device.type]
    tokens = min(whole, max(LEAST_TOKENS, int(most / flops_per_token)))
    context = min(evaluation.language.context_length, tokens)
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
        }
        jobs.append(Job(f"pace/{number}", "backbone_pace", canonical.dumps(payload).encode()))
    with create_executor(settings.execution, ("torch", "networks")) as executor:
        results = run_jobs(executor, jobs, seconds=LONGEST)
    paces = []
    for number, genome in enumerate(kinds):
        result = results.get(f"pace/{number}")
        if result is None or result.payload is None:
            continue
        answer = canonical.loads(result.payload, what="a pace")
        flops = _cost(settings, space, genome, task, context).flops / context * answer["tokens"]
        paces.append(
            _Pace(answer["seconds"] / flops, answer["begin"], answer["bytes"] / answer["tokens"], answer["base"])
        )
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


def _disk(settings: EvolveSettings, parameters: int) -> int:
    """Weights that are kept, and the checkpoints of the stage that writes most; these are freed after it."""
    counted = {name: (trainings, tokens) for name, trainings, tokens in _trainings(settings)}
    training, context = settings.evaluation.training, settings.evaluation.language.context_length
    every = training.checkpoint_every

    def checkpoints(tokens: int, otherwise: int) -> int:
        return otherwise if every is None else tokens // (training.batch_size * context) // every

    if not isinstance(settings, ProtocolSettings):
        trainings, tokens = counted["search"]
        kept = 4 * parameters * trainings * settings.evaluation.keep_weights
        return kept + 12 * parameters * trainings * checkpoints(tokens, 0)
    most = max(
        trainings * checkpoints(tokens, derived.CHECKPOINTS if name == "training" else 0)
        for name, (trainings, tokens) in counted.items()
    )
    return 4 * parameters * counted["training"][0] + 12 * parameters * most


def _warnings(counted: Sequence[tuple[str, int, int]], corpus: int) -> tuple[str, ...]:
    longest = max(tokens for _, _, tokens in counted)
    if longest <= corpus:
        return ()
    times = longest / corpus
    return (f"the longest trainings read {longest:,} tokens, {times:.1f} times the {corpus:,} of the training split.",)


def _refusal(settings: EvolveSettings, found: Plan, each: int) -> str:
    """Why a run does not fit; empty where it does."""

    def size(count: int) -> str:
        return show(count, "bytes", 3)

    limit = settings.evaluation.memory_bytes
    smaller = "more parts of a batch (evaluation.training.parts), a shorter context or a smaller width"
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
