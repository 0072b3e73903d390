"""The pool of blobs in an object store, through fsspec: ``s3://bucket/prefix`` and whatever else fsspec reaches.

The steps are those of the pool in a folder. A blob is written whole under a temporary name, moved to its own name
within the store, and read back; only then may a row refer to it. Many object stores show a name only when all of its
bytes are there; the steps do not rely on it, and whoever reads a blob compares its digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property, partial
from io import BytesIO
from typing import IO, Any, TypeVar

from evodevo.errors import (
    BlobsUnreachableError,
    DiskFullError,
    EvodevoError,
    MissingExtraError,
    StoreDamagedError,
    UsageError,
    missing_extra,
)
from evodevo.storage.base import sha256
from evodevo.storage.blobs import CHUNK, MARK, NO_SPACE, BlobPool, Stored, checked, damaged, missing
from evodevo.storage.failpoints import failpoint

T = TypeVar("T")

TRIES = 3
"""Times that a blob is written before its loss is reported."""
INSTALL = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "oss": "ossfs",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "smb": "smbprotocol",
    "hdfs": "pyarrow",
}
"""Scheme -> package to install, where fsspec itself does not reach it."""


class ObjectPool(BlobPool):
    """Blobs as objects ``sha256/ab/<digest>`` below one address, shared by any number of processes and machines.

    Args:
        address: Address with a scheme, for example ``s3://bucket/prefix``. Credentials come from the environment of
            each process, as the package of the scheme reads them.
        filesystem: File system of fsspec to be used in place of the address's own, for tests; the address is then a
            path in it.

    Nothing is opened before the first blob is asked for: what needs no blob needs no package and no network. Then all
    methods raise, beside what the contract says:

    Raises:
        MissingExtraError: A package is not installed; the message has the command that installs it.
        UsageError: fsspec knows no such scheme.
        BlobsUnreachableError: The object store does not answer, or refuses.
    """

    def __init__(self, address: str, filesystem: Any = None) -> None:
        self.address: str = address
        self._filesystem = filesystem

    def put_bytes(self, data: bytes) -> str:
        digest = sha256(data)
        self._put(digest, len(data), BytesIO(data))
        return digest

    def put_open(self, source: IO[bytes]) -> str:
        hashed = hashlib.sha256()
        source.seek(0)
        while chunk := source.read(CHUNK):
            hashed.update(chunk)
        self._put(hashed.hexdigest(), source.tell(), source)
        return hashed.hexdigest()

    def chunks(self, digest: str) -> Iterator[bytes]:
        hashed = hashlib.sha256()
        for chunk in self._read(self._path(digest), digest):
            hashed.update(chunk)
            yield chunk
        if hashed.hexdigest() != digest:
            raise damaged(digest, "its bytes do not hash to its name")

    def size(self, digest: str) -> int | None:
        return self._size(self._path(digest))

    def stored(self) -> Iterator[Stored]:
        for folder in self._listed(f"{self._root}/sha256"):
            for entry in self._listed(folder["name"]):
                name = str(entry["name"]).rpartition("/")[2]
                if re.fullmatch(r"[0-9a-f]{64}", name) and str(folder["name"]).endswith(f"/{name[:2]}"):
                    yield Stored(name, int(entry.get("size") or 0), _age(entry))

    def age(self, digest: str) -> float | None:
        with self._translated():
            self._files.invalidate_cache()
            try:
                return _age(self._files.info(self._path(digest)))
            except FileNotFoundError:
                return float("inf")

    def remove(self, digest: str) -> None:
        self._drop(self._path(digest))

    def quarantine(self, digest: str) -> None:
        with self._translated(), contextlib.suppress(FileNotFoundError):
            target = f"{self._root}/quarantine/{digest}.{secrets.token_hex(4)}"
            self._in_folder(target, lambda: self._files.mv(self._path(digest), target))

    def remove_temporary(self, older_than: float, *, dry_run: bool) -> tuple[int, int]:
        count = size = 0
        for entry in self._listed(self._temporary):
            if (age := _age(entry)) is not None and age >= older_than:
                count, size = count + 1, size + int(entry.get("size") or 0)
                if not dry_run:
                    self._drop(str(entry["name"]))
        return count, size

    def vacant(self) -> bool:
        return not self._listed(self._root)

    def owner(self) -> str | None:
        with self._translated():
            try:
                self._files.invalidate_cache()
                text: bytes = self._files.cat_file(f"{self._root}/{MARK}")
            except FileNotFoundError:
                return None
        return text[:200].decode("utf-8", "replace").strip()

    def claim(self, owner: str) -> None:
        place = f"{self._root}/{MARK}"
        with self._translated():
            self._in_folder(place, lambda: self._files.pipe_file(place, owner.encode()))

    def disown(self) -> None:
        self._drop(f"{self._root}/{MARK}")

    # One blob

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        return _open(self.address) if self._filesystem is None else (self._filesystem, self.address)

    @property
    def _files(self) -> Any:
        return self._opened[0]

    @property
    def _root(self) -> str:
        return self._opened[1].rstrip("/")

    @property
    def _temporary(self) -> str:
        return f"{self._root}/temporary"

    def _put(self, digest: str, length: int, source: IO[bytes]) -> None:
        target = self._path(digest)
        problem = ""
        for _ in range(TRIES):
            if self._is_whole(target, digest, length):
                # A copy within the store has a fresh time, which keeps ``gc`` away until a row refers to the blob.
                draft = self._draft()
                with self._cleared(draft), self._translated():
                    try:
                        self._in_folder(draft, partial(self._files.cp_file, target, draft))
                        self._files.mv(draft, target)
                    except FileNotFoundError:
                        continue  # deleted by gc in the meantime
            else:
                self._write(target, length, source)
            if self._is_whole(target, digest, length):
                failpoint("after_blob_rename")
                return
            problem = f"{self._size(target)} of {length} bytes, or others, were read back"
        raise StoreDamagedError(
            f"blob {digest} was written {TRIES} times to {self.address}, and {problem}: it does not keep what is "
            "written. Nothing refers to the blob."
        )

    def _write(self, target: str, length: int, source: IO[bytes]) -> None:
        draft = self._draft()
        source.seek(0)
        with self._cleared(draft), self._translated():
            with self._in_folder(draft, lambda: self._files.open(draft, "wb")) as out:
                while chunk := source.read(CHUNK):
                    out.write(chunk)
            failpoint("after_blob_temporary")
            if self._size(draft) == length:  # what is torn already does not replace what may be whole
                self._in_folder(target, lambda: self._files.mv(draft, target))

    def _is_whole(self, path: str, digest: str, length: int) -> bool:
        if self._size(path) != length:
            return False
        hashed = hashlib.sha256()
        with contextlib.suppress(FileNotFoundError):
            with self._translated(), self._files.open(path, "rb", cache_type="none") as file:
                while chunk := file.read(CHUNK):
                    hashed.update(chunk)
            return hashed.hexdigest() == digest
        return False

    def _read(self, path: str, digest: str) -> Iterator[bytes]:
        try:
            with self._translated(), self._files.open(path, "rb", cache_type="readahead", block_size=CHUNK) as file:
                while chunk := file.read(CHUNK):
                    yield chunk
        except FileNotFoundError:
            raise missing(digest) from None

    def _size(self, path: str) -> int | None:
        with self._translated():
            try:
                # Another process may have written or deleted it since it was listed.
                self._files.invalidate_cache()
                found = self._files.info(path)
            except FileNotFoundError:
                return None
            return int(found["size"]) if found.get("type") == "file" else None

    def _listed(self, path: str) -> list[dict[str, Any]]:
        with self._translated():
            try:
                self._files.invalidate_cache()
                entries: list[dict[str, Any]] = self._files.ls(path, detail=True)
            except FileNotFoundError:
                return []
        return [entry for entry in entries if str(entry["name"]).rstrip("/") != path]

    def _drop(self, path: str) -> None:
        with self._translated(), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(path)

    def _in_folder(self, path: str, work: Callable[[], T]) -> T:
        """Do what writes to a path; make its folder where there have to be some, as in few object stores."""
        try:
            return work()
        except FileNotFoundError:
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            return work()

    def _draft(self) -> str:
        return f"{self._temporary}/{secrets.token_hex(16)}"

    @contextmanager
    def _cleared(self, draft: str) -> Iterator[None]:
        try:
            yield
        finally:
            # After the move it does not exist any more; what cannot be deleted now, ``gc`` deletes.
            with contextlib.suppress(Exception):
                self._files.rm_file(draft)

    def _path(self, digest: str) -> str:
        return f"{self._root}/sha256/{checked(digest)[:2]}/{digest}"

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors of the object store as such, without what packages add to them."""
        try:
            yield
        except (FileNotFoundError, EvodevoError):
            raise
        except Exception as error:  # each package has its own, for no network, no rights, no bucket
            if isinstance(error, OSError) and error.errno in NO_SPACE:
                raise DiskFullError(
                    f"no space left for a blob in {self.address} ({error.strerror}). What was finished is safe; free "
                    "some space (evodevo store gc), then: evodevo resume."
                ) from error
            raise _unreachable(self.address, error) from error


