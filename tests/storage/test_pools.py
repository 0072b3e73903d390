"""All pools keep one contract; in an object store also where it fails or tears what is written."""

from __future__ import annotations

import itertools
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from evodevo.errors import (
    BlobsUnreachableError,
    EvodevoError,
    ExitCode,
    MissingExtraError,
    NotFoundError,
    StoreDamagedError,
    UsageError,
)
from evodevo.storage import Evaluation, Store, moving, pools
from evodevo.storage.addresses import BLOBS_VARIABLE
from evodevo.storage.base import sha256
from evodevo.storage.blobs import BlobPool, FolderPool
from evodevo.storage.objects import ObjectPool
from evodevo.testing.storages import FIDELITY, grown
from evodevo.testing.stores import postgres
from evodevo.testing.stores.pools import FAULTS, FailingFiles, PoolTests, check_interrupted_put


class TestFolder(PoolTests):
    def make(self, folder: Path) -> BlobPool:
        return FolderPool(folder / "blobs")

    def damage(self, pool: BlobPool, digest: str, data: bytes) -> None:
        pool.path(digest).write_bytes(data)


class TestFilesOfFsspec(PoolTests):
    def make(self, folder: Path) -> BlobPool:
        return ObjectPool(f"file://{folder}/blobs")

    def damage(self, pool: BlobPool, digest: str, data: bytes) -> None:
        Path(str(pool.address).removeprefix("file://"), "sha256", digest[:2], digest).write_bytes(data)


class TestMemoryOfFsspec(PoolTests):
    def make(self, folder: Path) -> BlobPool:
        return ObjectPool(f"memory://{folder}")

    def damage(self, pool: BlobPool, digest: str, data: bytes) -> None:
        place = f"{str(pool.address).removeprefix('memory:/')}/sha256/{digest[:2]}/{digest}"
        fsspec.filesystem("memory").pipe_file(place, data)


Place = Callable[[], tuple[Any, str]]


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Makes a file system of fsspec and a new path in it."""
    numbers = itertools.count()

    def make() -> tuple[Any, str]:
        return fsspec.filesystem(request.param), f"{tmp_path}/{secrets.token_hex(4)}/{next(numbers)}"

    return make


@pytest.mark.parametrize(("moment", "how"), FAULTS)
def test_a_put_that_is_interrupted_or_torn_leaves_nothing_that_is_trusted(place: Place, moment: str, how: str) -> None:
    for number in (1, 2, 3, 0):
        files, root = place()
        check_interrupted_put(lambda files, root=root: ObjectPool(root, files), files, moment, how, number)


@pytest.mark.parametrize("moment", ["mv", "cp_file"])
@pytest.mark.parametrize("how", ["fail", "tear"])
def test_a_blob_that_is_there_survives_a_put_that_goes_wrong(place: Place, moment: str, how: str) -> None:
    files, root = place()
    whole = ObjectPool(root, files)
    digest = whole.put_bytes(b"weights" * 100)
    broken = FailingFiles(files, moment, how)
    try:
        ObjectPool(root, broken).put_bytes(b"weights" * 100)
    except BlobsUnreachableError:
        assert how == "fail"
    assert broken.passed
    assert whole.get(digest) == b"weights" * 100


def test_what_never_keeps_its_bytes_is_said_to(place: Place) -> None:
    files, root = place()
    with pytest.raises(StoreDamagedError, match="written 3 times"):
        ObjectPool(root, FailingFiles(files, "mv", "tear", 0)).put_bytes(b"weights" * 100)


def test_an_object_store_that_does_not_answer_is_no_traceback_and_no_fault_of_a_genome(place: Place) -> None:
    files, root = place()
    pool = ObjectPool(root, FailingFiles(files, "info", "fail", 0))
    for ask in (pool.size, lambda digest: pool.put_bytes(b"x")):
        with pytest.raises(BlobsUnreachableError, match=r"Connection reset.*evodevo resume"):
            ask(sha256(b"x"))


def test_garbage_without_a_time_stays_and_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path / "runs") as store:
        store.blobs = ObjectPool(f"file://{tmp_path}/blobs")
        digest = store.blobs.put_bytes(b"orphan")
        monkeypatch.setattr("evodevo.storage.objects._age", lambda entry: None)
        report = store.gc()
        assert (report.blobs, report.undated) == ((), 1)
        assert store.blobs.age(digest) is None
        assert store.gc(grace_seconds=0).blobs == (digest,)


# The store's own place for blobs


def filled(store: Store) -> dict[str, bytes]:
    """Give a new store three individuals with weights; returns what it holds."""
    lease, individuals = grown(store, 3)
    held = {}
    for number, one in enumerate(individuals):
        data = bytes([number]) * 3_000
        held[store.blobs.put_bytes(data)] = data
        store.finish_evaluation(lease, Evaluation(one.id, FIDELITY, 0, blobs={"weights": sha256(data)}))
    store.release(lease)
    return held


ADDRESSES = {
    "a folder": lambda folder: str(folder / "elsewhere"),
    "an object store": lambda folder: f"dir://{folder}/elsewhere",
}


@pytest.fixture(autouse=True)
def dir_is_a_scheme() -> None:
    """``dir://`` + a path: a folder behind fsspec, as an object store is, which other processes would see, too."""
    from fsspec.implementations.local import LocalFileSystem

    class Folder(LocalFileSystem):
        protocol = "dir"

        @classmethod
        def _strip_protocol(cls, path: Any) -> str:
            return super()._strip_protocol(str(path).removeprefix("dir://"))  # type: ignore[no-any-return]

    fsspec.register_implementation("dir", Folder, clobber=True)


