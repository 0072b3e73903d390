"""The pool of blobs: bytes named by their SHA-256, durable before any row refers to them.

Workers write blobs and never rows; a pool needs its address and nothing else (``pools.pool_at``). A file's path is
built from a checked digest, never from user input. Here are the contract, and the pools in a folder and in memory;
``objects`` has the pool in an object store.
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
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, BinaryIO

from evodevo.errors import DiskFullError, NotFoundError, StoreDamagedError, UsageError
from evodevo.storage.base import sha256
from evodevo.storage.failpoints import failpoint

CHUNK = 2**20
MARK = "evodevo-store"
"""Name of the file, or object, that names the store to which the blobs beside it belong."""
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Stored:
    """A blob in a listing.

    Attributes:
        digest: Its digest.
        bytes: Its size.
        age: Seconds since it was last put, by the clock of what holds it; None where that tells no time.
    """

    digest: str
    bytes: int
    age: float | None


class BlobPool(ABC):
    """Storage of blobs by digest. Putting equal bytes twice stores them once; whoever reads one verifies its hash.

    A blob that was put is whole and durable when the method returns. An interrupted or failed ``put`` leaves no blob,
    or one that is not trusted: neither by a reader, nor by the next ``put`` of the same bytes. The conformance suite is
    ``testing.stores.pools``.

    Attributes:
        address: Address from which ``pools.pool_at`` makes an equal pool in another process; None in memory.
        folder: Folder of the blobs, where they are files.
    """

    address: str | None
    folder: Path | None = None

    @abstractmethod
    def put_bytes(self, data: bytes) -> str:
        """Store bytes durably.

        Returns:
            Digest of the bytes, 64 hexadecimal digits.

        Raises:
            DiskFullError: The disk is full; no partial file is left behind.
        """

    def put_file(self, path: Path) -> str:
        """Store a copy of a file without loading it whole; otherwise as ``put_bytes``."""
        with path.open("rb") as source:
            return self.put_open(source)

    @abstractmethod
    def put_open(self, source: IO[bytes]) -> str:
        """Store all bytes of an open file, from its beginning; otherwise as ``put_file``."""

    @abstractmethod
    def chunks(self, digest: str) -> Iterator[bytes]:
        """The bytes of a blob, one piece after the other, so that it never lies in memory whole.

        Raises:
            NotFoundError: The blob does not exist.
            StoreDamagedError: It holds other bytes; raised after the last piece.
        """

    def get(self, digest: str) -> bytes:
        """The bytes of a blob, verified.

        Raises:
            NotFoundError: The blob does not exist.
            StoreDamagedError: It holds other bytes.
        """
        return b"".join(self.chunks(digest))

    def path(self, digest: str) -> Path:
        """The file of a blob, where blobs are files; not verified (``verify`` does).

        Raises:
            NotFoundError: The blob does not exist.
            UsageError: Blobs are no files here.
        """
        raise UsageError(f"blob {checked(digest)[:12]} is no file here; use get or chunks.")

    @abstractmethod
    def size(self, digest: str) -> int | None:
        """Size of the blob in bytes; None where it does not exist."""

    def verify(self, digest: str) -> str | None:
        """Hash the stored bytes; None where they are right, else a description of the problem."""
        try:
            for _ in self.chunks(digest):
                pass
        except (NotFoundError, StoreDamagedError) as error:
            return str(error)
        return None

    @abstractmethod
    def stored(self) -> Iterator[Stored]:
        """All blobs in the pool, in no order."""

    def digests(self) -> Iterator[str]:
        """Digests of all blobs in the pool, in no order."""
        return (entry.digest for entry in self.stored())

    @abstractmethod
    def age(self, digest: str) -> float | None:
        """Seconds since the blob was last put, by the clock of what holds it.

        Infinite where the blob does not exist, None where no time is told.
        """

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

    @abstractmethod
    def vacant(self) -> bool:
        """Whether nothing lies here, so that a new store may keep its blobs here."""

    @abstractmethod
    def owner(self) -> str | None:
        """The name that ``claim`` left; None before."""

    @abstractmethod
    def claim(self, owner: str) -> None:
        """Leave the name of the store to which the blobs belong: ``gc`` of another one would delete them."""

    @abstractmethod
    def disown(self) -> None:
        """Take the name away; a pool without blobs is then vacant."""


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

    address = None

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._put_at: dict[str, float] = {}
        self._owner: str | None = None

    def put_bytes(self, data: bytes) -> str:
        digest = sha256(data)
        self._blobs[digest] = bytes(data)
        self._put_at[digest] = time.time()
        return digest

    def put_open(self, source: IO[bytes]) -> str:
        source.seek(0)
        return self.put_bytes(source.read())

    def chunks(self, digest: str) -> Iterator[bytes]:
        if checked(digest) not in self._blobs:
            raise missing(digest)
        yield self._blobs[digest]
        if sha256(self._blobs[digest]) != digest:
            raise damaged(digest, "its bytes have changed")

    def size(self, digest: str) -> int | None:
        data = self._blobs.get(checked(digest))
        return None if data is None else len(data)

    def stored(self) -> Iterator[Stored]:
        for digest, data in list(self._blobs.items()):
            yield Stored(digest, len(data), self.age(digest))

    def age(self, digest: str) -> float:
        return time.time() - self._put_at.get(checked(digest), float("-inf"))

    def remove(self, digest: str) -> None:
        self._blobs.pop(checked(digest), None)

    def quarantine(self, digest: str) -> None:
        self.remove(digest)

    def vacant(self) -> bool:
        return not self._blobs and self._owner is None

    def owner(self) -> str | None:
        return self._owner

    def claim(self, owner: str) -> None:
        self._owner = owner

    def disown(self) -> None:
        self._owner = None


class FolderPool(BlobPool):
    """Blobs as files ``sha256/ab/<digest>`` below one folder, shared by any number of processes.

    Args:
        folder: Folder ``blobs`` of the store; made on first use, readable by its owner only.
    """

    def __init__(self, folder: Path) -> None:
        self.folder: Path = folder
        self.address = str(folder)
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

    def put_open(self, source: IO[bytes]) -> str:
        source.seek(0)
        with self._writing() as (file, name):
            digest, length = hashlib.sha256(), 0
            while chunk := source.read(CHUNK):
                file.write(chunk)
                digest.update(chunk)
                length += len(chunk)
            if not self._renew(digest.hexdigest(), length):
                self._publish(file, name, digest.hexdigest())
        return digest.hexdigest()

    def chunks(self, digest: str) -> Iterator[bytes]:
        hashed, length = hashlib.sha256(), 0
        with self._opened(digest) as file:
            while chunk := file.read(CHUNK):
                hashed.update(chunk)
                length += len(chunk)
                yield chunk
        if hashed.hexdigest() != digest:
            raise damaged(digest, f"its {length} bytes do not hash to its name")

    def path(self, digest: str) -> Path:
        path = self._path(digest)
        if not path.is_file():
            raise missing(digest)
        return path

    def size(self, digest: str) -> int | None:
        try:
            return self._path(digest).stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            return None

    def stored(self) -> Iterator[Stored]:
        for path in self._tree.glob("[0-9a-f][0-9a-f]/*"):
            if re.fullmatch(r"[0-9a-f]{64}", path.name) and path.name.startswith(path.parent.name):
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat(follow_symlinks=False)
                    yield Stored(path.name, status.st_size, time.time() - status.st_mtime)

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

    def vacant(self) -> bool:
        return not self.folder.exists() or (self.folder.is_dir() and not any(self.folder.iterdir()))

    def owner(self) -> str | None:
        try:
            with open(self.folder / MARK, "rb", opener=_open_no_link) as file:
                return file.read(200).decode("utf-8", "replace").strip()
        except OSError:
            return None

    def claim(self, owner: str) -> None:
        with self._writing() as (file, name):
            file.write(f"{owner}\n".encode())
            file.flush()
            os.fsync(file.fileno())
            name.replace(self.folder / MARK)
            _sync_folder(self.folder)

    def disown(self) -> None:
        (self.folder / MARK).unlink(missing_ok=True)
        for own in (self._tree, self._temporary):
            # Empty folders would keep a new store out.
            for path in (*own.glob("*"), own):
                with contextlib.suppress(OSError):
                    path.rmdir()

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
            raise missing(digest) from None
        except OSError as error:
            raise damaged(digest, f"it cannot be opened ({error.strerror})") from None
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
        if error.errno in NO_SPACE:
            raise DiskFullError(
                f"no space left for a blob in {folder} ({error.strerror}). What was finished is safe; "
                "free some space (evodevo store gc), then: evodevo resume."
            ) from error
        raise


def missing(digest: str) -> NotFoundError:
    """The error for a blob that does not exist."""
    return NotFoundError(f"blob {digest} is not in the pool; weights that retention released are trained again.")


def damaged(digest: str, what: str) -> StoreDamagedError:
    """The error for a blob that holds other bytes."""
    return StoreDamagedError(f"blob {digest} is damaged: {what}. Next: evodevo repair.")
