"""The probes of an agent as a problem for the dispatcher: one job for all paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.recorded import CPU_SECONDS
from evodevo.multitask.settings import AgentSettings, WorkSettings
from evodevo.multitask.transfer.table import TRANSFER, TransferTable
from evodevo.search.problem import Outcome, Problem, read_answer
from evodevo.settings import validate

ENTRY = "path_transfer"
TABLE = "table"
"""Fact of the answer: a ``TransferTable``."""


class TransferProblem(Problem):
    """The linear probes of paths on the training samples of one task.

    Args:
        paths: Probed paths.
        agent: Name of the agent.
        task: Name of its task.
        settings: Settings of the agent.
        view: Publications that it sees.
        seed: Seed of the choice of samples and folds.
        work: Limits of the evaluation.
        places: Folders of the pool of blobs and of caches.
    """

    goals = ()
    fidelity = TRANSFER
    entry = ENTRY

    def __init__(
        self,
        paths: Sequence[PublishedPath],
        agent: str,
        task: str,
        settings: AgentSettings,
        view: int,
        seed: int,
        work: WorkSettings,
        places: Mapping[str, str | None],
    ) -> None:
        self.seconds, self.memory_bytes = work.seconds, work.memory_bytes
        self._names = {known.path.id for known in paths}
        self._request = {
            "agent": agent,
            "paths": [known.frozen for known in paths],
            "task": task,
            "task_settings": settings.task,
            "task_key": settings.task_key,
            "training": settings.training,
            "view": view,
            "seed": seed,
            **places,
        }

    def payload(self, genome: Any, seed: int, resume: str | None = None) -> bytes:
        return canonical.dumps(self._request).encode()

    def read(self, payload: bytes) -> Outcome:
        """The outcome; its fact ``table`` is the table.

        Raises:
            UsageError: The answer is about other paths.
        """
        outcome = read_answer(payload)
        if outcome.reason is None:
            table = table_of(outcome)
            if {row.path for row in table.rows} != self._names:
                raise UsageError(f"it probed {sorted(row.path for row in table.rows)}, not {sorted(self._names)}.")
        return outcome


def table_of(outcome: Outcome) -> TransferTable:
    """The table of an answer.

    Raises:
        UsageError: It holds none.
    """
    facts = dict(outcome.extra)
    worked = {CPU_SECONDS: facts[CPU_SECONDS]} if CPU_SECONDS in facts else {}
    return validate(TransferTable, {**facts.get(TABLE, {}), **worked}, what="a table of probes")
