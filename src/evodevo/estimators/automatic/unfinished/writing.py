"""Files and folders that are there whole or not at all: written beside their place, synced, and renamed to it."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from evodevo.errors import DiskFullError

DRAFT = ".draft-"
"""Beginning of the names of what is being written; what a killed process left has such a name, too."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_file(path: Path, data: bytes) -> None:
    """Write a file, or replace it.

    Raises:
        DiskFullError: No space left.
    """
    draft = _draft(path)
    with _full_disks(path):
        try:
            _write(draft, data)
            draft.replace(path)
            _sync(path.parent)
        finally:
            draft.unlink(missing_ok=True)


def write_folder(path: Path, contents: Mapping[str, bytes]) -> None:
    """Write a folder where there is none, with files of these names.

    Raises:
        DiskFullError: No space left.
    """
    draft = _draft(path)
    with _full_disks(path):
        try:
            draft.mkdir()
            for name, data in contents.items():
                _write(draft / name, data)
            _sync(draft)
            draft.rename(path)
            _sync(path.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Remove a folder: a kill leaves all of it under its name, or the rest as a draft."""
    draft = _draft(path)
    path.rename(draft)
    shutil.rmtree(draft, ignore_errors=True)


def remove_drafts(folder: Path) -> None:
    """Remove what killed processes have left half written in a folder; nobody else may be writing there."""
    for path in folder.glob(f"{DRAFT}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _draft(path: Path) -> Path:
    return path.with_name(f"{DRAFT}{secrets.token_hex(8)}")


def _write(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _full_disks(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise DiskFullError(f"no space left for {path}. What was finished is kept; free some space.") from None
