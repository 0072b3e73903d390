"""Classification of failures: from an exception or an exit status to the recorded reason and detail."""

from __future__ import annotations

import errno
import os
import signal
import traceback

from evodevo.execution.base import DETAIL_BYTES, Reason

_SELF_INFLICTED = {
    signal.SIGSEGV,
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGTRAP,
    signal.SIGSYS,
}
# torch.OutOfMemoryError (GPU) has a name of its own; torch's CPU allocator raises a RuntimeError, recognisable only by
# its text.
_OUT_OF_MEMORY_TYPES = {"OutOfMemoryError"}
_OUT_OF_MEMORY_TEXTS = ("not enough memory", "can't allocate memory", "cannot allocate memory", "out of memory")


def clip(text: str, limit: int = DETAIL_BYTES) -> str:
    """The last ``limit`` bytes of a text (as UTF-8), cut between characters."""
    raw = text.encode("utf-8", "replace")
    return raw.decode() if len(raw) <= limit else raw[-limit:].decode("utf-8", "ignore")


def describe_exception(error: BaseException) -> tuple[Reason, str]:
    """Reason and detail for an exception that an evaluator raised."""
    reason: Reason = "memory" if _is_out_of_memory(error) else "exception"
    return reason, clip("".join(traceback.format_exception(error)).rstrip())


def _is_out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if any(kind.__name__ in _OUT_OF_MEMORY_TYPES for kind in type(error).__mro__):
            return True
        if isinstance(error, RuntimeError) and any(text in str(error).lower() for text in _OUT_OF_MEMORY_TEXTS):
            return True
        error = error.__cause__
    return False


def describe_exit(status: int) -> tuple[Reason, str]:
    """Reason and detail for a process that ended without an answer.

    Args:
        status: Wait status from ``os.waitpid``.
    """
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal_name(number)
        if number in _SELF_INFLICTED:
            return "crash", f"the evaluation crashed with {name}."
        hint = " (by the kernel, if the machine ran out of memory)" if number == signal.SIGKILL else ""
        return "killed", f"the evaluation was killed with {name}{hint}."
    return "crash", f"the evaluation's process exited with status {os.WEXITSTATUS(status)} before it gave an answer."


def signal_name(number: int) -> str:
    """Name of a signal, such as ``SIGSEGV (Segmentation fault)``; real-time signals have only a number."""
    try:
        return f"{signal.Signals(number).name} ({signal.strsignal(number)})"
    except ValueError:
        return f"signal {number}"
