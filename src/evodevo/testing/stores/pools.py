"""What every pool of blobs promises: inherit ``PoolTests`` and give it a pool.

    class TestMyPool(PoolTests):
        def make(self, folder):
            return MyPool(folder / "pool")

``FailingFiles`` is a file system of fsspec that fails, or keeps half of what is written, at a chosen moment.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import EvodevoError, NotFoundError, StoreDamagedError, UsageError
from evodevo.storage.base import sha256
from evodevo.storage.blobs import CHUNK, BlobPool


class PoolTests:
    """The laws of a pool."""

    def make(self, folder: Path) -> BlobPool:
        """A new, empty pool; called again with the same folder, the same pool as another process sees it."""
        raise NotImplementedError

    def damage(self, pool: BlobPool, digest: str, data: bytes) -> None:
        """Replace the bytes of a blob behind the pool's back."""
        raise NotImplementedError

    def test_what_was_put_is_there_for_every_process(self, tmp_path: Path) -> None:
        pool = self.make(tmp_path)
        large = b"0123456789abcdef" * (CHUNK // 16) * 2 + b"end"
        (tmp_path / "file").write_bytes(large)
        digests = [pool.put_bytes(b""), pool.put_bytes(b"weights"), pool.put_file(tmp_path / "file")]
        assert digests == [sha256(b""), sha256(b"weights"), sha256(large)]
        other = self.make(tmp_path)
        assert [other.get(digest) for digest in digests] == [b"", b"weights", large]
        assert [other.size(digest) for digest in digests] == [0, 7, len(large)]
        assert [other.verify(digest) for digest in digests] == [None] * 3
        pieces = list(other.chunks(digests[2]))
        assert b"".join(pieces) == large
        assert max(map(len, pieces)) <= CHUNK, "a large blob is never whole in memory"
        assert set(other.digests()) == set(digests)
        assert {(one.digest, one.bytes) for one in other.stored()} == {
            (digest, other.size(digest)) for digest in digests
        }

    def test_what_was_not_put_is_not_there(self, tmp_path: Path) -> None:
        pool = self.make(tmp_path)
        assert list(pool.stored()) == []
        assert pool.remove_temporary(0.0, dry_run=False) == (0, 0)
        absent = sha256(b"absent")
        assert pool.size(absent) is None
        assert pool.age(absent) == float("inf")
        assert pool.verify(absent) is not None
        for read in (pool.get, lambda digest: list(pool.chunks(digest))):
            with pytest.raises(NotFoundError):
                read(absent)
        pool.remove(absent)
        pool.quarantine(absent)

    @pytest.mark.parametrize("name", ["", "../owner", "A" * 64, "0" * 63 + "/", "0" * 63 + "\n", None])
    def test_only_a_digest_is_a_name(self, tmp_path: Path, name: Any) -> None:
        pool = self.make(tmp_path)
        for method in (pool.get, pool.size, pool.age, pool.remove, pool.quarantine):
            with pytest.raises(UsageError):
                method(name)

    @pytest.mark.parametrize("data", [b"weightZ", b"weig", b"", b"weights and more"])
    def test_damaged_bytes_are_never_returned_and_the_next_put_replaces_them(self, tmp_path: Path, data: bytes) -> None:
        pool = self.make(tmp_path)
        digest = pool.put_bytes(b"weights")
        self.damage(pool, digest, data)
        with pytest.raises(StoreDamagedError):
            pool.get(digest)
        assert pool.verify(digest) is not None
        assert pool.put_bytes(b"weights") == digest
        assert pool.get(digest) == b"weights"

    def test_what_is_set_aside_or_removed_is_gone_until_it_is_put_again(self, tmp_path: Path) -> None:
        pool = self.make(tmp_path)
        digest = pool.put_bytes(b"weights")
        for leave in (pool.quarantine, pool.remove):
            leave(digest)
            assert pool.size(digest) is None
            assert list(pool.digests()) == []
            assert pool.put_bytes(b"weights") == digest
            assert pool.get(digest) == b"weights"

    def test_a_blob_is_young_again_when_it_is_put_again(self, tmp_path: Path) -> None:
        pool = self.make(tmp_path)
        digest = pool.put_bytes(b"weights")
        time.sleep(0.05)
        before = pool.age(digest)
        assert before is not None
        assert 0.04 < before < 60
        pool.put_bytes(b"weights")
        after = pool.age(digest)
        assert after is not None
        assert after < before
        (entry,) = pool.stored()
        assert entry.age is not None
        assert entry.age < 60

    def test_many_writers_of_one_blob(self, tmp_path: Path) -> None:
        pool, errors = self.make(tmp_path), []
        contents = [bytes([place]) * 5_000 for place in range(4)]

        def put_all() -> None:
            try:
                for content in contents:
                    pool.put_bytes(content)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=put_all) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert {digest: pool.get(digest) for digest in pool.digests()} == {
            sha256(content): content for content in contents
        }
        assert pool.remove_temporary(0.0, dry_run=True) == (0, 0)

    def test_an_owner_is_left_once_and_read_by_all(self, tmp_path: Path) -> None:
        pool = self.make(tmp_path)
        assert pool.owner() is None
        assert pool.vacant()
        pool.claim("me")
        assert self.make(tmp_path).owner() == "me"
        assert list(pool.stored()) == []
        assert not pool.vacant()
        pool.disown()
        assert pool.owner() is None
        pool.put_bytes(b"x")
        assert not self.make(tmp_path).vacant()


