"""The warm process of a worker, with all imports done: forks evaluations, forwards their messages, enforces limits.

It has one thread, because a fork copies only the calling thread, and runs one evaluation at a time: in a process of its
own, or, where the coordinator allows several to a process, in the last one's, if that ended well and left nothing.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NoReturn

from evodevo.execution import child, memory, protocol
from evodevo.execution.base import Evaluator, Job, Reason, Result
from evodevo.execution.environment import WORKER_FOLDER
from evodevo.execution.failures import clip, describe_exit
from evodevo.execution.family import adopt_orphans, descendants, end_descendants, reap
from evodevo.execution.preload import prepare
from evodevo.execution.protocol import Decoder, Message, ProtocolError
from evodevo.execution.signals import SignalPipe
from evodevo.execution.tail import Tail
from evodevo.scratch import discard

_CHUNK_BYTES = 2**18
_KEPT_PART = 4
"""A process that holds more than one part in so many of an evaluation's limit of memory does not take it."""
_OUTGOING_BYTES = 2**20
"""Limit of unsent bytes; above it the evaluation's pipe is not read, so that ``report`` waits for the coordinator."""


def run(scratch: str, evaluators: Mapping[str, Evaluator]) -> NoReturn:
    """Serve the coordinator over this process's stdin and stdout until it has ended, then end this process.

    Args:
        scratch: Folder for the evaluations' temporary folders, removed at the end.
        evaluators: Name -> function of this process; they precede the table's rows.
    """
    status = 1
    try:
        # The protocol gets private descriptors, and stdout becomes stderr: output of imported modules belongs to the
        # log and must not corrupt the stream of messages.
        inbox, outbox = os.dup(0), os.dup(1)
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, 0)
        os.close(nowhere)
        os.dup2(2, 1)
        _serve(inbox, outbox, scratch, evaluators)
        status = 0
    except BaseException:  # this process was forked: it must end here; its traceback is written to the worker's log
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _serve(inbox: int, outbox: int, scratch: str, evaluators: Mapping[str, Evaluator]) -> None:
    os.environ[WORKER_FOLDER] = scratch
    decoder = Decoder()
    start = _first_message(inbox, decoder)
    if start is None:
        return
    threads: int | None = protocol.field(start, "threads", (int, type(None)))
    evaluations: int = protocol.field(start, "evaluations", int) if "evaluations" in start else 1
    try:
        prepare(protocol.field(start, "preload", list), protocol.field(start, "packages", list))
    except (Exception, SystemExit):  # any failure of an import is reported to the coordinator
        frame = memoryview(protocol.encode({"type": "refused", "detail": clip(traceback.format_exc())}))
        while frame:
            frame = frame[os.write(outbox, frame) :]
    else:
        _Loop(inbox, outbox, decoder, scratch, threads, evaluations, evaluators).run()


def _first_message(inbox: int, decoder: Decoder) -> Message | None:
    while data := os.read(inbox, _CHUNK_BYTES):
        for message in decoder.feed(data):
            return message  # the coordinator sends nothing else before the answer to this one
    return None


@dataclass
class _Process:
    """A process of evaluations.

    Attributes:
        pid: Its process id.
        answer: Descriptor of its messages; None after it has closed its end.
        log: Descriptor of its output; None likewise.
        jobs: Descriptor for further jobs; None where it takes none.
        decoder: Splits its messages.
        unsent: Bytes of a further job that wait for room in its pipe.
        evaluations: Number of jobs that it was given.
    """

    pid: int
    answer: int | None
    log: int | None
    jobs: int | None
    decoder: Decoder = field(default_factory=Decoder)
    unsent: bytearray = field(default_factory=bytearray)
    evaluations: int = 1

    def flush(self) -> None:
        """Send what there is room for; one that has ended takes nothing, and its end is seen by its signal."""
        assert self.jobs is not None
        try:
            while self.unsent:
                del self.unsent[: os.write(self.jobs, memoryview(self.unsent)[:_CHUNK_BYTES])]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.unsent.clear()

    def close(self) -> None:
        """Close this end of its pipes."""
        for fd in (self.answer, self.log, self.jobs):
            if fd is not None:
                os.close(fd)
        self.answer = self.log = self.jobs = None


@dataclass
class _RunningEvaluation:
    job: Job
    process: _Process
    scratch: str
    started: float
    tail: Tail = field(default_factory=Tail)
    next_look: float = 0.0


