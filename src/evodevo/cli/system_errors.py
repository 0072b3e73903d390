"""Errors of the operating system at the edge of the command line: one sentence and an exit code each."""

from __future__ import annotations

import errno
import os

from evodevo.errors import DiskFullError, EvodevoError, NotFoundError, UsageError

FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_REFUSED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))
_ABSENT = frozenset((errno.ENOENT, errno.ESTALE, errno.ENODEV, errno.ENXIO))
_WRONG_KIND = frozenset((errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EEXIST, errno.ENOTEMPTY))
_SPENT = {
    errno.EMFILE: "this process has too many open files; raise the limit (ulimit -n)",
    errno.ENFILE: "this machine has too many open files; end some other programs",
    errno.EAGAIN: "this machine has no more processes to give; end some other programs, or raise ulimit -u",
    errno.ENOMEM: "this machine has no memory left; end some other programs, or use fewer workers",
}


def translate(error: OSError) -> EvodevoError:
    """The error of evodevo for one of the system that nobody expected where it happened."""
    place = _place(error)
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in FULL:
        return DiskFullError(f"no space left for {place} ({why}). What was finished is safe; free some space.")
    if error.errno in _REFUSED:
        return UsageError(f"{place} cannot be used here ({why}); check its owner, its rights and its file system.")
    if error.errno in _ABSENT:
        return NotFoundError(f"{place} is not there ({why}).")
    if error.errno in _WRONG_KIND:
        return UsageError(f"{place} cannot be used as it is ({why}); name another one.")
    if error.errno in _SPENT:
        return EvodevoError(f"{_SPENT[error.errno]} ({why}).")
    return EvodevoError(f"the system failed at {place}: {why}.")


def _place(error: OSError) -> str:
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return " or ".join(names) if names else "its output, or a file"
