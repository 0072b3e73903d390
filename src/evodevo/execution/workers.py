"""Executors with workers: a queue, and one connection per worker. The coordinator's side of ``evodevo/worker.py``."""

from __future__ import annotations

import selectors
import time
from abc import abstractmethod

from evodevo.errors import EvodevoError
from evodevo.execution import connection as connections
from evodevo.execution import protocol
from evodevo.execution.base import Job, Progress, Result
from evodevo.execution.connection import Connection
from evodevo.execution.failures import clip
from evodevo.execution.protocol import Message, ProtocolError
from evodevo.execution.queued import QueuedExecutor

_STILLBORN_LIMIT = 3


class WorkerExecutor(QueuedExecutor):
    """Runs up to ``workers`` jobs at a time, each in a process that its worker forks for it.

    Args:
        workers: Number of workers, at least 1.
    """

    def __init__(self, workers: int = 1) -> None:
        super().__init__(workers)
        self._selector = selectors.DefaultSelector()
        self._connections: list[Connection] = []
        self._running: dict[str, Connection] = {}
        self._stillborn = 0  # workers in a row that died before they got a job

    @abstractmethod
    def _start_worker(self) -> Connection:
        """A connection to a new worker."""

    def _wanted(self) -> int:
        """Number of workers that there should be now; where there are more, they stay."""
        return self.workers

    def _admits(self, connection: Connection, job: Job) -> bool:
        """Whether an idle worker may begin this job now."""
        return True

    def _began(self, connection: Connection) -> None:
        """Take in that a worker has just got its job."""

    def _repeats(self, connection: Connection, job: Job, result: Result) -> bool:
        """Take in the end of a job; whether this is no result of it, so that it waits again, as the first."""
        return False

    def _stop(self, id: str) -> None:
        if id in self._running:
            connection = self._running[id]
            connection.deadline = time.monotonic() + connections.GRACE_SECONDS
            connection.send({"type": "cancel", "id": id})
            self._watch(connection)

    def running(self) -> list[str]:
        return list(self._running)

    def waiting(self) -> list[str]:
        return [job.id for job in self._waiting]

    def pids(self) -> list[int]:
        """Process ids of the workers' guards."""
        return [connection.pid for connection in self._connections]

    def _submit(self, job: Job) -> None:
        self._waiting.append(job)
        self._dispatch()

    def _close(self) -> None:
        for connection in self._connections:
            connection.begin_end()
        for connection in self._connections:
            self._forget(connection)
            connection.finish_end()
        self._connections.clear()
        self._waiting.clear()
        self._running.clear()
        self._events.clear()
        self._selector.close()

    # One turn

    def _step(self, timeout: float) -> None:
        ready = self._selector.select(timeout)
        for key, mask in ready:
            connection: Connection = key.data
            if connection not in self._connections:
                continue  # removed earlier in this loop
            if key.fd == connection.stderr:
                if not connection.receive_log():
                    self._selector.unregister(connection.stderr)
            elif mask & selectors.EVENT_WRITE:
                connection.flush()
                self._watch(connection)
            else:
                self._receive(connection)
        self._end_overdue(readable={key.fd for key, _ in ready})
        self._fill()
        self._dispatch()

    def _receive(self, connection: Connection) -> None:
        try:
            messages = connection.receive()
            for message in messages or ():
                self._handle(connection, message)
        except ProtocolError as error:
            self._bury(connection, f"the worker sent nonsense ({error}).")
            return
        if messages is None:
            self._bury(connection, "the worker process died.")

    def _handle(self, connection: Connection, message: Message) -> None:
        kind = message["type"]
        if kind == "ready":
            connection.ready, connection.deadline = True, None
        elif kind == "refused":
            detail = protocol.field(message, "detail", str)
            self._remove(connection)
            raise EvodevoError(f"a worker cannot start:\n{detail}")
        elif connection.job is None or message.get("id") != connection.job.id:
            raise ProtocolError(f"{kind!r} about {str(message.get('id'))[:80]!r}, which it was not given")
        elif kind == "progress":
            self._events.append(Progress(connection.job.id, protocol.field(message, "payload", dict)))
        elif kind == "result":
            job, result = connection.job, protocol.to_result(message)
            repeats = self._repeats(connection, job, result)
            del self._running[job.id]
            connection.job = connection.deadline = None
            self._stillborn = 0
            if repeats:
                self._waiting.appendleft(job)
            else:
                self._events.append(result)
        else:
            raise ProtocolError(f"an unknown message {kind!r}")

    def _end_overdue(self, readable: set[int]) -> None:
        # A worker with data in its pipe is spared: this process may have been suspended past the deadline itself.
        now = time.monotonic()
        for connection in list(self._connections):
            if connection.deadline is not None and now > connection.deadline and connection.stdout not in readable:
                self._bury(connection, "the worker process did not answer in time.")

    # Workers come and go

    def _fill(self) -> None:
        while len(self._connections) < self._wanted():
            connection = self._start_worker()
            self._connections.append(connection)
            self._selector.register(connection.stdout, selectors.EVENT_READ, connection)
            self._selector.register(connection.stderr, selectors.EVENT_READ, connection)
            self._watch(connection)

    def _dispatch(self) -> None:
        for connection in self._connections:
            is_free = connection.ready and connection.job is None
            if self._waiting and is_free and self._admits(connection, self._waiting[0]):
                job = self._waiting.popleft()
                self._running[job.id] = connection
                connection.assign(job)
                self._began(connection)
                self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        """Wait for room in the worker's pipe exactly while data are unsent; else the selector would return at once."""
        watched = connection.stdin in self._selector.get_map()
        if connection.unsent and not watched:
            self._selector.register(connection.stdin, selectors.EVENT_WRITE, connection)
        elif watched and not connection.unsent:
            self._selector.unregister(connection.stdin)

    def _forget(self, connection: Connection) -> None:
        for fd in (connection.stdin, connection.stdout, connection.stderr):
            if fd in self._selector.get_map():
                self._selector.unregister(fd)

    def _remove(self, connection: Connection) -> None:
        self._connections.remove(connection)
        self._forget(connection)
        connection.finish_end()

    def _bury(self, connection: Connection, cause: str) -> None:
        """End a dead or useless worker; its job is lost, and ``_fill`` starts another worker."""
        self._remove(connection)
        log = connection.log.text()
        if connection.job is not None:
            del self._running[connection.job.id]
            detail = clip(f"{cause} {log}".strip())
            self._events.append(Result(connection.job.id, "failed", reason="lost", detail=detail, log=log))
            return
        if connection.served:
            return
        self._stillborn += 1
        if self._stillborn >= _STILLBORN_LIMIT:
            self._stillborn = 0
            raise EvodevoError(
                f"{_STILLBORN_LIMIT} workers in a row ended before their first job; the last one "
                f"({connection.status()}; {cause.rstrip('.')}) said:\n{log.strip() or 'nothing'}"
            )
