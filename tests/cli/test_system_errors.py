"""What the operating system refuses: one sentence and an exit code, never a traceback or a report."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evodevo.cli import output
from evodevo.cli.application import run
from evodevo.cli.failures import explain
from evodevo.cli.system_errors import translate
from evodevo.errors import ExitCode

RUN = "from evodevo.cli import main; main()"
AS_MODULE = "import runpy; runpy.run_module('evodevo.cli', run_name='__main__')"


def shell(redirection: str, *words: str, code: str = RUN) -> subprocess.CompletedProcess[str]:
    command = f'exec "$0" "$@" {redirection}'
    arguments = ["sh", "-c", command, sys.executable, "-c", code, *words]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, ExitCode.DISK_FULL),
        (errno.EDQUOT, ExitCode.DISK_FULL),
        (errno.EACCES, ExitCode.USAGE),
        (errno.EROFS, ExitCode.USAGE),
        (errno.ENOENT, ExitCode.NOT_FOUND),
        (errno.EISDIR, ExitCode.USAGE),
        (errno.EMFILE, ExitCode.INTERNAL),
        (errno.EIO, ExitCode.INTERNAL),
        (None, ExitCode.INTERNAL),
    ],
)
def test_an_error_of_the_system_is_a_sentence_with_a_code(
    number: int | None, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    error = OSError("odd") if number is None else OSError(number, "", "/some/file")
    assert explain(error, []) == code == translate(error).exit_code
    said = capsys.readouterr().err
    assert said.startswith("evodevo: ")
    assert said.count("\n") == 1
    assert "mistake of evodevo" not in said
    assert number in (None, errno.EMFILE) or "/some/file" in said


@pytest.mark.slow
def test_a_full_device_as_output_is_a_full_disk() -> None:
    for words in (["--help"], ["recipes"], ["recipes", "--json"]):
        done = shell(">/dev/full", *words)
        assert (done.returncode, done.stderr.count("\n")) == (ExitCode.DISK_FULL, 1), done.stderr
        assert "stdout" in done.stderr or "its output" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["front", "--help"], ["recipes"]])
def test_a_reader_that_has_gone_is_no_error(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as stdout:
        command = [sys.executable, "-c", RUN, *words]
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (ExitCode.SUCCESS, "")


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 20, 40])
def test_a_reader_that_leaves_in_the_middle_is_no_error(lines: int) -> None:
    assert shell(f"| head -{lines}", "fit", "--help").stderr == ""


def test_a_pipe_of_something_else_that_breaks_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe", "/some/pipe")

    monkeypatch.setattr(output, "line", broken)
    monkeypatch.setattr(output, "table", broken)
    assert run(["recipes"]) == ExitCode.INTERNAL
    assert "/some/pipe" in capsys.readouterr().err


@pytest.mark.slow
def test_closed_streams_are_no_error_and_no_place_for_a_database(tmp_path: Path) -> None:
    for redirection, said in (
        (">&-", "evodevo: stdout is closed; answers go nowhere.\n"),
        ("<&-", ""),
        (">&- 2>&-", ""),
    ):
        done = shell(redirection, "recipes")
        assert (done.returncode, done.stderr) == (0, said)
    code = (
        "import os, sys; from evodevo.cli import output; output.open_missing_streams();"
        "print('lost'); sys.exit(0 if os.open(sys.argv[1], os.O_CREAT | os.O_RDWR) > 2 else 1)"
    )
    assert shell("<&- >&- 2>&-", str(tmp_path / "store.db"), code=code).returncode == 0
    assert (tmp_path / "store.db").read_bytes() == b""
    assert shell("2>/dev/full", "nonsense").returncode == ExitCode.USAGE


@pytest.mark.parametrize("entry", [RUN, AS_MODULE], ids=["script", "module"])
def test_ctrl_c_while_commands_are_imported_is_an_interruption(entry: str) -> None:
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        f"sys.meta_path.insert(0, Interrupted())\n{entry}"
    )
    done = shell("", "recipes", code=code)
    assert (done.returncode, done.stderr) == (ExitCode.INTERRUPTED, "evodevo: interrupted.\n")


def test_errors_of_stderr_are_told_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        output.words("unheard")


def test_ctrl_c_in_a_command_is_an_interruption(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output, "line", interrupted)
    monkeypatch.setattr(output, "table", interrupted)
    assert run(["recipes"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "evodevo: interrupted.\n"
