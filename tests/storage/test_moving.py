"""Packs and copies hold what a store holds, and a pack that is anything else is refused without a trace."""

from __future__ import annotations

import json
import os
import shutil
import signal
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from evodevo.errors import EvodevoError, ExitCode, NotFoundError, StoreDamagedError, UnsafeFileError, UsageError
from evodevo.scratch import MARK, PREFIX
from evodevo.storage import Evaluation, Score, Store, moving
from evodevo.testing.storages import FIDELITY, grown

Members = list[tuple[str, bytes]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with weights that are held, and others that were released."""
    path = tmp_path / "runs"
    with Store.open(path) as store:
        lease, individuals = grown(store, 3)
        for place, one in enumerate(individuals):
            blobs = {"weights": store.blobs.put_bytes(bytes([place]) * 3_000)}
            outcome = Evaluation(one.id, FIDELITY, 0, scores={"loss": Score(1.0)}, blobs=blobs)
            store.finish_evaluation(lease, outcome)
        store.release_blobs(lease, [outcome.id])
    return path


def contents(folder: Path) -> object:
    with Store.open(folder, "ro") as store:
        assert store.check(deep=True).ok
        (run,) = store.runs()
        held = [(row.id, {role: store.blobs.get(digest) for role, digest in row.blobs.items()})
                for row in store.evaluations(run.id)]  # fmt: skip
        return run, store.individuals(run.id), store.evaluations(run.id), store.events(run.id), held


def test_a_pack_and_a_copy_hold_what_the_store_holds_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    before = contents(folder)
    with Store.open(folder):  # in use
        packed = moving.pack(folder, tmp_path / "runs.evo")
        copied = moving.copy(folder, tmp_path / "copy")
    unpacked = moving.unpack(tmp_path / "runs.evo", tmp_path / "again")
    assert packed.blobs == copied.blobs == unpacked.blobs == 2
    assert contents(tmp_path / "again") == contents(tmp_path / "copy") == contents(folder) == before
    with Store.open(tmp_path / "again") as store:
        assert len(list(store.blobs.digests())) == 2
        assert store.gc(grace_seconds=0).blobs == ()
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "runs.evo", "copy", "again"}, "nothing is left over"


def test_equal_stores_give_equal_packs_but_for_the_database(folder: Path, tmp_path: Path) -> None:
    moving.pack(folder, tmp_path / "one.evo")
    moving.pack(folder, tmp_path / "two.evo")
    assert (tmp_path / "one.evo").read_bytes() == (tmp_path / "two.evo").read_bytes()


def test_nothing_is_packed_of_a_store_with_a_damaged_blob(folder: Path, tmp_path: Path) -> None:
    with Store.open(folder, "ro") as store:
        path = store.blobs.path(next(iter(store.evaluations()[0].blobs.values())))
    path.write_bytes(b"\xff" * 3_000)
    for make in (partial(moving.pack, folder, tmp_path / "x.evo"), partial(moving.copy, folder, tmp_path / "x")):
        with pytest.raises(StoreDamagedError):
            make()
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}


def test_what_exists_is_left_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("mine")
    moving.pack(folder, tmp_path / "runs.evo")
    for make in (
        partial(moving.pack, folder, tmp_path / "there"),
        partial(moving.pack, folder, tmp_path / "runs.evo"),
        partial(moving.unpack, tmp_path / "runs.evo", tmp_path / "there"),
        partial(moving.copy, folder, tmp_path / "there"),
    ):
        with pytest.raises(UsageError, match="exists"):
            make()
    with pytest.raises(NotFoundError):
        moving.unpack(tmp_path / "none.evo", tmp_path / "new")
    with pytest.raises(NotFoundError):
        moving.pack(tmp_path / "none", tmp_path / "new.evo")
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["mine.txt"]


def _manifest(members: Members, change: Callable[[dict[str, object]], None]) -> Members:
    manifest = json.loads(members[0][1])
    change(manifest)
    return [(moving.MANIFEST, json.dumps(manifest).encode()), *members[1:]]


def _renamed(members: Members, name: str) -> Members:
    """The last blob under another name, in the manifest, too."""

    def change(manifest: dict[str, object]) -> None:
        manifest["files"][-1]["name"] = name  # type: ignore[index]

    return [*_manifest(members, change)[:-1], (name, members[-1][1])]


HOSTILE: dict[str, Callable[[Members], Members]] = {
    "no manifest": lambda members: members[1:],
    "another format": lambda members: _manifest(members, lambda manifest: manifest.update(format="other/1")),
    "files that are no list": lambda members: _manifest(members, lambda manifest: manifest.update(files={"a": 1})),
    "a file that is no object": lambda members: _manifest(members, lambda manifest: manifest.update(files=[1])),
    "a manifest of NaN": lambda members: [(moving.MANIFEST, b'{"format": NaN}'), *members[1:]],
    "a path upwards": lambda members: _renamed(members, "../../escaped"),
    "an absolute path": lambda members: _renamed(members, "/tmp/escaped"),
    "a second database": lambda members: _renamed(members, "blobs/store.db"),
    "a member more": lambda members: [*members, ("blobs/" + "0" * 64, b"more")],
    "a member less": lambda members: members[:-1],
    "a member twice": lambda members: [*members, members[-1]],
    "another order": lambda members: [members[0], members[2], members[1], *members[3:]],
    "a size that is not": lambda members: [*members[:-1], (members[-1][0], members[-1][1][:-1])],
    "other bytes": lambda members: [*members[:-1], (members[-1][0], b"\xff" * len(members[-1][1]))],
    "another database": lambda members: [
        members[0],
        (members[1][0], members[1][1][:-16] + b"\xff" * 16),
        *members[2:],
    ],
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_pack_with_anything_else_is_refused_without_a_trace(folder: Path, tmp_path: Path, name: str) -> None:
    moving.pack(folder, tmp_path / "runs.evo")
    with zipfile.ZipFile(tmp_path / "runs.evo") as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(tmp_path / "hostile.evo", "w") as archive:
        for member, data in HOSTILE[name](members):
            archive.writestr(member, data)
    with pytest.raises(EvodevoError) as caught:
        moving.unpack(tmp_path / "hostile.evo", tmp_path / "new")
    assert caught.value.exit_code in (ExitCode.UNSAFE, ExitCode.STORE_DAMAGED)
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "runs.evo", "hostile.evo"}


def test_a_compressed_pack_and_other_files_are_refused(folder: Path, tmp_path: Path) -> None:
    moving.pack(folder, tmp_path / "runs.evo")
    with zipfile.ZipFile(tmp_path / "runs.evo") as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(tmp_path / "small.evo", "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members:
            archive.writestr(member, data)
    whole = (tmp_path / "runs.evo").read_bytes()
    (tmp_path / "cut.evo").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.evo").write_text("no zip")
    (tmp_path / "empty.evo").write_bytes(b"")
    for name in ("small", "cut", "text", "empty"):
        with pytest.raises(UnsafeFileError):
            moving.unpack(tmp_path / f"{name}.evo", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def killed(work: Callable[[Callable[[], None]], object]) -> None:
    """Run work in a process of its own, which kills itself where it calls what it is given."""
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            work(lambda: os.kill(os.getpid(), signal.SIGKILL))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("when", ["at the first byte", "at the last"])
def test_what_a_killed_move_left_is_removed_by_the_next_one(folder: Path, tmp_path: Path, when: str) -> None:
    moving.pack(folder, tmp_path / "runs.evo")
    moves = {
        "pack": lambda progress: moving.pack(folder, tmp_path / "new.evo", progress),
        "unpack": lambda progress: moving.unpack(tmp_path / "runs.evo", tmp_path / "new", progress),
        "copy": lambda progress: moving.copy(folder, tmp_path / "new", progress),
        "copy with blobs": lambda progress: moving.copy(folder, tmp_path / "new", progress, blobs=tmp_path / "blobs"),
    }
    before = {path.name for path in tmp_path.iterdir()}
    for name, move in moves.items():

        def dying(kill: Callable[[], None], move: Callable[[moving.Progress], object] = move) -> None:
            move(lambda done, whole: kill() if done == whole or when == "at the first byte" else None)

        killed(dying)
        left = {path.name for path in tmp_path.iterdir()} - before
        drafts = {name for name in left if name.startswith(PREFIX)}
        assert drafts, name
        assert left - drafts <= {"blobs"}, name
        moved = move(moving.quiet)
        assert isinstance(moved.path, Path)
        assert moved.path.exists()
        left = {path.name for path in tmp_path.iterdir()} - before
        assert left == {moved.path.name} | ({"blobs"} if name == "copy with blobs" else set()), name
        if moved.path.is_dir():
            assert {path.name for path in moved.path.iterdir()}.isdisjoint({MARK, moving.COPY})
            assert contents(moved.path) == contents(folder)
            shutil.rmtree(moved.path)
        else:
            moved.path.unlink()
    # The pool of a draft is its own: that of the source is never cleared.
    with Store.open(folder) as store:
        assert store.check(deep=True).ok


def test_a_draft_that_names_the_pool_of_its_source_does_not_cost_that_pool(tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs", blobs=tmp_path / "blobs") as store:
        lease, (one,) = grown(store, 1)
        weights = store.blobs.put_bytes(b"weights")
        store.finish_evaluation(lease, Evaluation(one.id, FIDELITY, 0, blobs={"weights": weights}))

    def dying(kill: Callable[[], None]) -> None:
        moving._of_its_own = lambda path: kill()  # type: ignore[assignment,func-returns-value]
        moving.copy(tmp_path / "runs", tmp_path / "new")

    killed(dying)
    assert moving.sweep_drafts(tmp_path)
    with Store.open(tmp_path / "runs") as store:
        assert store.blobs.get(weights) == b"weights"
