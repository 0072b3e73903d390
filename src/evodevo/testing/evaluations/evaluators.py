"""Evaluators for tests of executors; most of them do what an evaluation must not do.

They are rows ``testing.<name>`` of the table of evaluators, because a worker finds evaluators by name only.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import mmap
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from typing import Any

from evodevo.execution.base import EVALUATORS, Report
from evodevo.execution.memory import exceeds


def echo(payload: bytes, report: Report) -> bytes:
    """Its input."""
    return payload


def act(payload: bytes, report: Report) -> bytes:
    """Call the evaluator that the payload names, with its payload; both are given as JSON."""
    name, given = json.loads(payload)
    return EVALUATORS.get(f"testing.{name}")(given.encode(), report)


def progress(payload: bytes, report: Report) -> bytes:
    """Send a number of live messages; the payload is the number."""
    for step in range(int(payload)):
        report({"step": step, "loss": 1.0 / (step + 1)})
    return b"done"


def describe(payload: bytes, report: Report) -> bytes:
    """Facts of the evaluation's process, as JSON; the same in a live message."""
    parent = os.getppid()
    with open(f"/proc/{parent}/status") as file:
        threads = next(int(line.split()[1]) for line in file if line.startswith("Threads:"))
    seen: dict[str, Any] = {
        "pid": os.getpid(),
        "session": os.getsid(0),
        "parent": parent,
        "parent_threads": threads,
        "folder": os.getcwd(),
        "scratch": tempfile.gettempdir(),
        "environment": dict(os.environ),
        "stdin": sys.stdin.read(),
        "torch": "torch" in sys.modules,
        "open": len(os.listdir("/proc/self/fd")) - 1,
    }
    report(seen)
    return json.dumps(seen).encode()


def disturb(payload: bytes, report: Report) -> bytes:
    """Facts of the process as an evaluation finds it, as JSON; then everything is changed that a next one could see.

    The payload names a library to load, or is empty.
    """
    if payload:
        importlib.import_module(payload.decode())
    torch = sys.modules.get("torch")
    found: dict[str, Any] = {
        "pid": os.getpid(),
        "folder": os.getcwd(),
        "environment": sorted(set(os.environ) - {"TMPDIR"}),
        "path": sys.path,
        "random": random.random(),
        "umask": os.umask(0o077),
        "alarm": signal.getsignal(signal.SIGALRM) == signal.SIG_DFL,
        "streams": sys.stdout is not sys.stderr,
        "warnings": len(warnings.filters),
    }
    print(f"seen by {os.getpid()}")
    if torch is not None:
        found |= {
            "draws": [torch.rand(()).item(), sys.modules["numpy"].random.random()],
            "format": str(torch.get_default_dtype()),
            "device": str(torch.get_default_device()),
            "gradients": torch.is_grad_enabled(),
            "products": torch.get_float32_matmul_precision(),
            "choice": torch.backends.cudnn.benchmark,
        }
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_grad_enabled(False)
        torch.set_float32_matmul_precision("medium")
        torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
    os.chdir("/")
    os.environ["LEFT_BEHIND"] = "1"
    sys.path.insert(0, "/nowhere")
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    warnings.simplefilter("error")
    sys.stdout = sys.stderr
    return json.dumps(found).encode()


def use_scratch(payload: bytes, report: Report) -> bytes:
    """Leaves files behind; the answer is the name of their folder."""
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "left.txt"), "w") as file:
        file.write("left behind")
    return folder.encode()


def matmul(payload: bytes, report: Report) -> bytes:
    """A product of matrices that is large enough for torch to use all its threads."""
    import torch

    a = torch.ones(512, 512)
    result = {"sum": float((a @ a).sum()), "threads": torch.get_num_threads()}
    return json.dumps(result).encode()


