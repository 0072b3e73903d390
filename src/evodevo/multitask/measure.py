"""The accuracy of a published path on data that played no part in its choice. No selection ever reads it.

Source: docs/spec/munet.md#tasks. On request, once for each path, outside the search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evodevo import canonical
from evodevo.errors import EvaluationsFailedError, StoreDamagedError
from evodevo.execution.base import Executor, Job, Progress
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.recorded import ACCURACY
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System
from evodevo.search.problem import DAMAGED
from evodevo.storage import Evaluation, Score

ENTRY = "path_test"
FACTS = ("samples", "right", "answers", "weights")
"""Facts of a measurement that are kept beside the accuracy; see ``multitask.exact_answers``."""


def measure(
    system: System,
    known: PublishedPath,
    executor: Executor,
    *,
    split: Literal["test", "validation"] = "test",
    cache: str | None = None,
) -> float:
    """The exact accuracy of a kept path on all of a split; measured once, and read from the store from then on.

    Args:
        system: system of the path.
        known: the path; it answers a task.
        executor: executor of the measurement.
        split: split of the task's data.
        cache: folder of the workers' caches.

    Raises:
        EvaluationsFailedError: it could not be measured.
        RunOwnedError: another process holds the agent.
    """
    store = system.store
    before = measured(system, known, split=split)
    if before is not None:
        return before.accuracy
    agent = system.agent(known.path.agent)
    settings = agent_settings(agent)
    payload = {
        "path": known.path.model_dump(mode="json"),
        "components": {part.role: {"digest": part.digest} for part in known.components},
        "supports": [
            {"path": sub.path.model_dump(mode="json"), "components": {p.role: p.digest for p in sub.components}}
            for sub in (system.library.by_number(path.agent, path.number) for path in known.path.paths)
        ],
        "task": agent.task,
        "task_settings": settings.task,
        "task_key": settings.task_key,
        "training": settings.training,
        "split": split,
        "blobs": str(store.blobs_folder),
        "cache": cache,
    }
    answer = _ask(executor, f"{known.id}/{split}", payload, system)
    lease = store.acquire(agent.id)
    try:
        attempt = store.start_evaluation(lease, known.id, split, 0)
        scores = {ACCURACY: Score(float(answer["accuracy"]))}
        facts = {key: answer[key] for key in FACTS if key in answer}
        store.finish_evaluation(lease, Evaluation(known.id, split, 0, attempt, scores=scores, extra=facts))
    finally:
        store.release(lease)
    return float(answer["accuracy"])


@dataclass(frozen=True)
class SplitMeasurement:
    """The measured answers of a path to all of a split.

    Attributes:
        accuracy: accuracy over all samples, 0 to 1.
        right: the samples that it answered rightly, packed by ``experiments.correct_bits``; None for an old record.
        answers: SHA-256 of all its answers: equal where two paths answer alike.
        weights: for a multipath model, mean weight of each path over samples, the main one first.
    """

    accuracy: float
    right: str | None
    answers: str | None
    weights: tuple[float, ...] | None


def measured(
    system: System, known: PublishedPath, *, split: Literal["test", "validation"] = "test"
) -> SplitMeasurement | None:
    """The recorded result of ``measure``; None where it has not measured this path on this split."""
    for result in system.store.systems.evaluations_of([known.id])[known.id]:
        if result.fidelity == split and result.state == "done" and (value := result.scores[ACCURACY].value) is not None:
            weights = result.extra.get("weights")
            shares = None if weights is None else tuple(map(float, weights))
            return SplitMeasurement(value, result.extra.get("right"), result.extra.get("answers"), shares)
    return None


def _ask(executor: Executor, name: str, payload: dict[str, Any], system: System) -> dict[str, Any]:
    work = system.settings.work
    executor.submit(Job(name, ENTRY, canonical.dumps(payload).encode(), work.seconds, work.memory_bytes))
    while True:
        for event in executor.poll(1.0):
            if isinstance(event, Progress) or event.id != name:
                continue
            if event.payload is None:
                raise EvaluationsFailedError(f"{name} could not be measured: {event.reason}: {event.detail[-500:]}")
            answer: dict[str, Any] = canonical.loads(event.payload, what="the answer of an evaluator")
            if answer.get("reason") == DAMAGED:
                raise StoreDamagedError(f"{name} cannot be measured: {answer['detail']}")
            if answer.get("reason") is not None:
                raise EvaluationsFailedError(f"{name} could not be measured: {answer['reason']}: {answer['detail']}")
            return answer
