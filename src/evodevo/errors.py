"""Every error that evodevo raises on purpose, with its exit code.

An error message states what was given, what is allowed, and what to do next. The command line prints it on stderr
and exits with ``error.exit_code``; a library user catches the class.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the process; stable, documented in docs/command-line.md, tested."""

    SUCCESS = 0
    INTERNAL = 1
    USAGE = 2
    NOT_FOUND = 3
    TARGET_NOT_MET = 4
    EVALUATIONS_FAILED = 5
    RUN_OWNED = 6
    STORE_DAMAGED = 7
    DISK_FULL = 8
    UNSAFE = 9
    VERIFICATION_FAILED = 10
    INTERRUPTED = 130
    TERMINATED = 143


class EvodevoError(Exception):
    """Base class of all errors that evodevo raises on purpose."""

    exit_code: ExitCode = ExitCode.INTERNAL


class UsageError(EvodevoError, ValueError):
    """Unusable input from the user: settings, names, genome text, data."""

    exit_code = ExitCode.USAGE


class GenomeError(UsageError):
    """A genome that is not a member of the space."""


class DataError(UsageError):
    """A data set that is empty, unreadable, or too small for the request."""


class MissingExtraError(UsageError):
    """An optional dependency is needed; the message holds the command that installs it."""


class NotFoundError(EvodevoError, LookupError):
    """A run, individual, system or file that does not exist."""

    exit_code = ExitCode.NOT_FOUND


class EvaluationsFailedError(EvodevoError):
    """More evaluations failed than the settings allow, or none succeeded."""

    exit_code = ExitCode.EVALUATIONS_FAILED


class RunOwnedError(EvodevoError):
    """The run is open in another living process."""

    exit_code = ExitCode.RUN_OWNED


class StoreDamagedError(EvodevoError):
    """A database or a blob that differs from what was written; ``evodevo repair`` is the next step."""

    exit_code = ExitCode.STORE_DAMAGED


class StoreVersionError(UsageError):
    """The store was written by a newer evodevo."""


class DiskFullError(EvodevoError):
    """No space left on the disk; everything finished before is stored safely."""

    exit_code = ExitCode.DISK_FULL


class BlobsUnreachableError(DiskFullError):
    """The object store with the blobs does not answer, or refuses; everything finished before is stored safely."""


class UnsafeFileError(EvodevoError):
    """A file that is refused without being loaded: wrong format, over a limit, outside its folder."""

    exit_code = ExitCode.UNSAFE


class VerificationError(EvodevoError):
    """An exported artefact whose outputs differ from those of its source; the artefact was deleted."""

    exit_code = ExitCode.VERIFICATION_FAILED


def quoted_list(names: Iterable[object]) -> str:
    """The names, separated by commas in the order given, for the end of an error message."""
    return ", ".join(str(name) for name in names)


def unknown_name(kind: str, given: str, allowed: Iterable[str]) -> UsageError:
    """The error for a name that is not in a table; its message has the given name, the nearest one and all of them."""
    names = sorted(allowed)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UsageError(f"unknown {kind} {given!r}.{hint} Known: {quoted_list(names) or 'none'}.")


def missing_extra(package: str, extra: str, purpose: str) -> MissingExtraError:
    """The error for an optional dependency that is not installed."""
    return MissingExtraError(
        f"{purpose} needs the package {package!r}. Install it with: pip install 'evodevo[{extra}]'"
    )
