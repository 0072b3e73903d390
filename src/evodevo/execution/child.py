"""Runs one evaluation in the process that was forked for it: isolation, limits, and the answer over a pipe."""

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
from evodevo.execution.failures import describe_exception
from evodevo.execution.family import die_with
from evodevo.execution.memory import allow_all_allocations, refuse_absurd_allocations
from evodevo.execution.protocol import Message, encode, plain, to_text
from evodevo.scratch import let_go


def live(
    job: Job,
    *,
    parent: int,
    answer: int,
    log: int,
    scratch: str,
    threads: int | None,
    evaluators: Mapping[str, Evaluator],
) -> NoReturn:
    """Evaluate one job and end this process.

    Args:
        job: Job to evaluate.
        parent: Process id of the worker that forked this process.
        answer: File descriptor for messages; nothing else is ever written to it.
        log: File descriptor for stdout and stderr.
        scratch: Folder for temporary files, which the worker removes.
        threads: Number of torch threads; None leaves them as they are.
        evaluators: Name -> function of this process; they precede the table's rows.
    """
    status = 1
    try:
        _isolate(job, parent, log, scratch)
        torch = sys.modules.get("torch")
        if torch is not None and threads is not None:
            # After the fork and not before it: the call starts torch's threads, and threads do not survive a fork.
            torch.set_num_threads(threads)
        _evaluate(job, answer, evaluators)
        status = 0
    except BaseException:  # this process must end here and never return into the worker's loop
        traceback.print_exc()
    finally:
        os._exit(status)  # without the exit handlers, which belong to the worker


def _isolate(job: Job, parent: int, log: int, scratch: str) -> None:
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
    os.environ["TMPDIR"] = tempfile.tempdir = scratch
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # a crashed torch process would leave gigabytes
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("800")  # if the machine runs out of memory, the kernel kills this process before the coordinator
    if job.memory_bytes is not None:
        refuse_absurd_allocations(job.memory_bytes)


def _evaluate(job: Job, answer: int, evaluators: Mapping[str, Evaluator]) -> None:
    process = os.getpid()
    lock = threading.Lock()

    def send(message: Message) -> None:
        frame = memoryview(encode(message))
        with lock:
            while frame:
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
    if os.getpid() == process:  # a process that the evaluator forked may come back here as well
        send(outcome)
