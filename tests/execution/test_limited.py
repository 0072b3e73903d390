"""A function in a limited process: its answer comes back; all else is one error with the file's name."""

from __future__ import annotations

import ctypes
import os
import time
from typing import BinaryIO

import pytest

from evodevo.errors import DataError, UnsafeFileError
from evodevo.execution import limited as limited_module
from evodevo.execution.limited import limited


def answer(out: BinaryIO, count: int) -> dict[str, int]:
    out.write(b"abc" * count)
    return {"count": count}


def misbehave(out: BinaryIO, way: str) -> None:
    if way == "hang":
        time.sleep(60)
    elif way == "memory":
        bytearray(2**33)
    elif way == "crash":
        ctypes.string_at(0)
    elif way == "leave":
        os._exit(3)
    elif way == "panic":
        raise BaseException("the library panicked")
    elif way == "refuse":
        raise UnsafeFileError("the file is refused.")
    elif way == "write":
        out.write(bytes(2**20))
    elif way == "print":
        print("to the terminal")
        raise KeyError("x")


@pytest.fixture(params=["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def _started(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "spawn":
        monkeypatch.setattr(limited_module, "is_forkable", lambda: False)
        monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))


@pytest.mark.usefixtures("_started")
def test_facts_and_bytes_come_back() -> None:
    found = limited(answer, [3], what="a", most_bytes=9)
    assert (found.facts, bytes(found.data)) == ({"count": 3}, b"abcabcabc")


@pytest.mark.usefixtures("_started")
@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("hang", "the file takes longer than 0.5 seconds"),
        ("memory", "the file takes more than 1,073,741,824 bytes of memory"),
        ("crash", "the file cannot be read: its reader ended with SIG"),
        ("leave", "the file cannot be read: its reader ended with"),
        ("panic", "the file cannot be read: the library panicked"),
        ("write", "the file cannot be read: .*too large"),
        ("print", "the file cannot be read: 'x'"),
    ],
)
def test_what_goes_wrong_is_an_error_of_the_data(way: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match=message):
        limited(misbehave, [way], what="the file", seconds=0.5 if way == "hang" else 30, most_bytes=1000)
    assert capfd.readouterr() == ("", "")


def test_memory_is_limited_on_a_machine_with_cuda_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "exists", lambda path, real=os.path.exists: path == "/dev/nvidiactl" or real(path))
    with pytest.raises(DataError, match="the file takes more than 1,073,741,824 bytes of memory"):
        limited(misbehave, ["memory"], what="the file")


def test_an_error_of_ours_keeps_its_class() -> None:
    with pytest.raises(UnsafeFileError, match=r"^the file is refused\.$"):
        limited(misbehave, ["refuse"], what="the file")