def use_cuda(payload: bytes, report: Report) -> bytes:
    """The process's id and the sum of a product of two random matrices of that size on a CUDA device, as JSON."""
    import torch

    torch.manual_seed(0)
    left, right = (torch.randn(int(payload), int(payload), device="cuda") for _ in range(2))
    return json.dumps({"pid": os.getpid(), "sum": (left @ right).double().sum().item()}).encode()


def nan(payload: bytes, report: Report) -> bytes:
    """A loss that is not a number, live and in the answer."""
    report({"loss": float("nan"), "losses": [1.0, float("inf")]})
    return b'{"loss": null}'


def print_a_lot(payload: bytes, report: Report) -> bytes:
    """Write a number of bytes to stdout, then a last line to stderr; the payload is the number."""
    line = "x" * 4095
    for _ in range(int(payload) // 4096):
        print(line)
    print("the last line", file=sys.stderr)
    return b"printed"


def sleep(payload: bytes, report: Report) -> bytes:
    """Sleep; the payload is the number of seconds."""
    time.sleep(float(payload))
    return payload


def fail(payload: bytes, report: Report) -> bytes:
    """Raises ValueError with the payload as its message."""
    print("before the failure")
    raise ValueError(payload.decode())


def not_bytes(payload: bytes, report: Report) -> bytes:
    """Returns a wrong type."""
    return {"score": 1}  # type: ignore[return-value]


def exit(payload: bytes, report: Report) -> bytes:
    """Ends the process without an answer."""
    print("before the exit")
    os._exit(7)


def crash(payload: bytes, report: Report) -> bytes:
    """Reads from address 0."""
    print("before the crash")
    ctypes.string_at(0)
    return b"unreachable"


def abort(payload: bytes, report: Report) -> bytes:
    """As a failed assertion in C does."""
    os.abort()


def hang(payload: bytes, report: Report) -> bytes:
    """Send the process id, then never return."""
    report({"pid": os.getpid(), "parent": os.getppid()})
    while True:
        time.sleep(3600)


def ignore_sigterm_and_hang(payload: bytes, report: Report) -> bytes:
    """Never returns and takes no hint."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return hang(payload, report)


def memory(payload: bytes, report: Report) -> bytes:
    """The bytes of memory that its process is charged, as the limit counts them."""
    return str(exceeds([os.getpid()], -1)).encode()


def allocate(payload: bytes, report: Report) -> bytes:
    """Take and touch a number of bytes, 8 MiB at a time, and keep them for a while; the payload is the number."""
    kept = []
    for _ in range(int(payload) // 2**23):
        kept.append(mmap.mmap(-1, 2**23, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        kept[-1].write(b"\1" * 2**23)
    time.sleep(0.5)
    return b"allocated"


def allocate_at_once(payload: bytes, report: Report) -> bytes:
    """Take a number of bytes in one piece; the payload is the number."""
    return str(len(bytearray(int(payload)))).encode()


def fork_grandchild(payload: bytes, report: Report) -> bytes:
    """Leaves three processes behind: in its group, in a session of its own, and as a daemon of a dead parent.

    They print nothing, ignore SIGTERM and hold the evaluation's output open. The answer is their process ids. The
    payload ``hang`` makes the evaluation hang afterwards.
    """
    pids = [_leave(session=False), _leave(session=True), _leave(session=True, daemon=True)]
    report({"pid": os.getpid(), "parent": os.getppid(), "pids": pids})
    while payload == b"hang":
        time.sleep(3600)
    return json.dumps(pids).encode()


def _leave(*, session: bool, daemon: bool = False) -> int:
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        if daemon and os.fork() != 0:
            os._exit(0)
        if session:
            os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(writer, str(os.getpid()).encode())
        while True:
            time.sleep(3600)
    pid = int(os.read(reader, 32))
    if daemon:
        os.waitpid(middle, 0)
    os.close(reader)
    os.close(writer)
    return pid


def kill_worker(payload: bytes, report: Report) -> bytes:
    """Kills the process that forked it."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(3600)
    return b"unreachable"
