"""Hundreds of rows. Nothing here asserts a time; `pytest -s` shows them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import event

from evodevo.storage import Evaluation, Score, Store
from evodevo.testing.storages import FIDELITY, new_run, newborn

COUNT = 200


@contextmanager
def timed(what: str, each: int) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    print(f"{what}: {seconds:.3f} s, {seconds / each * 1e3:.3f} ms each")


def test_hundreds_of_individuals(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        lease = store.acquire(new_run(store))
        previous: tuple[str, ...] = ()
        ids: list[str] = []
        with timed("add, 20 at a time", COUNT):
            for generation in range(COUNT // 20):
                batch = [newborn(lease.run_id, f"{generation}/{slot}", previous) for slot in range(20)]
                store.add_individuals(lease, batch)
                previous = (batch[0].id, batch[1].id)
                ids.extend(one.id for one in batch)
        scores = {name: Score(float(place)) for place, name in enumerate(("loss", "cache", "parameters"))}
        with timed("finish, one at a time", COUNT):
            for one in ids:
                store.finish_evaluation(lease, Evaluation(one, FIDELITY, 0, scores=scores))
        with timed("read individuals", COUNT):
            assert [row.id for row in store.individuals(lease.run_id)] == ids
        with timed("read evaluations", COUNT):
            assert [row.individual_id for row in store.evaluations(lease.run_id)] == ids
        with timed("lineage", 1):
            assert len(store.lineage(ids[-1])) == 2 * (COUNT // 20 - 1) * 2 - 2
        with timed("deep check", 1):
            assert store.check(deep=True).ok


def test_reading_asks_a_fixed_number_of_questions(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        lease = store.acquire(new_run(store))
        counts = []
        asked: list[str] = []

        @event.listens_for(store._database.engine, "before_cursor_execute")
        def count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            asked.append(statement)

        for generation in range(3):
            batch = [newborn(lease.run_id, f"{generation}/{slot}") for slot in range(10)]
            store.add_individuals(lease, batch)
            for one in batch:
                store.finish_evaluation(lease, Evaluation(one.id, FIDELITY, 0, scores={"loss": Score(1.0)}))
            asked.clear()
            store.individuals(lease.run_id)
            store.evaluations(lease.run_id)
            counts.append(len(asked))
        assert counts[0] == counts[1] == counts[2]


def test_a_finished_evaluation_is_one_transaction(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        lease = store.acquire(new_run(store))
        one = newborn(lease.run_id, "0/0")
        store.add_individuals(lease, [one])
        digest = store.blobs.put_bytes(b"weights")
        commits: list[object] = []
        event.listen(store._database.engine, "commit", commits.append)
        scores, curve = {"loss": Score(1.0), "cache": Score(2.0)}, {"loss": [(0.0, 1.0)]}
        store.finish_evaluation(
            lease, Evaluation(one.id, FIDELITY, 0, scores=scores, blobs={"weights": digest}, series=curve)
        )
        assert len(commits) == 1