class Killed(BaseException):
    """The process was killed: nothing after this moment happens."""


class FailingFiles:
    """A file system of fsspec in which one operation goes wrong.

    Args:
        files: The file system behind it.
        moment: Operation: ``open`` (for writing), ``write``, ``close``, ``mv``, ``cp_file``, ``info`` or ``rm_file``.
        how: ``fail`` (an error of the network), ``kill`` (as if the process ended there), ``tear`` (half of the bytes
            are written, without an error).
        number: Which of these operations, from 1; 0 = all of them.
    """

    def __init__(self, files: Any, moment: str, how: str, number: int = 1) -> None:
        self._files, self._moment, self._how, self._number = files, moment, how, number
        self.passed = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._files, name)
        if name != self._moment and not (name == "open" and self._moment in ("write", "close")):
            return real
        return lambda *args, **settings: self._do(name, real, *args, **settings)

    def strike(self, moment: str) -> str | None:
        """What goes wrong at this moment, None where nothing does."""
        if moment != self._moment:
            return None
        self.passed += 1
        return self._how if self._number in (0, self.passed) else None

    def _do(self, name: str, real: Callable[..., Any], *args: Any, **settings: Any) -> Any:
        if name == "open":
            if args[1] != "wb":
                return real(*args, **settings)
            self.act(self.strike("open"))
            return _FailingFile(self, real(*args, **settings))
        how = self.strike(name)
        if how == "tear" and name in ("mv", "cp_file"):
            data = self._files.cat_file(args[0])
            self._files.pipe_file(args[1], data[: len(data) // 2])
            return None
        self.act(how)
        return real(*args, **settings)

    @staticmethod
    def act(how: str | None) -> None:
        if how == "fail":
            raise ConnectionResetError(104, "Connection reset by peer")
        if how == "kill":
            raise Killed


class _FailingFile:
    def __init__(self, files: FailingFiles, file: Any) -> None:
        self._files, self._file = files, file

    def write(self, data: bytes) -> int:
        how = self._files.strike("write")
        if how == "tear":
            self._file.write(data[: len(data) // 2])
            return len(data)
        if how is not None:
            self._file.write(data[: len(data) // 2])
        self._files.act(how)
        return int(self._file.write(data))

    def __enter__(self) -> _FailingFile:
        return self

    def __exit__(self, *caught: object) -> None:
        self._file.close()
        if caught[0] is None:
            self._files.act(self._files.strike("close"))


FAULTS = [
    (moment, how)
    for moment in ("open", "write", "close", "mv", "info")
    for how in ("fail", "kill", "tear")
    if how != "tear" or moment in ("write", "mv")
]
"""Moments and what goes wrong at them, for a pool over ``FailingFiles``."""


def check_interrupted_put(make: Callable[[Any], BlobPool], files: Any, moment: str, how: str, number: int) -> None:
    """A put that goes wrong leaves no blob that is trusted, and the next one succeeds.

    Args:
        make: Makes a pool over a file system of fsspec.
        files: The file system.
        moment: Operation that goes wrong.
        how: How it does.
        number: Which one.
    """
    data = b"weights" * 1_000
    digest = sha256(data)
    whole = make(files)
    try:
        said = make(FailingFiles(files, moment, how, number)).put_bytes(data)
    except (EvodevoError, Killed):
        pass
    else:
        assert said == digest
        assert whole.get(digest) == data, "a put that returned has stored the blob"
    with contextlib.suppress(NotFoundError, StoreDamagedError):
        assert whole.get(digest) == data
    assert whole.put_bytes(data) == digest
    assert whole.get(digest) == data
    whole.remove_temporary(0.0, dry_run=False)
    assert whole.remove_temporary(0.0, dry_run=True) == (0, 0)
    assert [entry.digest for entry in whole.stored()] == [digest]