class _Loop:
    """Event loop over the coordinator, signals, limits, and the messages and output of at most one evaluation."""

    def __init__(
        self,
        inbox: int,
        outbox: int,
        decoder: Decoder,
        scratch: str,
        threads: int | None,
        evaluations: int,
        evaluators: Mapping[str, Evaluator],
    ) -> None:
        self._inbox, self._outbox, self._decoder = inbox, outbox, decoder
        self._scratch, self._threads, self._evaluators = scratch, threads, evaluators
        self._evaluations = evaluations
        self._outgoing = bytearray()
        self._current: _RunningEvaluation | None = None
        self._idle: _Process | None = None
        self._open = True
        adopt_orphans()
        # The kernel sends SIGTERM when the guard has ended.
        self._signals = SignalPipe(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        os.set_blocking(inbox, False)
        os.set_blocking(outbox, False)

    def run(self) -> None:
        """Run until the coordinator or the guard has ended."""
        self._send({"type": "ready"})
        try:
            while self._open:
                self._wait()
                self._enforce_limits()
        finally:
            end_descendants()
            discard(self._scratch)

    # Waiting

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._inbox, select.POLLIN)
        poll.register(self._signals.fd, select.POLLIN)
        if self._outgoing:
            poll.register(self._outbox, select.POLLOUT)
        if (current := self._current) is not None:
            process = current.process
            if process.log is not None:
                poll.register(process.log, select.POLLIN)
            if process.answer is not None and len(self._outgoing) < _OUTGOING_BYTES:
                poll.register(process.answer, select.POLLIN)
            if process.jobs is not None and process.unsent:
                poll.register(process.jobs, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(self._patience())}
        if self._outbox in ready:
            self._flush()
        if current is not None:
            if process.unsent and process.jobs in ready:
                process.flush()
            if process.log in ready:
                self._read_log(current)
            if process.answer in ready:
                self._read_answer(current)
        if self._signals.fd in ready:
            self._handle_signals(self._signals.read())
        if self._inbox in ready:
            self._read_inbox()

    def _patience(self) -> float | None:
        """Milliseconds until the next check of a limit; None without a limit."""
        if self._current is None:
            return None
        moments = []
        if self._current.job.seconds is not None:
            moments.append(self._current.started + self._current.job.seconds)
        if self._current.job.memory_bytes is not None:
            moments.append(self._current.next_look)
        return max(0.0, min(moments) - time.monotonic()) * 1000 + 1 if moments else None

    def _enforce_limits(self) -> None:
        if (current := self._current) is None:
            return
        job, now = current.job, time.monotonic()
        if job.seconds is not None and now - current.started > job.seconds:
            self._stop(current, "timeout", f"the evaluation ran longer than its limit of {job.seconds:g} seconds.")
        elif job.memory_bytes is not None and now >= current.next_look:
            current.next_look = now + memory.WATCH_SECONDS
            used = memory.exceeds(descendants(os.getpid())[1:], job.memory_bytes)
            if used is not None:
                detail = f"the evaluation used {used} bytes of memory; its limit is {job.memory_bytes}."
                self._stop(current, "memory", detail)

    def _handle_signals(self, arrived: set[int]) -> None:
        if arrived - {signal.SIGCHLD}:
            self._open = False
        ended = reap() or {}
        current, idle = self._current, self._idle
        if current is not None and current.process.pid in ended:
            reason, detail = describe_exit(ended[current.process.pid])
            self._stop(current, reason, detail)
        elif idle is not None and idle.pid in ended:
            self._idle = None
            idle.close()

    # The coordinator

    def _read_inbox(self) -> None:
        try:
            data = os.read(self._inbox, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._open = False
        for message in self._decoder.feed(data):
            if message["type"] == "job":
                self._start(protocol.to_job(message))
            elif message["type"] == "cancel":
                if self._current is not None and self._current.job.id == message.get("id"):
                    self._stop(self._current, "killed", "cancelled.")
            else:
                raise ProtocolError(f"a worker does not know the message {message['type']!r}.")

    def _send(self, message: Message) -> None:
        self._outgoing += protocol.encode(message)
        self._flush()

    def _flush(self) -> None:
        try:
            while self._outgoing:
                sent = os.write(self._outbox, memoryview(self._outgoing)[:_CHUNK_BYTES])
                del self._outgoing[:sent]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._open = False

    # The evaluation

    def _start(self, job: Job) -> None:
        if self._current is not None:
            raise ProtocolError(f"job {job.id!r} came while {self._current.job.id!r} is running.")
        scratch = tempfile.mkdtemp(dir=self._scratch)
        started = time.monotonic()
        process = self._process_in_use(job)
        if process is None:
            process = self._fork(job, scratch)
        else:
            process.evaluations += 1
            assert process.jobs is not None, "only such a process stays"
            process.unsent += protocol.encode({**protocol.from_job(job), "scratch": scratch})
            process.flush()
        self._current = _RunningEvaluation(job, process, scratch, started)

    def _process_in_use(self, job: Job) -> _Process | None:
        """The process of the last evaluation, where it stays and has little enough memory for this one's limit."""
        process, self._idle = self._idle, None
        if process is None:
            return None
        limit = job.memory_bytes
        has_ended = process.pid in (reap() or {})
        if has_ended or (limit is not None and memory.exceeds([process.pid], limit // _KEPT_PART) is not None):
            end_descendants(process.pid)
            process.close()
            return None
        while _read(process.log):
            pass  # output between two evaluations belongs to none
        return process

    def _fork(self, job: Job, scratch: str) -> _Process:
        answer, answer_end = os.pipe()
        log, log_end = os.pipe()
        jobs_end, jobs = os.pipe() if self._evaluations > 1 else (None, None)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # else the child would write its copy of the buffer a second time
        warm = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._signals.release()
            for fd in (self._inbox, self._outbox, answer, log, jobs):
                if fd is not None:
                    os.close(fd)
            child.live(
                job,
                parent=warm,
                answer=answer_end,
                log=log_end,
                scratch=scratch,
                threads=self._threads,
                evaluators=self._evaluators,
                jobs=jobs_end,
            )
        for fd in (answer_end, log_end, jobs_end):
            if fd is not None:
                os.close(fd)
        for fd in (answer, log, jobs):
            if fd is not None:
                os.set_blocking(fd, False)
        return _Process(pid, answer, log, jobs)

    def _read_log(self, current: _RunningEvaluation) -> bool:
        """Read the evaluation's output; whether there were data."""
        process = current.process
        data = _read(process.log)
        if data == b"" and process.log is not None:
            os.close(process.log)
            process.log = None
        current.tail.add(data or b"")
        return bool(data)

    def _read_answer(self, current: _RunningEvaluation) -> bool:
        """Read the evaluation's messages; whether there were data and the evaluation has not ended."""
        process = current.process
        data = _read(process.answer)
        if data == b"" and process.answer is not None:
            os.close(process.answer)
            process.answer = None
        try:
            for message in process.decoder.feed(data or b""):
                if message["type"] == "progress":
                    payload = protocol.field(message, "payload", dict)
                    self._send({"type": "progress", "id": current.job.id, "payload": payload})
                else:
                    self._finish(current, _outcome(current.job, message), fit=message.get("fit") is True)
                    return False
        except ProtocolError as error:  # an evaluation that has overwritten its own memory can send anything
            self._fail(current, "crash", clip(f"the evaluation sent nonsense: {error}"))
            return False
        return bool(data)

    def _stop(self, current: _RunningEvaluation, reason: Reason, detail: str) -> None:
        """End an evaluation, unless its answer is in the pipe already."""
        while self._read_answer(current):
            pass
        if self._current is current:
            self._fail(current, reason, detail)

    def _fail(self, current: _RunningEvaluation, reason: Reason, detail: str) -> None:
        self._finish(current, Result(current.job.id, "failed", reason=reason, detail=detail))

    def _finish(self, current: _RunningEvaluation, result: Result, *, fit: bool = False) -> None:
        """Send the result of an evaluation; its process stays where it is fit for another one, and alone."""
        self._current = None
        seconds = time.monotonic() - current.started
        process = current.process
        stays = (
            fit
            and process.evaluations < self._evaluations
            and process.answer is not None
            and process.log is not None
            and descendants(os.getpid())[1:] == [process.pid]
        )
        gone = stays or end_descendants(process.pid)
        while self._read_log(current):
            pass
        if stays:
            self._idle = process
        else:
            process.close()
        shutil.rmtree(current.scratch, ignore_errors=True)
        self._send(protocol.from_result(replace(result, seconds=seconds, log=current.tail.text())))
        if not gone:
            print("an evaluation cannot be killed; this worker gives up.", file=sys.stderr)
            self._open = False


def _outcome(job: Job, message: Message) -> Result:
    """The result in an evaluation's last message, without time and output.

    Raises:
        ProtocolError: It is no such message.
    """
    device = protocol.to_device(message.get("device"))
    if message["type"] == "done":
        payload = protocol.to_bytes(protocol.field(message, "payload", str))
        return Result(job.id, "done", payload, device=device)
    reason = protocol.to_reason(protocol.field(message, "reason", str))
    return Result(job.id, "failed", None, reason, protocol.field(message, "detail", str), device=device)


def _read(fd: int | None) -> bytes | None:
    """The available bytes; None if there are none yet, empty at the end of the stream."""
    if fd is None:
        return None
    with suppress(BlockingIOError):
        return os.read(fd, _CHUNK_BYTES)
    return None
