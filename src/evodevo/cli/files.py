"""Writing of a file that the user named."""

from __future__ import annotations

import secrets
from pathlib import Path

from evodevo.cli import output
from evodevo.cli.system_errors import FULL
from evodevo.errors import DiskFullError, UsageError


def write_text(path: Path, text: str) -> None:
    """Write a text and print the path; whole or not at all, where it is a file.

    Raises:
        UsageError: It cannot be written there.
        DiskFullError: No space left; a file of this name is as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")  # a pipe, a terminal
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        if error.errno in FULL:
            raise DiskFullError(f"no space left for {path}. Free some, or name a file on another disk.") from None
        raise UsageError(f"{path} cannot be written ({error.strerror}); name another file.") from None
    output.words(f"written: {path}")


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f".{secrets.token_hex(8)}")
    try:
        draft.write_text(text, encoding="utf-8")
        if path.exists():
            draft.chmod(path.stat().st_mode & 0o777)
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