@pytest.mark.parametrize("kind", ADDRESSES)
def test_a_store_finds_its_blobs_again_and_everything_works_there(tmp_path: Path, kind: str) -> None:
    address = ADDRESSES[kind](tmp_path)
    with Store.open(tmp_path / "runs", blobs=address) as store:
        held = filled(store)
        assert store.blobs_address == address
    assert not any((tmp_path / "runs" / "blobs").rglob("*")), "nothing lies in the store's own folder"
    with Store.open(tmp_path / "runs") as store:
        assert {digest: store.blobs.get(digest) for digest in held} == held
        orphan = store.blobs.put_bytes(b"orphan")
        assert store.gc().blobs == ()
        assert store.gc(grace_seconds=0).blobs == (orphan,)
        report = store.check(deep=True)
        assert (report.ok, report.blobs, report.bytes) == (True, 3, 9_000)
    packed = moving.pack(tmp_path / "runs", tmp_path / "runs.evo")
    moving.unpack(tmp_path / "runs.evo", tmp_path / "unpacked")
    moving.copy(tmp_path / "runs", tmp_path / "copied")
    moving.copy(tmp_path / "copied", tmp_path / "there", blobs=f"{address}-2")
    assert packed.blobs == 3
    for name, place in (("unpacked", None), ("copied", None), ("there", f"{address}-2")):
        with Store.open(tmp_path / name) as store:
            assert store.blobs_address == (place or str(tmp_path / name / "blobs"))
            assert {digest: store.blobs.get(digest) for digest in held} == held
    lost = next(iter(held))
    damaged = tmp_path / "elsewhere" / "sha256" / lost[:2] / lost
    damaged.write_bytes(b"\xff" * 3_000)
    with Store.open(tmp_path / "runs") as store:
        assert [problem.subject for problem in store.check(deep=True).problems] == [lost]
        assert store.repair().quarantined == (lost,)
        assert store.check(deep=True).ok
        assert not damaged.exists()
    with pytest.raises(UsageError, match="chosen when it is made"):
        Store.open(tmp_path / "copied", blobs=f"{address}-3")


def test_a_relative_folder_stays_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with Store.open("runs", blobs="blobs") as store:
        held = filled(store)
    (tmp_path / "here").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    with Store.open("moved/runs") as store:
        assert store.blobs_address == str(tmp_path / "moved" / "blobs")
        assert store.blobs.get(next(iter(held)))


def test_a_place_belongs_to_one_store(tmp_path: Path) -> None:
    place = str(tmp_path / "blobs")
    with Store.open(tmp_path / "one", blobs=place) as store:
        held = filled(store)
    with pytest.raises(UsageError, match="is not empty"):
        Store.open(tmp_path / "two", blobs=place)
    FolderPool(tmp_path / "used").put_bytes(b"x")
    with pytest.raises(UsageError, match="is not empty"):
        Store.open(tmp_path / "three", blobs=str(tmp_path / "used"))
    # Where a file says otherwise, nothing is deleted.
    with Store.open(tmp_path / "one") as store:
        FolderPool(tmp_path / "blobs").claim("somebody else")
        store.blobs.put_bytes(b"orphan")
        with pytest.raises(UsageError, match="nothing is deleted"):
            store.gc(grace_seconds=0)
        assert len(list(store.blobs.digests())) == len(held) + 1
    with pytest.raises(NotFoundError, match="does not hold the blobs"):
        Store.open(tmp_path / "one")


