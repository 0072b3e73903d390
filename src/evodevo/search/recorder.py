"""Recording of what evaluations report, as it arrives: one mechanism for searches and for agents of multitask systems.

An evaluation reports checkpoints and events while it works, and an outcome at its end. Each becomes one transaction of
the store at once, so that a killed coordinator loses nothing that it has seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from evodevo import canonical
from evodevo.errors import DiskFullError
from evodevo.search.answers import fault_of_blobs, fault_of_message
from evodevo.search.dispatch import Message, Ticket
from evodevo.search.problem import DISK_FULL, Outcome
from evodevo.storage import Evaluation, Lease, Store

HEARTBEAT_SECONDS = 5.0


class Recorder:
    """The record of the evaluations of one run.

    Args:
        store: Store of the records.
        lease: Write lease of the run.
    """

    def __init__(self, store: Store, lease: Lease) -> None:
        self.lease = lease
        self._store = store
        self._beat = time.monotonic()
        self._faults: dict[str, str] = {}

    @cached_property
    def _checkpoints(self) -> dict[str, str]:
        """Role -> digest of the blobs that the run itself holds."""
        return self._store.run_blobs(self.lease.run_id)

    @cached_property
    def _events(self) -> dict[tuple[str, Any, str, Any], str]:
        """Individual, number of the seed, type and name of a recorded event -> digest of its payload."""
        return {
            (row.subject, row.payload.get("seed"), row.type, row.payload.get("name")): canonical.digest(row.payload)
            for row in self._store.events(self.lease.run_id)
        }

    def checkpoint(self, ticket: Ticket) -> str | None:
        """Digest of the last checkpoint of an evaluation that was interrupted; None where it has none."""
        return self._checkpoints.get(_role(ticket))

    def message(self, message: Message) -> bool:
        """Keep the checkpoint and record the event in a live message.

        A resumed evaluation reports recorded events again. Where it had to restart and an event differs, the new one
        is recorded too: the last event of a name is the valid one.

        Returns:
            False where the same event is recorded already, or where the message is not what it should be: then nothing
            of it is kept, and ``judged`` makes the evaluation a failure.
        """
        ticket, payload = message.ticket, message.payload
        if (fault := fault_of_message(payload, self._store.blobs)) is not None:
            self._faults.setdefault(ticket.job, f"a message of the evaluation cannot be kept: {fault}")
            return False
        if "checkpoint" in payload:
            # Its manifest, and all blobs that the manifest names.
            role = _role(ticket)
            parts = {f"{role}/{number}": str(digest) for number, digest in enumerate(payload.get("blobs", ()))}
            blobs = {role: str(payload["checkpoint"]), **parts}
            self._store.attach_blobs(self.lease, blobs)
            self._checkpoints |= blobs
        if "event" not in payload:
            return True
        event = payload["event"]
        key = (ticket.individual, ticket.seed, str(event["type"]), str(event["name"]))
        facts = {**event["payload"], "seed": ticket.seed, "name": key[-1]}
        digest = canonical.digest(facts)
        if self._events.get(key) == digest:
            return False
        self._store.add_event(self.lease, key[2], ticket.individual, facts)
        self._events[key] = digest
        return True

    def judged(self, ticket: Ticket, outcome: Outcome) -> Outcome:
        """The outcome of an evaluation, or a failure where it reported or names what the store does not have."""
        fault = self._faults.pop(ticket.job, None) or fault_of_blobs(outcome.blobs, self._store.blobs)
        if fault is None or outcome.reason is not None:
            return outcome
        return Outcome(reason="exception", detail=fault, extra=outcome.extra, seconds=outcome.seconds)

    def finish(
        self,
        ticket: Ticket,
        evaluation: Evaluation,
        write: Callable[[Lease, Evaluation, Sequence[str]], object] | None = None,
        *,
        ended: bool,
    ) -> None:
        """Record the end of an evaluation, and let go of its checkpoint in the same transaction.

        Args:
            ticket: Ticket of the evaluation.
            evaluation: Row of the outcome.
            write: Transaction that records it and releases these roles of the run; None = ``Store.finish_evaluation``.
            ended: Whether it will not be continued, so that its checkpoint is of no use.

        Raises:
            DiskFullError: The evaluation found the disk full. That is no property of the genome: nothing is recorded,
                so that a resume evaluates it again.
        """
        if evaluation.reason == DISK_FULL:
            safe = "What was finished is safe"
            advice = "" if safe in evaluation.detail else f" {safe}; free some space (evodevo store gc) and resume."
            raise DiskFullError(f"{evaluation.detail}{advice}")
        role = _role(ticket)
        roles = [name for name in self._checkpoints if name == role or name.startswith(f"{role}/")] if ended else []
        if write is None:
            self._store.finish_evaluation(self.lease, evaluation, releases=roles)
        else:
            write(self.lease, evaluation, roles)
        for name in roles:
            del self._checkpoints[name]

    def heartbeat(self) -> None:
        """Confirm the lease, where that was last done ``HEARTBEAT_SECONDS`` ago."""
        if time.monotonic() - self._beat > HEARTBEAT_SECONDS:
            self._beat = time.monotonic()
            self._store.heartbeat(self.lease)


def _role(ticket: Ticket) -> str:
    """Role under which the run keeps the last checkpoint of an evaluation."""
    return f"checkpoint/{ticket.individual}/{ticket.seed}{ticket.rung}"
