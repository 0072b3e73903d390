"""Training of a growing zoo in this process: the procedure ``grow`` on samples in memory."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from evodevo.errors import UsageError
from evodevo.estimators.fitting import check_result
from evodevo.estimators.growing.plan import GrowingPlan, check, evaluation_settings
from evodevo.experiments.flop_counter import look_at_step
from evodevo.experiments.trainer import Trainer
from evodevo.experiments.trials import Trial
from evodevo.growth.procedures.grow import train_grow
from evodevo.growth.procedures.settings import check_events
from evodevo.growth.report.event_words import event_words
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.fixed import Fixed
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.tasks.in_memory import InMemoryTask
from evodevo.training.precision import decide
from evodevo.training.settings import Budget


@dataclass(frozen=True)
class Grown:
    """Result of a growth.

    Attributes:
        network: Network on the CPU, in evaluation mode.
        facts: Fact ``growth`` of the procedure, plain data.
        log: Log of the edits, format ``evodevo.edits/1``.
        parents: Weights that the log names, by digest.
        memory: Edits with their rewards.
        metric: Metric that chose the weights: ``auc``, ``accuracy``, ``loss``, or ``none``.
        best_step, steps: Step of these weights, and number of steps of the whole training.
        curve: Points with ``step``, ``loss`` and the metric, on validation samples; none without such samples.
    """

    network: ModuleZoo
    facts: dict[str, Any]
    log: bytes
    parents: dict[str, bytes]
    memory: bytes
    metric: str
    best_step: int
    steps: int
    curve: list[dict[str, float]]


def grow(structure: ZooStructure, task: InMemoryTask, growth: GrowthSettings, plan: GrowingPlan, seed: int) -> Grown:
    """Train a zoo from scratch while it grows.

    Args:
        structure: Structure of the zoo at the start.
        task: Task with the splits ``train``, ``architecture`` (the only one that growth uses) and ``validation``.
        growth, plan: Settings of growth and of training.
        seed: Seed of everything that is drawn.

    Raises:
        UsageError: An invalid parameter, a budget too small for the events, a zoo over a cap, a loss that is not
            finite.
    """
    settings = evaluation_settings(task, growth, plan)
    check(structure, settings.training, growth, plan, task.count("train"))
    arm = Trial(
        name="zoo",
        role="zoo",
        network=ModuleZooNetwork(structure=structure),
        learning_rate=settings.training.optimizer.learning_rate,
        procedure="grow",
        options=growth.model_dump(mode="json"),
    )
    report = _Printer(races=bool(growth.race.share) and growth.strategist != Fixed.name) if plan.verbose else _silent
    # The folder is for what several trainings share: a zoo of built-in extractors makes nothing of that kind.
    bench = Trainer(arm, settings, task, seed, decide(plan.device), None, report, None, Path())
    _check_flops(bench, growth)
    trained = train_grow(bench, arm.options)
    check_result(trained.result)
    bench.report_end(trained.result)
    network = cast(ModuleZoo, trained.network)  # the arm's own kind
    facts = dict(trained.extra["growth"])
    edited = (facts.get("forks") or {}).get("edits", True)  # not where a fork is required and has no room
    if growth.events.count and edited and not facts["timeline"]:
        words = "the budget ended before the first event, so that nothing could grow; give more."
        warnings.warn(words, ConvergenceWarning, stacklevel=5)
    chosen = bench.selections[-1] if bench.selections else None
    return Grown(
        network=network.to("cpu").eval(),
        facts=facts,
        log=trained.blobs["edits"],
        parents={
            name.removeprefix("parents/"): blob for name, blob in trained.blobs.items() if name.startswith("parents/")
        },
        memory=trained.blobs["edit_memory"],
        metric="none" if chosen is None else chosen["metric"],
        best_step=bench.steps if chosen is None else chosen["step"] + bench.steps - trained.result.steps,
        steps=bench.steps,
        curve=[] if chosen is None else _curve(bench.series, chosen["metric"]),
    )


def _check_flops(bench: Trainer, growth: GrowthSettings) -> None:
    """Refuse a budget of FLOPs that allows no event before anything is trained: a step of this network is counted."""
    budget, size = bench.training.budget, bench.training.batch_size
    if budget.flops is None:
        return
    batch = bench.precision.place(bench.task.fetch("train", np.arange(size)))
    assert isinstance(batch, dict), "the batch is a mapping"
    steps = int(budget.flops / look_at_step(bench.build(), batch).flops)
    if not steps:
        raise UsageError(f"a budget of {budget.flops:.3g} FLOPs is less than one step. Give more, or a smaller batch.")
    try:
        check_events(bench.training.model_copy(update={"budget": Budget(steps=steps)}), growth)
    except UsageError as error:
        raise UsageError(f"the budget holds about {steps} steps. {error}") from None


def _curve(series: Mapping[str, list[tuple[float, float]]], metric: str) -> list[dict[str, float]]:
    points: dict[float, dict[str, float]] = {}
    for name in dict.fromkeys(("loss", metric)):
        for step, value in series.get(f"validation_{name}", ()):
            points.setdefault(step, {"step": step})[name] = value
    return list(points.values())


def _silent(message: Mapping[str, Any]) -> None:
    """Ignore the messages of a training that is not verbose."""


class _Printer:
    """Prints progress: what is told of a race, each tenth of the budget after it, and each event.

    Args:
        races: Whether a race comes first, whose steps are those of several networks.
    """

    def __init__(self, *, races: bool) -> None:
        self._next = 0.1
        self._races = races

    def __call__(self, message: Mapping[str, Any]) -> None:
        if message.get("event", {}).get("name") == "race":
            self._races = False
        if "growth" in message:
            event = message["growth"]
            print(event["told"] if "told" in event else event_words(event))
        elif not self._races and message.get("share", 0.0) >= self._next:
            print(f"step {message['step']}, {message['share']:.0%} of the budget: loss {message['loss']:.4f}")
            self._next = (math.floor(message["share"] * 10) + 1) / 10
