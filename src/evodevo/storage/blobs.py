"""The pool of blobs: bytes named by their SHA-256, durable before any row refers to them.

Workers write blobs and never rows; a pool needs the store's folder and nothing else. A file's path is built from a
checked digest, never from user input.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from evodevo.errors import DiskFullError, NotFoundError, StoreDamagedError, UsageError
from evodevo.storage.base import sha256
from evodevo.storage.failpoints import failpoint

CHUNK = 2**20


class BlobPool(ABC):
    """Storage of blobs by digest. Putting equal bytes twice stores them once; ``get`` verifies the hash."""

    @abstractmethod
    def put_bytes(self, data: bytes) -> str:
        """Store bytes durably.

        Returns:
            Digest of the bytes, 64 hexadecimal digits.

        Raises:
            DiskFullError: The disk is full; no partial file is left behind.
        """

    @abstractmethod
    def put_file(self, path: Path) -> str:
        """Store a copy of a file without loading it whole; otherwise as ``put_bytes``."""

    @abstractmethod
    def get(self, digest: str) -> bytes:
        """The bytes of a blob, verified.

        Raises:
            NotFoundError: The blob does not exist.
            StoreDamagedError: The blob's file holds other bytes.
        """

    @abstractmethod
    def path(self, digest: str) -> Path:
        """The file of a blob, for readers that map it into memory; not verified (``verify`` does).

        Raises:
            NotFoundError: The blob does not exist.
            UsageError: The pool is in memory.
        """

    @abstractmethod
    def size(self, digest: str) -> int | None:
        """Size of the blob in bytes; None where it does not exist."""

    @abstractmethod
    def verify(self, digest: str) -> str | None:
        """Hash the stored bytes; None where they are right, else a description of the problem."""

    @abstractmethod
    def digests(self) -> Iterator[str]:
        """Digests of all blobs in the pool, in no order."""

    @abstractmethod
    def age(self, digest: str) -> float:
        """Seconds since the blob was last put (by the wall clock); infinite where it does not exist."""

    @abstractmethod
    def remove(self, digest: str) -> None:
        """Delete a blob. Called by the store's ``gc`` only, which excludes blobs that a row refers to."""

    @abstractmethod
    def quarantine(self, digest: str) -> None:
        """Move a damaged blob aside: it can be inspected, but ``get`` does not read it."""

    def remove_temporary(self, older_than: float, *, dry_run: bool) -> tuple[int, int]:
        """Delete temporary files of interrupted writers.

        Args:
            older_than: Smallest age of a deleted file in seconds.
            dry_run: Whether to only count.

        Returns:
            Number of files, and their bytes in all.
        """
        return 0, 0


def checked(digest: str) -> str:
    """The digest itself, after a check of its form.

    Raises:
        UsageError: The value is not 64 lower-case hexadecimal digits.
    """
    if not (isinstance(digest, str) and re.fullmatch(r"[0-9a-f]{64}", digest)):
        raise UsageError(f"a blob is named by 64 hexadecimal digits; got {str(digest)[:80]!r}.")
    return digest


