"""What a store asks of its database, however many rows it has."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import event

from evodevo.storage import Evaluation, Score, Store
from evodevo.testing.storages import FIDELITY, new_run, newborn


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
