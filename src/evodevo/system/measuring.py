"""How good a published path is on data that played no part in its choice. Nothing that selects ever reads it.

Specification ``munet.md`` part 6, point 17: on request, once for each path, outside the search.
"""

from __future__ import annotations

from typing import Any, Literal

from evodevo import canonical
from evodevo.errors import EvaluationsFailedError
from evodevo.execution.base import Executor, Job, Progress
from evodevo.settings import validate
from evodevo.storage import Evaluation, Score
from evodevo.system.base import Known
from evodevo.system.core import System
from evodevo.system.recorded import ACCURACY
from evodevo.system.settings import AgentSettings

ENTRY = "path_test"


def measure(
    system: System,
    known: Known,
    executor: Executor,
    *,
    split: Literal["test", "validation"] = "test",
    cache: str | None = None,
) -> float:
    """The exact accuracy of a kept path on all of a split; measured once, and read from the store from then on.

    Args:
        system: whose path it is.
        known: the path; it answers a task.
        executor: where it is measured.
        split: of the task's data.
        cache: folder of the workers' caches.

    Raises:
        EvaluationsFailedError: it could not be measured.
        RunOwnedError: another process holds the agent.
    """
    store = system.store
    for one in store.systems.evaluations_of([known.id])[known.id]:
        if one.fidelity == split and one.state == "done" and (value := one.scores[ACCURACY].value) is not None:
            return value
    agent = system.agent(known.path.agent)
    settings = validate(AgentSettings, agent.settings, what=f"settings of {agent.name}")
    payload = {
        "path": known.path.model_dump(mode="json"),
        "components": {part.role: {"digest": part.digest} for part in known.components},
        "supports": [
            {"path": sub.path.model_dump(mode="json"), "components": {p.role: p.digest for p in sub.components}}
            for sub in (system.library.by_number(one.agent, one.number) for one in known.path.paths)
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
        facts = {"samples": answer["samples"]}
        store.finish_evaluation(lease, Evaluation(known.id, split, 0, attempt, scores=scores, extra=facts))
    finally:
        store.release(lease)
    return float(answer["accuracy"])


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
            if answer.get("reason") is not None:
                raise EvaluationsFailedError(f"{name} could not be measured: {answer['reason']}: {answer['detail']}")
            return answer
