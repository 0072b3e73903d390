"""A process that searches: tests fork and kill it. It prints a line after each thing that it believes to be safe."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from evodevo.storage import Evaluation, NewIndividual, Score, Store, individual_id
from evodevo.storage.failpoints import failpoint
from evodevo.storage.heartbeat import Heartbeat

POPULATION = 3
GENERATIONS = 3


def say(*words: object) -> None:
    print(*words, flush=True)


def make(folder: Path) -> None:
    """Open a store, whatever stands there, and record a run."""
    with Store.open(folder) as store:
        store.create_run("evolve", "r", {}, 0)


def hold(folder: Path, run_id: str) -> None:
    """Take the run, say so, and wait to be killed."""
    with Store.open(folder, create=False) as store:
        say("held", store.acquire(run_id).token)
        signal.pause()


def hold_alive(folder: Path, run_id: str, interval: float) -> None:
    """Take the run with a heartbeat of its own, fork, and wait to be killed; the fork outlives it by a minute."""
    with Store.open(folder, create=False) as store:
        store._heartbeat = Heartbeat(folder / "store.db", interval)
        lease = store.acquire(run_id)
        store.keep_alive(lease)
        if os.fork() == 0:
            say("held", lease.token)
            time.sleep(60)
            os._exit(0)
        signal.pause()


def search(folder: Path, run_id: str) -> None:
    """Fill up what is missing of a small search, generation by generation."""
    with Store.open(folder, create=False) as store:
        _search(store, run_id)


def _search(store: Store, run_id: str) -> None:
    lease = store.acquire(run_id)
    say("held", lease.token)
    for generation in range(GENERATIONS):
        births = [f"{generation}/{slot}" for slot in range(POPULATION)]
        parents = () if generation == 0 else (individual_id(run_id, f"{generation - 1}/0"),)
        store.add_individuals(
            lease,
            [
                NewIndividual(individual_id(run_id, birth), birth, generation, slot, {}, birth, "sample", {}, parents)
                for slot, birth in enumerate(births)
            ],
        )
        say("added", generation)
        done = {row.individual_id for row in store.evaluations(run_id, state="done")}
        for birth in births:
            one = individual_id(run_id, birth)
            if one not in done:
                attempt = store.start_evaluation(lease, one, "quick", 0)
                weights = store.blobs.put_bytes(birth.encode() * 50_000)
                score = {"loss": Score(float(len(birth)))}
                store.finish_evaluation(
                    lease, Evaluation(one, "quick", 0, attempt, scores=score, blobs={"weights": weights})
                )
                say("finished", one)
        if not any(event.subject == str(generation) for event in store.events(run_id) if event.type == "generation"):
            failpoint("before_generation_event")
            store.add_event(lease, "generation", str(generation), {})
            failpoint("after_generation_event")
        say("generation", generation)
    store.finish_run(lease, "finished")
    say("end")


def write(folder: Path, run_id: str) -> None:
    """Append events until killed."""
    with Store.open(folder, create=False) as store:
        lease = store.acquire(run_id)
        for number in range(10_000_000):
            store.add_event(lease, "tick", str(number), {"pid": os.getpid()})
            if number == 0:
                say("writing")
            time.sleep(0.0005)