def impossible(tmp_path: Path) -> dict[str, type[EvodevoError]]:
    """Addresses at which no new store can keep its blobs."""
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine.txt").touch()
    return {
        "foo://x": UsageError,
        "hdfs://x/y": MissingExtraError,
        "github://": UsageError,
        str(tmp_path / "used"): UsageError,
    }


def test_nothing_is_made_of_a_store_whose_blobs_have_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for address, error in impossible(tmp_path).items():
        with pytest.raises(error):
            Store.open(tmp_path / "new" / "runs", blobs=address)
        assert [path.name for path in tmp_path.iterdir()] == ["used"], address


def test_nothing_is_made_in_a_database_for_blobs_without_a_place(
    postgres_server: postgres.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    address = postgres_server.address(postgres_server.schema())
    for blobs, error in impossible(tmp_path).items():
        with pytest.raises(error):
            Store.open(address, blobs=blobs)
        with pytest.raises(NotFoundError, match="no store at"):
            Store.open(address, create=False, blobs=blobs)


def test_a_place_is_claimed_by_the_store_that_recorded_it_before_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(pool: FolderPool, owner: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(FolderPool, "claim", kill)
        with pytest.raises(KeyboardInterrupt):
            Store.open(tmp_path / "runs", blobs=tmp_path / "blobs")
    assert FolderPool(tmp_path / "blobs").vacant()
    with Store.open(tmp_path / "runs") as store:
        assert store.blobs_folder == tmp_path / "blobs"
        filled(store)
        assert store.check(deep=True).ok


def test_blobs_that_were_moved_are_found_where_they_are_said_to_be(tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs", blobs=str(tmp_path / "old")) as store:
        held = filled(store)
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="does not hold the blobs"):
        Store.open(tmp_path / "runs", blobs=str(tmp_path / "empty"))
    with Store.open(tmp_path / "runs", blobs=str(tmp_path / "new")) as store:
        assert store.blobs.get(next(iter(held)))
    with Store.open(tmp_path / "runs", "ro") as store:
        assert store.check(deep=True).ok, "recorded"


def test_the_environment_is_for_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BLOBS_VARIABLE, str(tmp_path / "blobs"))
    with Store.open(tmp_path / "runs") as store:
        assert store.blobs_address == str(tmp_path / "runs" / "blobs")
    with Store.open(tmp_path / "other", blobs=tmp_path / "there") as store:
        filled(store)
    with Store.open(tmp_path / "other") as store:
        assert store.blobs_address == str(tmp_path / "there")
        assert store.check(deep=True).ok


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("s3://key:secret@bucket/x", "holds a password"),
        ("s3://key:secret@bucket/x?y", "holds a password"),
        ("s3://bucket/x?token=secret", "no address"),
        ("s3:/key:secret@bucket/x", "no address"),
        ("file://relative/x", "whole path"),
        ("s3://", "no place"),
        ("memory://x", "no place"),
        ("simplecache::s3://bucket/x", "no address"),
        ("", "no address"),
    ],
)
def test_addresses_that_are_none_are_refused(tmp_path: Path, address: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        Store.open(tmp_path / "runs", blobs=address)
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "runs").exists(), "refused before anything is made"


def test_a_missing_package_is_named_when_a_blob_is_asked_for(tmp_path: Path) -> None:
    pool = pools.pool_at("smb://server/share")
    with pytest.raises(MissingExtraError, match="pip install smbprotocol"):
        pool.put_bytes(b"x")
    with pytest.raises(UsageError, match="no address of a pool"):
        pools.pool_at("nothing://x/y").get("0" * 64)
    assert pools.pool_at(f"file://{tmp_path}").address == str(tmp_path), "a folder, with all that a folder promises"


def test_an_object_store_that_does_not_answer_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(BlobsUnreachableError, match=r"127\.0\.0\.1:1/x cannot be reached") as caught:
        Store.open(tmp_path / "runs", blobs="ftp://127.0.0.1:1/x")
    assert caught.value.exit_code == ExitCode.DISK_FULL


def test_a_failed_copy_leaves_nothing_at_its_address(tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs") as store:
        held = filled(store)
        store.blobs.path(sorted(held)[-1]).write_bytes(b"\xff" * 3_000)
    with pytest.raises(StoreDamagedError):
        moving.copy(tmp_path / "runs", tmp_path / "copy", blobs=str(tmp_path / "blobs"))
    pool = FolderPool(tmp_path / "blobs")
    assert (list(pool.stored()), pool.owner()) == ([], None)
    assert not (tmp_path / "copy").exists()
    with pytest.raises(NotFoundError):
        Store.open(tmp_path / "copy", "ro")
    assert pool.vacant()
