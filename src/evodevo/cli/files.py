"""Writing of a file that the user named."""

from __future__ import annotations

import errno
from pathlib import Path

from evodevo.cli import output
from evodevo.errors import DiskFullError, UsageError


def write_text(path: Path, text: str) -> None:
    """Write a text and print the path.

    Raises:
        UsageError: It cannot be written there.
        DiskFullError: No space left.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(f"no space left for {path}. Free some, or name a file on another disk.") from None
        raise UsageError(f"{path} cannot be written ({error.strerror}); name another file.") from None
    output.words(f"written: {path}")
