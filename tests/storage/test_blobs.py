"""The pool on disk: the order of its steps, its names, many writers."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import event

from evodevo.errors import StoreDamagedError, UsageError
from evodevo.storage import Evaluation, Store
from evodevo.storage.base import sha256
from evodevo.storage.blobs import FolderPool, MemoryPool
from evodevo.testing.storages import FIDELITY, grown


def test_bytes_then_name_then_folder_then_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a loss of power may undo is decided by this order alone, and no kill -9 would show a mistake in it.
    steps: list[str] = []
    with Store.open(tmp_path / "runs") as store:
        lease, (one, *_) = grown(store)
        store.blobs.put_bytes(b"makes the folders")
        fsync, replace = os.fsync, Path.replace

        def watched_fsync(descriptor: int) -> None:
            folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            steps.append(f"sync folder {place.name}" if folder else f"sync {os.fstat(descriptor).st_size} bytes")
            fsync(descriptor)

        def watched_replace(path: Path, target: Path) -> Path:
            steps.append(f"name {target.name[:2]}")
            return replace(path, target)

        monkeypatch.setattr(os, "fsync", watched_fsync)
        monkeypatch.setattr(Path, "replace", watched_replace)
        event.listen(store._database.engine, "commit", lambda _connection: steps.append("row"))
        data = b"weights" * 1000
        digest = store.blobs.put_bytes(data)
        store.finish_evaluation(lease, Evaluation(one.id, FIDELITY, 0, blobs={"weights": digest}))
        start = digest[:2]
        # The new folder's own name is made durable, too.
        assert steps == ["sync folder sha256", "sync 7000 bytes", f"name {start}", f"sync folder {start}", "row"]
        # A blob that is there may have been named by a writer that was killed before it synced the folder.
        steps.clear()
        store.blobs.put_bytes(data)
        assert steps == [f"sync folder {start}"]


def test_a_temporary_name_cannot_be_a_trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evodevo.storage import blobs

    pool = FolderPool(tmp_path / "blobs")
    pool.put_bytes(b"x")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(blobs.secrets, "token_hex", lambda count: "guessed")
    (tmp_path / "blobs/temporary/guessed").symlink_to(victim)
    with pytest.raises(FileExistsError):
        pool.put_bytes(b"y")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    "name", ["", "../store.db", "A" * 64, "0" * 65, "0" * 63 + "/", "0" * 63 + "\n", None, b"0" * 64]
)
def test_only_a_digest_becomes_a_path(tmp_path: Path, name: str) -> None:
    for pool in (FolderPool(tmp_path), MemoryPool()):
        for ask in (pool.get, pool.path, pool.size, pool.verify, pool.age, pool.remove, pool.quarantine):
            with pytest.raises(UsageError, match="64 hexadecimal"):
                ask(name)


def test_a_folder_or_a_stray_file_in_the_pool_is_no_blob(tmp_path: Path) -> None:
    pool = FolderPool(tmp_path)
    digest = pool.put_bytes(b"x")
    (tmp_path / "sha256" / digest[:2] / "notes.txt").write_text("mine")
    (tmp_path / "sha256" / "README").write_text("mine")
    assert list(pool.digests()) == [digest]
    place = tmp_path / "sha256" / "00" / ("0" * 64)
    place.mkdir(parents=True)
    with pytest.raises(StoreDamagedError):
        pool.get("0" * 64)
    assert "cannot be opened" in str(pool.verify("0" * 64))


def test_many_threads_put_the_same_and_different_blobs(tmp_path: Path) -> None:
    pool = FolderPool(tmp_path)
    contents = [bytes([number]) * 50_000 for number in range(8)]
    errors: list[BaseException] = []

    def put_all() -> None:
        try:
            for content in contents:
                assert pool.get(pool.put_bytes(content)) == content
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=put_all) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert set(pool.digests()) == {sha256(content) for content in contents}
    assert not list((tmp_path / "temporary").iterdir())


def test_leftovers_go_when_they_are_old(tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs") as store:
        store.blobs.put_bytes(b"x")
        old, young = (tmp_path / "runs/blobs/temporary" / name for name in ("old", "young"))
        for path in (old, young):
            path.write_bytes(b"torn")
        os.utime(old, (time.time() - 7200,) * 2)
        assert (store.gc(dry_run=True).temporary, old.exists()) == (1, True)
        assert store.gc().temporary == 1
        assert (old.exists(), young.exists()) == (False, True)
