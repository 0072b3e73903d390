from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from evodevo.execution.protocol import Decoder, encode


def command(scratch: Path) -> list[str]:
    return [sys.executable, "-m", "evodevo.worker", str(os.getpid()), str(scratch)]


def test_by_hand_it_says_what_it_is_for() -> None:
    finished = subprocess.run([sys.executable, "-m", "evodevo.worker"], capture_output=True, text=True, timeout=60)
    assert finished.returncode == 2
    assert "evodevo evolve" in finished.stderr


def test_without_a_coordinator_it_ends_and_removes_its_folder(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    finished = subprocess.run(command(scratch), input=b"", capture_output=True, timeout=60)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"", b"")
    assert not scratch.exists()


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"preload": ["os"]}, "unknown preload 'os'"),  # a message names a row, never a module
        ({"preload": ["broken"]}, "broken on purpose"),
        ({"packages": ["pip"]}, "adds no row"),
    ],
)
def test_a_start_that_fails_is_told(start: dict[str, list[str]], words: str, tmp_path: Path) -> None:
    # The pipe stays open until the answer has come, as a coordinator's does.
    process = subprocess.Popen(
        command(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode({"type": "start", "threads": 1, "preload": [], "packages": []} | start))
        process.stdin.flush()
        (message,) = Decoder().feed(process.stdout.read())
    assert message["type"] == "refused"
    assert words in message["detail"]


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([struct.pack(">I", 2**31)], "2147483648 bytes"),
        ([struct.pack(">I", 3) + b"no!"], "not JSON"),
        ([encode({"type": "start", "threads": "many"})], "threads"),
    ],
)
def test_a_malformed_start_ends_it_with_a_clear_error(frames: list[bytes], words: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"".join(frames))
        process.stdin.flush()
        said = process.stderr.read().decode()
        assert process.wait(timeout=60) == 1
    assert words in said


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, evodevo.worker; print(sorted({'torch', 'numpy', 'pydantic', 'sqlalchemy'} & set(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert finished.stdout.strip() == "[]"
