"""What the process says and ends with, whatever a command does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import evodevo
from evodevo import errors
from evodevo.cli import application, failures
from evodevo.errors import ExitCode

# A command line with one more command, whose body is the script's own.
SCRIPT = """
import sys, time
from evodevo import errors
from evodevo.cli import application, output

def body():
    {body}

application.app.command("try")(body)
sys.argv = ["evodevo", "try"]
application.main()
"""


def start(body: str, **environment: str) -> subprocess.Popen[str]:
    command, both = [sys.executable, "-c", SCRIPT.format(body=body)], subprocess.PIPE
    variables = {**os.environ, "EVODEVO_DEBUG": "", **environment}
    return subprocess.Popen(command, stdout=both, stderr=both, text=True, env=variables)


def outcome(body: str, **environment: str) -> tuple[int, str, str]:
    process = start(body, **environment)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.EvodevoError) and kind is not errors.EvodevoError
]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_ours_is_one_line_and_its_exit_code(
    kind: type[errors.EvodevoError], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVODEVO_DEBUG", raising=False)
    code = failures.explain(kind("what was given,\nwhat is allowed \x1b]52;c;\x07"), [])
    seen = capsys.readouterr()
    assert code == kind.exit_code
    assert seen.err == "evodevo: what was given, what is allowed \\x1b]52;c;\\x07\n"
    assert seen.out == ""


def test_an_error_in_a_process_ends_it_with_its_code_and_debug_shows_the_traceback() -> None:
    code, out, err = outcome('raise errors.RunOwnedError("open elsewhere")')
    assert (code, out, err) == (ExitCode.RUN_OWNED, "", "evodevo: open elsewhere\n")
    code, _, err = outcome('raise errors.UsageError("no")', EVODEVO_DEBUG="1")
    assert code == ExitCode.USAGE
    assert "Traceback" in err
    assert err.endswith("evodevo: no\n")


def test_a_mistake_of_ours_is_reported_in_a_file(tmp_path: Path) -> None:
    code, out, err = outcome('raise ZeroDivisionError("by zero")', TMPDIR=str(tmp_path))
    (report,) = tmp_path.iterdir()
    assert code == ExitCode.INTERNAL
    assert out == ""
    assert err.count("\n") == 1
    assert "ZeroDivisionError" in err
    assert str(report) in err
    assert "Traceback" in report.read_text()
    assert "'try'" in report.read_text()
    assert report.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, ExitCode.TERMINATED), (signal.SIGINT, ExitCode.INTERRUPTED)]
)
def test_signals_have_their_codes_and_no_traceback(number: signal.Signals, code: ExitCode) -> None:
    process = start('output.event({"here": 1}); time.sleep(60)')
    assert process.stdout is not None
    assert process.stdout.readline() == '{"here": 1}\n'
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in err


def test_a_reader_that_has_gone_is_no_error() -> None:
    with start("for _ in range(100000): output.line('x' * 100)") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == ExitCode.SUCCESS


def test_without_arguments_it_shows_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert application.run([]) == ExitCode.SUCCESS
    shown = capsys.readouterr().out
    for command in application.app.registered_commands:
        assert command.callback is not None
        assert (command.name or command.callback.__name__) in shown


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["cots"], "Did you mean 'cost'?"),
        (["cost", "transformer++", "--lenght", "7"], "--length"),
        (["cost"], "architecture"),
        (["cost", "transformer++", "--length", "many"], "valid integer"),
        (["cost", "transformer++", "--convention", "tsar"], "star"),
    ],
)
def test_a_wrong_command_line_is_one_line_with_advice(
    arguments: list[str], wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert application.run(arguments) == ExitCode.USAGE
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.count("\n") == 1
    assert wanted.lower() in seen.err.lower()
    assert "--help" in seen.err


def test_python_minus_m_is_the_same_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert application.run(["--version"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out == f"evodevo {evodevo.__version__}\n"
    done = subprocess.run([sys.executable, "-m", "evodevo.cli", "--version"], capture_output=True, text=True)
    assert done.stdout == f"evodevo {evodevo.__version__}\n"