class MemoryPool(BlobPool):
    """Blobs in a dictionary of this process."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._put_at: dict[str, float] = {}

    def put_bytes(self, data: bytes) -> str:
        digest = sha256(data)
        self._blobs[digest] = bytes(data)
        self._put_at[digest] = time.time()
        return digest

    def put_file(self, path: Path) -> str:
        return self.put_bytes(path.read_bytes())

    def get(self, digest: str) -> bytes:
        if checked(digest) not in self._blobs:
            raise _missing(digest)
        data = self._blobs[digest]
        if sha256(data) != digest:
            raise _damaged(digest, "its bytes have changed")
        return data

    def path(self, digest: str) -> Path:
        raise UsageError(f"blob {checked(digest)[:12]} lies in memory and has no path; use get.")

    def size(self, digest: str) -> int | None:
        data = self._blobs.get(checked(digest))
        return None if data is None else len(data)

    def verify(self, digest: str) -> str | None:
        try:
            self.get(digest)
        except (NotFoundError, StoreDamagedError) as error:
            return str(error)
        return None

    def digests(self) -> Iterator[str]:
        yield from list(self._blobs)

    def age(self, digest: str) -> float:
        return time.time() - self._put_at.get(checked(digest), float("-inf"))

    def remove(self, digest: str) -> None:
        self._blobs.pop(checked(digest), None)

    def quarantine(self, digest: str) -> None:
        self.remove(digest)


class FolderPool(BlobPool):
    """Blobs as files ``sha256/ab/<digest>`` below one folder, shared by any number of processes.

    Args:
        folder: Folder ``blobs`` of the store; made on first use, readable by its owner only.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tree = folder / "sha256"
        self._temporary = folder / "temporary"
        self._quarantine = folder / "quarantine"

    def put_bytes(self, data: bytes) -> str:
        digest = sha256(data)
        if not self._renew(digest, len(data)):
            with self._writing() as (file, name):
                file.write(data)
                self._publish(file, name, digest)
        return digest

    def put_file(self, path: Path) -> str:
        with path.open("rb") as source, self._writing() as (file, name):
            digest, length = hashlib.sha256(), 0
            while chunk := source.read(CHUNK):
                file.write(chunk)
                digest.update(chunk)
                length += len(chunk)
            if not self._renew(digest.hexdigest(), length):
                self._publish(file, name, digest.hexdigest())
        return digest.hexdigest()

    def get(self, digest: str) -> bytes:
        with self._opened(digest) as file:
            data = file.read()
        if sha256(data) != digest:
            raise _damaged(digest, f"its {len(data)} bytes do not hash to its name")
        return data

    def path(self, digest: str) -> Path:
        path = self._path(digest)
        if not path.is_file():
            raise _missing(digest)
        return path

    def size(self, digest: str) -> int | None:
        try:
            return self._path(digest).stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            return None

    def verify(self, digest: str) -> str | None:
        try:
            with self._opened(digest) as file:
                actual = hashlib.file_digest(file, "sha256").hexdigest()
        except (NotFoundError, StoreDamagedError) as error:
            return str(error)
        return None if actual == digest else str(_damaged(digest, "its bytes do not hash to its name"))

    def digests(self) -> Iterator[str]:
        for path in self._tree.glob("[0-9a-f][0-9a-f]/*"):
            if re.fullmatch(r"[0-9a-f]{64}", path.name) and path.name.startswith(path.parent.name):
                yield path.name

    def age(self, digest: str) -> float:
        try:
            return time.time() - self._path(digest).stat(follow_symlinks=False).st_mtime
        except FileNotFoundError:
            return float("inf")

    def remove(self, digest: str) -> None:
        self._path(digest).unlink(missing_ok=True)

    def quarantine(self, digest: str) -> None:
        _make(self._quarantine)
        with contextlib.suppress(FileNotFoundError):
            # A random suffix, because the same blob may be put again and be damaged again.
            self._path(digest).replace(self._quarantine / f"{digest}.{secrets.token_hex(4)}")

    def remove_temporary(self, older_than: float, *, dry_run: bool) -> tuple[int, int]:
        count = size = 0
        for path in self._temporary.glob("*"):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat(follow_symlinks=False)
                if time.time() - status.st_mtime >= older_than:
                    count, size = count + 1, size + status.st_size
                    if not dry_run:
                        path.unlink()
        return count, size

    def _path(self, digest: str) -> Path:
        return self._tree / checked(digest)[:2] / digest

    @contextmanager
    def _writing(self) -> Iterator[tuple[BinaryIO, Path]]:
        name = self._temporary / secrets.token_hex(16)
        with _disk_errors(self.folder):
            _make(self._temporary)
            # O_EXCL and O_NOFOLLOW: never write through a file or link that another process placed there.
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    yield file, name
            finally:
                # After the rename it does not exist any more; after an error it would occupy space on a full disk.
                name.unlink(missing_ok=True)

    def _renew(self, digest: str, length: int) -> bool:
        # An existing blob is trusted only after it was hashed; a damaged one is then replaced by a good one.
        target = self._path(digest)
        if self.size(digest) != length or self.verify(digest) is not None:
            return False
        try:
            # A fresh modification time keeps ``gc`` away until a row refers to the blob.
            os.utime(target, follow_symlinks=False)
        except FileNotFoundError:
            return False  # deleted by gc in the meantime
        # The process that put it may have been killed between the rename and the sync of the folder.
        _sync_folder(target.parent)
        return True

    def _publish(self, file: BinaryIO, name: Path, digest: str) -> None:
        # Durability depends on the order: first the contents on disk, then the rename, then the folder's entry on disk.
        # Only then may a row refer to the blob.
        target = self._path(digest)
        _make(target.parent)
        file.flush()
        os.fsync(file.fileno())
        failpoint("after_blob_temporary")
        name.replace(target)
        failpoint("after_blob_rename")
        _sync_folder(target.parent)

    @contextmanager
    def _opened(self, digest: str) -> Iterator[BufferedReader]:
        try:
            file = open(self._path(digest), "rb", opener=_open_no_link)  # noqa: SIM115
        except FileNotFoundError:
            raise _missing(digest) from None
        except OSError as error:
            raise _damaged(digest, f"it cannot be opened ({error.strerror})") from None
        with file:
            yield file


def _open_no_link(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW)


def _make(folder: Path) -> None:
    if not folder.is_dir():
        _make(folder.parent)  # mkdir's own parents=True would give those the default mode
        folder.mkdir(mode=0o700, exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise DiskFullError(
                f"no space left for a blob in {folder} ({error.strerror}). What was finished is safe; "
                "free some space (evodevo store gc), then: evodevo resume."
            ) from error
        raise


def _missing(digest: str) -> NotFoundError:
    return NotFoundError(f"blob {digest} is not in the pool; weights that retention released are trained again.")


def _damaged(digest: str, what: str) -> StoreDamagedError:
    return StoreDamagedError(f"blob {digest} is damaged: {what}. Next: evodevo repair.")
