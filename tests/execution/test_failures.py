from __future__ import annotations

import errno
import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.execution.failures import clip, describe_exception, describe_exit, signal_name
from evodevo.execution.tail import Tail


class OutOfMemoryError(RuntimeError):
    """Named as torch's is."""


def chained(cause: BaseException) -> BaseException:
    error = ValueError("a candidate failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 17592186044416 bytes"
        ),
        RuntimeError("CUDA error: out of memory"),
        chained(MemoryError()),
    ],
)
def test_lack_of_memory_is_recognised(error: BaseException) -> None:
    assert describe_exception(error)[0] == "memory"


@pytest.mark.parametrize(
    "error", [ValueError("no memory of that"), RuntimeError("shapes differ"), OSError(errno.ENOENT, "x"), SystemExit(1)]
)
def test_other_exceptions_are_exceptions(error: BaseException) -> None:
    assert describe_exception(error)[0] == "exception"


def test_what_torch_says_is_recognised() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**55, dtype=torch.uint8)
    assert describe_exception(caught.value)[0] == "memory"


@pytest.mark.parametrize("number", list(signal.Signals))
def test_every_signal_has_a_reason(number: signal.Signals) -> None:
    reason, detail = describe_exit(int(number))
    assert reason in ("crash", "killed")
    assert number.name in detail or signal_name(number) in detail


def test_reasons_of_known_ends() -> None:
    assert describe_exit(signal.SIGSEGV)[0] == "crash"
    assert describe_exit(signal.SIGKILL)[0] == "killed"
    assert describe_exit(signal.SIGTERM)[0] == "killed"
    assert os.waitstatus_to_exitcode(7 << 8) == 7
    assert describe_exit(7 << 8) == ("crash", "the evaluation's process exited with status 7 before it gave an answer.")


@given(st.text(), st.integers(1, 50))
def test_clip_keeps_the_end(text: str, limit: int) -> None:
    clipped = clip(text, limit)
    assert len(clipped.encode()) <= limit
    assert text.encode("utf-8", "replace").decode().endswith(clipped)


@given(st.lists(st.binary(max_size=40)), st.integers(1, 50))
def test_a_tail_keeps_the_end_in_bounded_space(pieces: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for piece in pieces:
        tail.add(piece)
    whole = b"".join(pieces).decode("utf-8", "replace").replace("\ufffd", "?")
    text = tail.text()
    assert len(text.encode()) <= limit
    assert whole.endswith(text) or "?" in text
    ascii_only = Tail(limit)
    for piece in pieces:
        ascii_only.add(piece.hex().encode())
    assert ascii_only.text() == b"".join(pieces).hex()[-limit:]
