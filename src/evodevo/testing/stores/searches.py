"""A small search in any store, and what is compared of it: for tests and campaigns that harm the store's database."""

from __future__ import annotations

import time
from typing import Any

from evodevo.execution.serial import SerialExecutor
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Evaluation, NewIndividual, Score, Store, individual_id
from evodevo.testing.real_vector import RealVectorSpace

POPULATION, GENERATIONS = 4, 4
EVALUATIONS = POPULATION * GENERATIONS


def search(place: str, seed: int, *, run: str | None = None, pause: float = 0.0, patience: float | None = None) -> str:
    """Carry out a search, or go on with it; each finished evaluation is printed when it is safe.

    Args:
        place: Folder or address of the store, which exists.
        seed: Seed of the search.
        run: Run to go on with.
        pause: Seconds of each evaluation.
        patience: Seconds after which a holder elsewhere counts as dead; None = those of the store.

    Returns:
        Id of the run.
    """

    def evaluate(point: tuple[float, ...]) -> dict[str, float]:
        time.sleep(pause)
        return {"first": point[0], "second": (1 - point[0]) ** 2 + point[1]}

    def listen(kind: str, facts: Any) -> None:
        if kind == "evaluated":
            print("finished", facts["id"], flush=True)

    settings = StudySettings(population=POPULATION, generations=GENERATIONS, seed=seed)
    with Store.open(place, create=False) as store:
        study = Study(
            RealVectorSpace(3),
            evaluate,
            goals=("first", "second"),
            settings=settings,
            store=store,
            executor=SerialExecutor(),
            run=run,
            listener=listen,
        )
        print("run", study.run_id, flush=True)
        study.run()
        return study.run_id


def record(store: Store, run_id: str) -> list[tuple[object, ...]]:
    """What two runs of one search have in common: births with genomes, parents and scores, to the bit."""
    rows = store.individuals(run_id)
    births = {row.id: row.birth for row in rows}
    scores = {row.individual_id: row.scores for row in store.evaluations(run_id, state="done")}
    return [
        (row.birth, row.genome_hash, row.operation, tuple(births[parent] for parent in row.parents), scores.get(row.id))
        for row in rows
    ]


def write(place: str, count: int, *, blob_bytes: int = 0) -> str:
    """Record a run of so many evaluations, each started and finished as a search does; returns its id."""
    with Store.open(place, create=False) as store:
        run_id = store.create_run("evolve", "write", {}, 0)
        lease = store.acquire(run_id)
        for number in range(count):
            birth = f"0/{number}"
            one = NewIndividual(individual_id(run_id, birth), birth, 0, number, {}, birth, "sample")
            store.add_individuals(lease, [one])
            attempt = store.start_evaluation(lease, one.id, "quick", 0)
            blobs = {"weights": store.blobs.put_bytes(birth.encode() * blob_bytes)} if blob_bytes else {}
            outcome = Evaluation(one.id, "quick", 0, attempt, scores={"loss": Score(float(number))}, blobs=blobs)
            assert store.finish_evaluation(lease, outcome)
        store.finish_run(lease, "finished")
        return run_id
