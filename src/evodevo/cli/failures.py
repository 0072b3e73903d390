"""Errors of commands: from an exception to one clear line and a documented exit code (docs/command-line.md)."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from pathlib import Path

from evodevo import __version__
from evodevo.cli.output import one_line, words
from evodevo.cli.system_errors import translate
from evodevo.errors import EvodevoError, ExitCode

DEBUG = "EVODEVO_DEBUG"


class TerminatedError(BaseException):
    """SIGTERM. Not an ``Exception``, so that nothing on its way out takes it for a failure."""


def explain(error: BaseException, arguments: list[str]) -> ExitCode:
    """Print on stderr what went wrong; a traceback is shown only where ``EVODEVO_DEBUG=1``.

    Args:
        error: Exception that ended the command.
        arguments: Arguments of the command line, for the report of an error in evodevo itself.

    Returns:
        The exit code of the process.
    """
    if isinstance(error, KeyboardInterrupt):
        words("evodevo: interrupted.")
        return ExitCode.INTERRUPTED
    if isinstance(error, TerminatedError):
        words("evodevo: terminated.")
        return ExitCode.TERMINATED
    if debugging():
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, OSError):
        error = translate(error)
    if isinstance(error, EvodevoError):
        words(f"evodevo: {one_line(error, 4000)}")
        return error.exit_code
    kind = type(error).__name__
    words(
        f"evodevo: unexpected {kind}: {one_line(error, 500)}. This is a mistake of evodevo; {_report(error, arguments)}"
    )
    return ExitCode.INTERNAL


def debugging() -> bool:
    """Whether the environment variable requests tracebacks."""
    return os.environ.get(DEBUG, "") not in ("", "0")


def _report(error: BaseException, arguments: list[str]) -> str:
    lines = [
        f"evodevo {__version__}, python {platform.python_version()}, {platform.platform()}",
        f"arguments: {arguments!r}",
        "",
        *traceback.format_exception(error),
    ]
    try:
        descriptor, name = tempfile.mkstemp(prefix="evodevo-error-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("\n".join(lines))
    except OSError:
        return f"set {DEBUG}=1 to see where it happened."
    return f"the report is in {Path(name)}"
