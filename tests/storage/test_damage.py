"""Damaged blobs and databases are found, named, set aside, and never used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from evodevo.errors import EvodevoError, ExitCode, NotFoundError, StoreDamagedError, UsageError
from evodevo.storage import Evaluation, Score, Store
from evodevo.testing.storages import FIDELITY, grown, new_run


def _scored(folder: Path) -> tuple[str, list[str]]:
    """A closed store with three evaluations; their run and the digests of their weights."""
    with Store.open(folder) as store:
        lease, individuals = grown(store, 3)
        digests = [store.blobs.put_bytes(bytes([place + 1]) * 5_000) for place in range(3)]
        for one, digest in zip(individuals, digests, strict=True):
            store.finish_evaluation(
                lease, Evaluation(one.id, FIDELITY, 0, scores={"loss": Score(1.0)}, blobs={"weights": digest})
            )
    return lease.run_id, digests


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


BLOB_DAMAGES: dict[str, Callable[[Path], object]] = {
    "flip": _flip,
    "truncate": lambda path: os.truncate(path, 4_999),
    "grow": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "empty": lambda path: os.truncate(path, 0),
    "link": _link,
}


@pytest.mark.parametrize("name", BLOB_DAMAGES)
def test_a_damaged_blob_is_found_set_aside_and_its_evaluation_done_again(tmp_path: Path, name: str) -> None:
    run_id, digests = _scored(tmp_path / "runs")
    with Store.open(tmp_path / "runs") as store:
        BLOB_DAMAGES[name](store.blobs.path(digests[1]))
        with pytest.raises(StoreDamagedError, match="evodevo repair") as caught:
            store.blobs.get(digests[1])
        assert caught.value.exit_code == ExitCode.STORE_DAMAGED
        report = store.check(deep=True)
        assert [problem.subject for problem in report.problems] == [digests[1]]
        with pytest.raises(StoreDamagedError, match=digests[1]):
            report.require()
        repaired = store.repair()
        assert repaired.quarantined == (digests[1],)
        assert len(repaired.lost_evaluations) == 1
        assert store.check(deep=True).ok
        with pytest.raises(NotFoundError):
            store.blobs.get(digests[1])
        assert [path.name[:64] for path in (tmp_path / "runs/blobs/quarantine").iterdir()] == [digests[1]]
        assert sorted(row.state for row in store.evaluations(run_id)) == ["done", "done", "failed"]
        assert [event.type for event in store.events(run_id)][-1] == "evaluation.lost"
        # The same training gives the same bytes, and they are whole again.
        assert store.blobs.put_bytes(bytes([2]) * 5_000) == digests[1]
        assert store.blobs.get(digests[1]) == bytes([2]) * 5_000


def test_two_swapped_blobs_are_both_found(tmp_path: Path) -> None:
    _, digests = _scored(tmp_path / "runs")
    with Store.open(tmp_path / "runs") as store:
        first, second = (store.blobs.path(digest) for digest in digests[:2])
        first.rename(tmp_path / "aside")
        second.rename(first)
        (tmp_path / "aside").rename(second)
        assert store.check().ok  # sizes agree: only a deep look sees it
        assert {problem.subject for problem in store.check(deep=True).problems} == set(digests[:2])
        assert set(store.repair().quarantined) == set(digests[:2])


def test_putting_a_blob_mends_a_damaged_one(tmp_path: Path) -> None:
    _, digests = _scored(tmp_path / "runs")
    with Store.open(tmp_path / "runs") as store:
        _flip(store.blobs.path(digests[0]))
        store.blobs.put_bytes(bytes([1]) * 5_000)
        assert store.check(deep=True).ok


def test_a_run_whose_own_blob_is_lost_says_so(tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs") as store:
        lease = store.acquire(new_run(store))
        digest = store.blobs.put_bytes(b"tokenizer")
        store.attach_blobs(lease, {"tokenizer": digest})
        store.release(lease)
        store.blobs.remove(digest)
        assert store.repair().lost_evaluations == ()
        assert store.run_blobs(lease.run_id) == {}
        assert [event.type for event in store.events(lease.run_id)][-1] == "run.lost"
        assert store.check(deep=True).ok


def test_a_flipped_page_of_the_database_is_found(tmp_path: Path) -> None:
    _scored(tmp_path / "runs")
    path = tmp_path / "runs/store.db"
    with Store.open(tmp_path / "runs") as store:
        backup = store.backup()
    assert backup is not None
    data = bytearray(path.read_bytes())
    found = 0
    for page in range(1, len(data) // 4096, 2):
        broken = bytearray(data)
        broken[page * 4096 : page * 4096 + 64] = b"\xff" * 64
        path.write_bytes(broken)
        try:
            with Store.open(tmp_path / "runs") as store:
                report = store.check(deep=True)
                assert not report.ok
                assert report.problems[0].kind == "database"
                with pytest.raises(StoreDamagedError):
                    report.require()
        except StoreDamagedError as error:
            assert error.exit_code == ExitCode.STORE_DAMAGED  # noqa: PT017
        found += 1
    assert found > 10
    shutil.copy(backup, path)
    with Store.open(tmp_path / "runs") as store:
        assert store.check(deep=True).ok
        assert len(store.evaluations()) == 3


def test_a_broken_index_is_mended_and_a_broken_table_is_not(tmp_path: Path) -> None:
    _scored(tmp_path / "runs")
    path = tmp_path / "runs/store.db"
    with Store.open(tmp_path / "runs") as store:
        backup = store.backup()
        with store._database.driver() as driver:
            roots = dict(driver.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0").fetchall())
    whole = path.read_bytes()

    def break_page(name: str, change: Callable[[bytes], bytes]) -> None:
        start, end = (roots[name] - 1) * 4096, roots[name] * 4096
        assert change(whole[start:end]) != whole[start:end]
        path.write_bytes(whole[:start] + change(whole[start:end]) + whole[end:])

    break_page("individual_by_genome", lambda page: page.replace(b"hash-0/1", b"hash-9/9"))
    with Store.open(tmp_path / "runs") as store:
        assert not store.check(deep=True).ok
        assert store.repair().remaining == ()
        assert len(store.individuals(store.runs()[0].id)) == 3
    break_page("score", lambda page: b"\xff" * len(page))
    with Store.open(tmp_path / "runs") as store, pytest.raises(StoreDamagedError, match=f"cp {backup}"):
        store.repair()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"this is no database, it is a letter to a friend. " * 100, StoreDamagedError),
        (b"SQLite format 3\0" + b"\0" * 4080, StoreDamagedError),
        (b"", StoreDamagedError),
    ],
)
def test_another_file_in_the_place_of_the_database_is_refused(
    tmp_path: Path, content: bytes, error: type[EvodevoError]
) -> None:
    _scored(tmp_path / "runs")
    (tmp_path / "runs/store.db").write_bytes(content)
    for mode in ("rw", "ro"):
        with pytest.raises(error):
            Store.open(tmp_path / "runs", mode)  # type: ignore[arg-type]
        assert (tmp_path / "runs/store.db").read_bytes() == content


def test_blobs_without_a_database_are_not_taken_for_a_new_store(tmp_path: Path) -> None:
    _scored(tmp_path / "runs")
    (tmp_path / "runs/store.db").unlink()
    with pytest.raises(StoreDamagedError, match="no backup"):
        Store.open(tmp_path / "runs")


def test_what_is_kept_for_ever_cannot_be_taken_back(tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs") as store:
        lease, first = grown(store)
        for statement in (
            "DELETE FROM individual",
            "UPDATE individual SET genome_hash = ''",
            "DELETE FROM run",
            "DELETE FROM event",
            "UPDATE event SET payload = '{}'",
        ):
            with pytest.raises(UsageError, match="kept for ever"), store._database.writing() as connection:
                connection.execute(text(statement))
        assert len(store.individuals(lease.run_id)) == len(first)


def test_a_row_that_was_changed_behind_our_back_is_found(tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs") as store:
        run_id, _ = new_run(store), None
        with store._database.writing() as connection:
            connection.execute(text("UPDATE run SET settings = '{\"x\": NaN}'"))
        with pytest.raises(StoreDamagedError):
            store.run(run_id)
        (problem,) = store.check(deep=True).problems
        assert (problem.kind, problem.subject) == ("row", f"run {run_id}")
