"""Calls of a function in a child process with limits: for libraries that read files of strangers.

A parser that crashes, hangs or takes all memory ends the child, and the caller gets a ``DataError`` that names the
file. The child answers with JSON and with bytes in shared memory, never with a pickle. It is a fork where this process
has one thread, else a new interpreter.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import json
import mmap
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple, NoReturn

from evodevo import errors
from evodevo.errors import DataError, EvodevoError
from evodevo.execution.family import die_with
from evodevo.execution.forked import is_forkable
from evodevo.execution.memory import refuse_absurd_allocations

SECONDS = 60.0
MEMORY_BYTES = 2**30
_FACTS_BYTES = 64 * 2**20
_REASON = 300
_PATIENCE = 1.0
_TOLD = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, EvodevoError)}


class Answer(NamedTuple):
    """What a limited function returned, JSON-able, and the bytes that it wrote."""

    facts: Any
    data: memoryview


Function = Callable[..., Any]
"""``function(out, *arguments)`` writes bytes into the open file ``out`` and returns what JSON can express."""


def limited(
    function: Function,
    arguments: Sequence[Any],
    *,
    what: str,
    fault: str = "cannot be read",
    seconds: float = SECONDS,
    memory_bytes: int = MEMORY_BYTES,
    most_bytes: int = 0,
) -> Answer:
    """Call a function of a module in a child process.

    Args:
        function: A function of a module's top level.
        arguments: What it is called with behind the file, JSON-able.
        what: The file that it reads, for messages.
        fault: What is said of a file that it cannot read.
        seconds: Longest time that it may take.
        memory_bytes: Most memory that it may take.
        most_bytes: Most bytes that it may write.

    Raises:
        EvodevoError: The one that the function raised, of the same class.
        DataError: It raised another error, crashed, or reached a limit; the message names the file.
    """
    memory = os.memfd_create("evodevo", os.MFD_CLOEXEC)
    try:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        task = (function.__module__, function.__qualname__, list(arguments))
        limits = (seconds, memory_bytes, most_bytes)
        start = _fork if is_forkable() else _spawn
        with os.fdopen(reading, "rb") as answers:
            process = start(task, limits, memory, writing)
            said, status = None, 0
            try:
                said = _said(answers, time.monotonic() + seconds)
            finally:
                status = _end(process, patience=0.0 if said is None else _PATIENCE)
        message = _told(said, status, (what, fault), seconds, memory_bytes)
        size = os.fstat(memory).st_size
        data = memoryview(mmap.mmap(memory, size)) if size else memoryview(b"")
        return Answer(message["facts"], data)
    finally:
        os.close(memory)


def _end(process: int, patience: float) -> int:
    """Wait for a child that has just answered or crashed, else kill it; its wait status."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.001)
    os.kill(process, signal.SIGKILL)
    return os.waitpid(process, 0)[1]


def _said(answers: BinaryIO, deadline: float) -> bytes | None:
    """What the child said until it ended; None where time was over."""
    said = bytearray()
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([answers], [], [], left)
        if ready:
            piece = os.read(answers.fileno(), 1 << 16)
            said += piece
            if not piece or len(said) > _FACTS_BYTES:
                return bytes(said)
    return None


def _told(said: bytes | None, status: int, names: tuple[str, str], seconds: float, memory_bytes: int) -> dict[str, Any]:
    """The message of a function that returned. Raises as ``limited``."""
    what, fault = names
    if said is None:
        raise DataError(f"{what} takes longer than {seconds:g} seconds to read; it is not read.")
    try:
        message = json.loads(said)
    except (ValueError, RecursionError):
        message = None
    if isinstance(message, dict) and "facts" in message:
        return message
    if isinstance(message, dict) and isinstance(message.get("reason"), str):
        kind = _TOLD.get(str(message.get("kind")))
        if kind is not None:
            raise kind(message["reason"])
        if message.get("kind") == "MemoryError":
            raise DataError(f"{what} takes more than {memory_bytes:,} bytes of memory to read; it is not read.")
        raise DataError(f"{what} {fault}: {message['reason']}.")
    name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {status}"
    raise DataError(f"{what} {fault}: its reader ended with {name}. The file is damaged.")


def _fork(task: tuple[str, str, list[Any]], limits: tuple[float, int, int], memory: int, writing: int) -> int:
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        try:
            die_with(parent, signal.SIGKILL)
            live(task, limits, memory, writing)
        finally:
            os._exit(1)
    os.close(writing)
    return pid


def _spawn(task: tuple[str, str, list[Any]], limits: tuple[float, int, int], memory: int, writing: int) -> int:
    text = json.dumps([task, limits, memory, writing])
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()", text],
            stdin=subprocess.DEVNULL,
            pass_fds=(memory, writing),
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
    finally:
        os.close(writing)
    process.returncode = 0  # it is waited for by its id, like a fork
    return process.pid


def main() -> NoReturn:
    """The child's side where it is a new interpreter."""
    task, limits, memory, writing = json.loads(sys.argv[1])
    live(tuple(task), tuple(limits), memory, writing)


def live(task: tuple[str, str, list[Any]], limits: tuple[float, int, int], memory: int, writing: int) -> NoReturn:
    """Call the function within its limits, answer, and end this process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends this process
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # libraries print what they think of a file
            os.dup2(nowhere, stream)
        faulthandler.disable()
        sys.stdout = sys.stderr = io.StringIO()
        module, name, arguments = task
        function = getattr(importlib.import_module(module), name)
        with os.fdopen(memory, "wb", closefd=False) as out:
            _limit(*limits)
            message = {"facts": function(out, *arguments)}
            out.flush()
    except MemoryError:
        message = {"kind": "MemoryError", "reason": ""}
    except EvodevoError as error:
        message = {"kind": type(error).__name__, "reason": str(error)}
    except BaseException as error:  # a panic of a Rust library is none of Exception
        message = {"kind": "", "reason": _words(error)}
    with io.FileIO(writing, "wb", closefd=False) as answer, suppress(OSError):
        text = memoryview(json.dumps(message).encode())
        while text:
            text = text[answer.write(text) :]
    os._exit(0)


def _limit(seconds: float, memory_bytes: int, most_bytes: int) -> None:
    limits = ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, most_bytes), (resource.RLIMIT_CPU, int(seconds) + 1))
    for kind, most in limits:
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    refuse_absurd_allocations(memory_bytes // 2, may_use_cuda=False)


def _words(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text.rstrip(".")[:_REASON]
