"""Between cycles and an executor: children go out as jobs, and come back as answers of their cycle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evodevo import canonical
from evodevo.errors import DiskFullError, StoreDamagedError, UsageError
from evodevo.execution.base import Executor, Job, Progress, Result
from evodevo.multitask.answers import Answer
from evodevo.multitask.cycle import Cycle
from evodevo.multitask.ledger import ChildRow
from evodevo.multitask.settings import WorkSettings
from evodevo.search.problem import DAMAGED, DISK_FULL

REPEATABLE = ("lost", "killed")
"""Reasons that do not depend on the child."""


@dataclass(frozen=True)
class ChildResult:
    """A child whose result is recorded."""

    cycle: Cycle
    child: ChildRow
    answer: Answer
    fate: str


@dataclass
class _OpenChild:
    cycle: Cycle
    child: ChildRow
    lost: int = 0

    @property
    def job(self) -> str:
        return f"{self.child.id}/{self.child.attempts + 1}#{self.lost}"


class ChildDispatcher:
    """The dispatch of children to an executor.

    Args:
        executor: executor of their trainings; the caller closes it.
        work: limits of each evaluation.
        places: folders of blobs and of caches, added to every payload.
    """

    def __init__(self, executor: Executor, work: WorkSettings, places: dict[str, str | None]) -> None:
        self._executor, self._work, self._places = executor, work, places
        self._open: dict[str, _OpenChild] = {}

    def __len__(self) -> int:
        return len(self._open)

    def submit(self, cycle: Cycle) -> None:
        """Send the children of a cycle that wait for a result and are not under way."""
        under_way = {child.child.id for child in self._open.values()}
        for child in cycle.waiting:
            if child.id not in under_way:
                self._send(_OpenChild(cycle, child))

    def poll(self, timeout: float) -> Iterator[ChildResult]:
        """Record what came back; waits at most ``timeout`` seconds for something."""
        for event in self._executor.poll(timeout):
            child = self._open.get(event.id)
            if child is None or isinstance(event, Progress):
                continue
            del self._open[event.id]
            if event.reason in REPEATABLE and child.lost < self._work.retries:
                child.lost += 1
                self._send(child)
                continue
            answer = _answer(child, event)
            if answer.reason == DISK_FULL:  # of no child's making: it waits until there is room
                raise DiskFullError(answer.detail)
            if answer.reason == DAMAGED and not child.cycle.lost(
                child.child
            ):  # nor this: it waits until that is settled
                raise StoreDamagedError(
                    f"path {child.cycle.agent.name}/{child.child.path.number} cannot be trained: {answer.detail} What"
                    " was recorded is safe, and the run goes on from there with the same command."
                )
            yield ChildResult(child.cycle, child.child, answer, child.cycle.tell(child.child.id, answer))

    def cancel_all(self) -> None:
        """Stop everything; what was stopped waits for a result still."""
        opened, self._open = self._open, {}
        for job in opened:
            self._executor.cancel(job)

    def _send(self, child: _OpenChild) -> None:
        payload = {**child.cycle.payload(child.child), **self._places}
        entry = child.child.row.details["entry"]
        data = canonical.dumps(payload).encode()
        self._executor.submit(Job(child.job, entry, data, self._work.seconds, self._work.memory_bytes))
        self._open[child.job] = child


def _answer(child: _OpenChild, result: Result) -> Answer:
    if result.state == "failed" or result.payload is None:
        # "lost" would mean that it is to be done again; it was, as often as the settings allow.
        reason = "killed" if result.reason in (None, "lost") else str(result.reason)
        return Answer(reason, result.detail, seconds=result.seconds)
    try:
        answer = child.cycle.read(child.child, result.payload)
    except (UsageError, LookupError, TypeError, ValueError, AttributeError) as error:
        return Answer("exception", f"the answer cannot be read: {error}", seconds=result.seconds)
    return answer