def _unreachable(address: str, error: Exception) -> BlobsUnreachableError:
    return BlobsUnreachableError(
        f"the blobs at {address} cannot be reached ({type(error).__name__}: {_shown(error)}). What was finished is "
        "safe. When they can be reached again: evodevo resume."
    )


def _shown(error: Exception) -> str:
    """What a package says, without user names and passwords in addresses."""
    return re.sub(r"//[^/@\s]*@", "//***@", str(error)[:500])


def _open(address: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise missing_extra("fsspec", "cloud", f"a pool of blobs at {address}") from None
    scheme = address.partition("://")[0]
    try:
        # Lists of names are never reused: other processes write and delete, too.
        files, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
    except ImportError as error:
        package = INSTALL.get(scheme, scheme)
        raise MissingExtraError(
            f"blobs at {scheme}:// need the package {package!r} ({error}). Install it with: pip install {package}"
        ) from None
    except ValueError as error:
        raise UsageError(f"{address} is no address of a pool of blobs: {error}.") from None
    except Exception as error:  # some packages connect at once
        raise _unreachable(address, error) from error
    return files, str(root)


def _age(entry: dict[str, Any]) -> float | None:
    """Seconds since an object was written, by the object store's time; None where it tells none."""
    for key in ("mtime", "LastModified", "last_modified", "updated", "created", "modify"):
        at = entry.get(key)
        if isinstance(at, str):
            with contextlib.suppress(ValueError):
                at = datetime.fromisoformat(at)
        if isinstance(at, datetime):
            return time.time() - (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        if isinstance(at, int | float):
            return time.time() - at
    return None
