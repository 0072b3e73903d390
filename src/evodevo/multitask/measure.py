"""The accuracy of a published path on data that played no part in its choice. No selection ever reads it.

Source: docs/spec/munet.md#tasks. On request, once for each path, outside the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evodevo import canonical
from evodevo.errors import EvaluationsFailedError, StoreDamagedError
from evodevo.execution.base import Executor
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.recorded import ACCURACY, text, weights_of
from evodevo.multitask.settings import WorkSettings
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System
from evodevo.search.dispatch import POLL_SECONDS, Dispatcher, Finished, Ticket
from evodevo.search.problem import DAMAGED, Goal, Outcome, Problem, read_answer
from evodevo.storage import Evaluation, Score


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
    request = {
        **system.library.request(known),
        "task_settings": settings.task,
        "task_key": settings.task_key,
        "training": settings.training,
        "split": split,
        "blobs": store.blobs_address,
        "cache": cache,
    }
    name, limits = f"{known.id}/{split}", system.settings.work
    dispatcher = Dispatcher(executor, limits.retries)
    dispatcher.submit(Ticket(name, 0, 1), MeasurementProblem(request, limits), request["path"], 0)
    outcome: Outcome | None = None
    while outcome is None:
        outcome = next((e.outcome for e in dispatcher.poll(POLL_SECONDS) if isinstance(e, Finished)), None)
    if outcome.reason == DAMAGED:
        raise StoreDamagedError(f"{name} cannot be measured: {outcome.detail}")
    if outcome.reason is not None:
        raise EvaluationsFailedError(f"{name} could not be measured: {outcome.reason}: {outcome.detail[-500:]}")
    lease = store.acquire(agent.id)
    try:
        attempt = store.start_evaluation(lease, known.id, split, 0)
        scores = {ACCURACY: Score(outcome.scores[ACCURACY])}
        store.finish_evaluation(lease, Evaluation(known.id, split, 0, attempt, scores=scores, extra=outcome.extra))
    finally:
        store.release(lease)
    return outcome.scores[ACCURACY]


class MeasurementProblem(Problem):
    """The measurement of one path on a split.

    Args:
        request: Input of the evaluator, plain data.
        work: Limits of the evaluation.
    """

    goals = (Goal(ACCURACY, "", "maximise"),)
    entry = "path_test"

    def __init__(self, request: Mapping[str, Any], work: WorkSettings) -> None:
        self.fidelity = request["split"]
        self.seconds, self.memory_bytes = work.seconds, work.memory_bytes
        self._request = request

    def payload(self, genome: Any, seed: int, resume: str | None = None) -> bytes:
        return canonical.dumps({**self._request, "path": genome}).encode()

    def read(self, payload: bytes) -> Outcome:
        return read_answer(payload)


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
            right, answers = (result.fact(name, text, None) for name in ("right", "answers"))
            return SplitMeasurement(value, right, answers, weights_of(result))
    return None
