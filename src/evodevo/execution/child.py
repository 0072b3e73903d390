"""Runs evaluations in a process that was forked for the first of them: isolation, limits, and answers over a pipe."""

from __future__ import annotations

import faulthandler
import io
import os
import resource
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from evodevo.execution.base import EVALUATORS, Evaluator, Job, check_answer
from evodevo.execution.device_memory import device_use
from evodevo.execution.failures import describe_exception
from evodevo.execution.family import die_with
from evodevo.execution.memory import allow_all_allocations, refuse_absurd_allocations
from evodevo.execution.process_state import ProcessState
from evodevo.execution.protocol import Decoder, Message, encode, field, plain, to_job, to_text
from evodevo.scratch import let_go

_CHUNK_BYTES = 2**18


def live(
    job: Job,
    *,
    parent: int,
    answer: int,
    log: int,
    scratch: str,
    threads: int | None,
    evaluators: Mapping[str, Evaluator],
    jobs: int | None = None,
) -> NoReturn:
    """Evaluate a job, and those that follow it, and end this process.

    Args:
        job: First job to evaluate.
        parent: Process id of the worker that forked this process.
        answer: File descriptor for messages; nothing else is ever written to it.
        log: File descriptor for stdout and stderr.
        scratch: Folder for temporary files of the first job, which the worker removes.
        threads: Number of torch threads; None leaves them as they are.
        evaluators: Name -> function of this process; they precede the table's rows.
        jobs: File descriptor from which further jobs come, each with its folder, until its end; None = the first alone.
    """
    status = 1
    try:
        _isolate(parent, log)
        torch = sys.modules.get("torch")
        if torch is not None and threads is not None:
            # After the fork and not before it: the call starts torch's threads, and threads do not survive a fork.
            torch.set_num_threads(threads)
        if jobs is None:
            _begin(job, scratch)
            _evaluate(job, answer, evaluators)
        else:
            _evaluate_all(job, scratch, jobs, answer, evaluators)
        status = 0
    except BaseException:  # this process must end here and never return into the worker's loop
        traceback.print_exc()
    finally:
        os._exit(status)  # without the exit handlers, which belong to the worker


def _evaluate_all(job: Job, scratch: str, jobs: int, answer: int, evaluators: Mapping[str, Evaluator]) -> None:
    """Evaluate one job after the other, until there is no other, or one leaves this process in doubt."""
    process_state, decoder = ProcessState(), Decoder()
    _begin(job, scratch)
    while _evaluate(job, answer, evaluators, process_state):
        process_state.put_back()
        message = _next(jobs, decoder)
        if message is None:
            return
        job = to_job(message)
        _begin(job, field(message, "scratch", str))


def _next(jobs: int, decoder: Decoder) -> Message | None:
    """The next job's message; None where none will come."""
    while data := os.read(jobs, _CHUNK_BYTES):
        for message in decoder.feed(data):
            return message  # the worker sends another one only after this one's end
    return None


def _isolate(parent: int, log: int) -> None:
    os.setsid()  # a process group that can be killed as a whole, without a terminal
    die_with(parent, signal.SIGKILL)
    let_go()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")  # a crash must not lose earlier output
    faulthandler.enable(file=2)
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # a crashed torch process would leave gigabytes
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("800")  # if the machine runs out of memory, the kernel kills this process before the coordinator


def _begin(job: Job, scratch: str) -> None:
    """Prepare this process for a job."""
    os.environ["TMPDIR"] = tempfile.tempdir = scratch
    allow_all_allocations()
    if job.memory_bytes is not None:
        refuse_absurd_allocations(job.memory_bytes)


def _evaluate(
    job: Job, answer: int, evaluators: Mapping[str, Evaluator], process_state: ProcessState | None = None
) -> bool:
    """Evaluate a job and send its outcome; whether this process may evaluate another one afterwards."""
    process = os.getpid()
    lock = threading.Lock()
    is_over = False

    def send(message: Message) -> None:
        frame = memoryview(encode(message))
        with lock:
            while frame and not is_over:  # what a thread still reports afterwards belongs to no job
                frame = frame[os.write(answer, frame) :]

    def report(payload: dict[str, Any]) -> None:
        send({"type": "progress", "payload": plain(payload)})

    try:
        evaluate = evaluators.get(job.entry) or EVALUATORS.get(job.entry)
        payload = check_answer(evaluate(job.payload, report))
        outcome: Message = {"type": "done", "payload": to_text(payload)}
    except BaseException as error:  # isolation: also SystemExit and KeyboardInterrupt are results of this job
        allow_all_allocations()
        reason, detail = describe_exception(error)
        outcome = {"type": "failed", "reason": reason, "detail": detail}
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the evaluator may have closed it
            stream.flush()
    if os.getpid() != process:  # a process that the evaluator forked may come back here as well
        return False
    fit = outcome["type"] == "done" and process_state is not None and process_state.are_known
    use = device_use()
    send({**outcome, "fit": fit, "device": None if use is None else list(use)})
    with lock:
        is_over = True
    return fit
