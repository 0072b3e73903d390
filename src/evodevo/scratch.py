"""Temporary folders; whoever makes one removes those of processes that have ended, so that kills leave none for ever.

Each has a file that its processes lock (``flock``, shared) for as long as they live: the kernel lets go of the lock
when the last of them ends, however it ends, so that neither a process id used again nor another container's processes
can deceive. A folder is removed only where it belongs to this user, the mark in it is ours and nobody has locked it.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "evodevo-scratch-"
MARK = ".evodevo-scratch"
_FORMAT = "evodevo.scratch/1"
_NAME = re.compile(re.escape(PREFIX) + r"\w{8}", re.ASCII)
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MARK_BYTES = 200
_held: list[int] = []


class Scratch:
    """A new temporary folder, for its owner alone, locked by this process and its forks.

    Args:
        parent: Folder in which it is made, and in which those of dead processes are removed; None = the system's.

    Attributes:
        path: Its path.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        sweep(parent)
        self.path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        self._lock = _mark(self.path)

    def become(self, path: str | os.PathLike[str]) -> None:
        """Give the folder, with all that is in it, another name, under which it stays.

        Args:
            path: A path on the same file system where nothing is.
        """
        os.rename(self.path, path)
        self._unlock()
        # Under another name no sweep looks at it: a kill before this line costs nothing.
        Path(path, MARK).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        discard(self.path)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def scratch(parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """A temporary folder for the time of the context. Raises as ``Scratch``."""
    made = Scratch(parent)
    try:
        yield Path(made.path)
    finally:
        made.remove()


def hold(folder: str) -> None:
    """Lock a folder that another process made until this process and its forks have ended, or have let it go."""
    descriptor = _opened(folder)
    if descriptor is not None:
        _held.append(descriptor)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)


def let_go() -> None:
    """In a fork that ends with its parent: leave what is held to the parent."""
    while _held:
        os.close(_held.pop())


def discard(folder: str | os.PathLike[str]) -> None:
    """Remove a folder, its mark last: what a kill in the meantime leaves is removed later. Errors are ignored."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != MARK:
                with suppress(OSError):
                    os.unlink(entry.path)
    shutil.rmtree(folder, ignore_errors=True)


def sweep(parent: str | os.PathLike[str] | None = None, *, dry_run: bool = False) -> list[Path]:
    """Remove the temporary folders of processes that have ended; what cannot be read or removed stays.

    Args:
        parent: Folder that holds them; None = the system's.
        dry_run: Whether to only find them.

    Returns:
        Paths of the folders.
    """
    place = tempfile.gettempdir() if parent is None else parent
    try:
        with os.scandir(place) as entries:
            names = sorted(entry.name for entry in entries if _NAME.fullmatch(entry.name))
    except OSError:
        return []
    return [path for path in (Path(place, name) for name in names) if _sweep_one(path, dry_run=dry_run)]


def _sweep_one(folder: Path, *, dry_run: bool) -> bool:
    try:
        facts = folder.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            return False
        lock = _opened(str(folder))
        if lock is None:
            return False
        try:
            if not _is_ours(lock, facts):
                return False
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(lock), os.lstat(folder / MARK)):
                return False  # another process removed it, and a new one has its name
            if not dry_run:
                discard(folder)
            return dry_run or not folder.exists()
        finally:
            os.close(lock)
    except OSError:  # locked by the living, or not ours to remove
        return False


def _is_ours(lock: int, folder: os.stat_result) -> bool:
    """Whether the mark is one of ours, and its lock is known to this kernel where it is held."""
    mark = os.fstat(lock)
    if not stat.S_ISREG(mark.st_mode) or mark.st_uid != folder.st_uid:
        return False
    said = os.pread(lock, _MARK_BYTES, 0).decode("utf-8", "replace").split()
    if len(said) != 2 or said[0] != _FORMAT:
        return False
    # Made under another kernel: before the last start of this machine, or by another machine in a shared folder, whose
    # locks may not be seen here. Only one kernel has a file system on a disk of its own.
    return said[1] == _kernel() or os.major(folder.st_dev) != 0


def _mark(folder: str) -> int | None:
    """Write the mark, locked before it has its name; without locks there is none, and nobody removes the folder."""
    draft = Path(folder, f"{MARK}-{secrets.token_hex(4)}")
    descriptor = None
    try:
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.write(descriptor, f"{_FORMAT} {_kernel()}\n".encode())
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.rename(draft, Path(folder, MARK))
        return descriptor
    except OSError:
        if descriptor is not None:
            os.close(descriptor)
            draft.unlink(missing_ok=True)
        return None


def _opened(folder: str) -> int | None:
    # For writing, too: on NFS an exclusive lock wants that.
    with suppress(OSError):
        return os.open(Path(folder, MARK), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return None


def _kernel() -> str:
    """Identity of the running kernel since its start; a text that equals no other where it is not told."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return secrets.token_hex(16)
