"""1,000 workers, a million evaluations: which part of a search saturates first?

No machine here has 1,000 workers, so this is a simulation of events with inputs that the same run measures or reads:

- durations and bytes of blobs of an evaluation: a recorded run (``recorded/backbone_full.db.xz``), whose
  trainings are short; ``--longer`` makes all of them so many times longer;
- the coordinator: CPU seconds per evaluation for drawing, hashing, selecting and records, of a steady-state search over
  backbones with evaluations that take no time;
- the store: further wall seconds per evaluation of the same search in a file, with each commit on the disk (the lowest
  decile over evaluations, because other processes share the machine);
- the executor: CPU seconds of the coordinator to hand a job to a process and to take its answer.

The coordinator is one process that does all three one after the other, in the order in which evaluations end. A worker
whose evaluation has ended writes its blobs to the pool, which writers share (``--pool-megabytes`` a second, an
assumption), and waits for the coordinator, which gives it the next evaluation. Costs are taken as constant in the
number of evaluations.

    python benchmarks/cluster_simulation.py
"""

from __future__ import annotations

import argparse
import heapq
import lzma
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.execution.base import Job, Result
from evodevo.execution.processes import ProcessExecutor
from evodevo.execution.serial import SerialExecutor
from evodevo.operators.spec import Dimensions
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from measuring import print_table, surroundings

RECORDED = Path(__file__).parent / "recorded" / "backbone_full.db.xz"
PARTS = ("coordinator", "store", "executor", "pool")


@dataclass(frozen=True)
class Costs:
    """What one evaluation costs.

    Attributes:
        durations: recorded durations of evaluations in seconds, to be drawn from.
        blob_bytes: bytes that it writes to the pool.
        coordinator, store, executor: seconds of the coordinator's process.
        pool: seconds of the pool.
        row_bytes: bytes of the database.
    """

    durations: Sequence[float]
    blob_bytes: float
    coordinator: float
    store: float
    executor: float
    pool: float
    row_bytes: float

    @property
    def served(self) -> float:
        """Seconds of the coordinator's process, in all."""
        return self.coordinator + self.store + self.executor


def recorded() -> tuple[list[float], float]:
    """Durations of the recorded evaluations in seconds, and mean bytes of blobs of one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        path.write_bytes(lzma.decompress(RECORDED.read_bytes()))
        database = sqlite3.connect(path)
        rows = database.execute("SELECT seconds FROM evaluation WHERE state = 'done' AND seconds > 0").fetchall()
        (size,) = database.execute(
            "SELECT sum(bytes) FROM blob WHERE digest IN "
            "(SELECT digest FROM blob_reference WHERE owner_kind = 'evaluation')"
        ).fetchone()
        database.close()
    return [float(seconds) for (seconds,) in rows], float(size or 0) / len(rows)


def search(store: Store, population: int, evaluations: int) -> tuple[float, float]:
    """CPU seconds per evaluation of a search whose evaluations take no time, and wall seconds.

    Wall seconds are the lowest decile: the other processes of a machine make them longer.
    """
    ends: list[float] = []

    def listen(kind: str, facts: object) -> None:
        if kind == "evaluated":
            ends.append(time.monotonic())

    space = BackboneSpace(BackboneSettings(depth=12, operators="plan", dimensions=Dimensions(width=64)))
    settings = StudySettings(
        population=population, generations=evaluations // population, mode="steady", baselines=False
    )
    study = Study(
        space,
        lambda genome: (hash(genome) % 1000 / 1000, float(space.cost(genome, length=256).cache_bytes)),
        goals=("quality", "cache"),
        settings=settings,
        store=store,
        executor=SerialExecutor(),
        listener=listen,
    )
    cpu = time.process_time()
    count = len(study.run().members)
    between = [after - before for before, after in pairwise(ends[population:])]
    return (time.process_time() - cpu) / count, statistics.quantiles(between, n=10)[0]


def handed(jobs: int) -> float:
    """CPU seconds of this process per job of an executor."""
    with ProcessExecutor(2, preload=()) as executor:
        executor.submit(Job("first", "testing.echo"))
        while not any(isinstance(event, Result) for event in executor.poll(1.0)):
            pass
        begin, left = time.process_time(), jobs
        for number in range(jobs):
            executor.submit(Job(str(number), "testing.echo", bytes(4096)))
        while left:
            left -= sum(isinstance(event, Result) for event in executor.poll(1.0))
        return (time.process_time() - begin) / jobs


def measured(given: argparse.Namespace) -> Costs:
    """All inputs of the simulation."""
    durations, blob_bytes = recorded()
    with Store.memory() as store:
        cpu, _ = search(store, given.population, given.sample)
    with tempfile.TemporaryDirectory() as folder:
        with Store.open(Path(folder) / "runs") as store:
            file_cpu, wall = search(store, given.population, given.sample)
        size = sum(path.stat().st_size for path in Path(folder).rglob("store.db*"))
    return Costs(
        durations=[seconds * given.longer for seconds in durations],
        blob_bytes=blob_bytes,
        coordinator=cpu,
        store=max(wall - cpu, file_cpu - cpu, 0.0),
        executor=handed(given.sample),
        pool=blob_bytes / (given.pool_megabytes * 1e6),
        row_bytes=size / given.sample,
    )


@dataclass(frozen=True)
class Simulated:
    """A simulated search.

    Attributes:
        days: wall time in days.
        busy: share of the time in which workers evaluate.
        served: share of the time in which the coordinator's process works.
        pool: share of the time in which the pool writes.
    """

    days: float
    busy: float
    served: float
    pool: float


def simulate(costs: Costs, workers: int, evaluations: int, seed: int) -> Simulated:
    """Each worker evaluates, writes to the pool, and waits for the coordinator; both serve one after the other."""
    rng = random.Random(seed)
    work, count = 0.0, min(workers, evaluations)
    ends: list[tuple[float, bool]] = []  # time, and whether the blobs are written
    coordinator = pool = 0.0  # time at which each is free
    for _ in range(count):
        coordinator += costs.served
        seconds = rng.choice(costs.durations)
        work += seconds
        heapq.heappush(ends, (coordinator + seconds, False))
    left, end = evaluations - count, 0.0
    while ends:
        now, written = heapq.heappop(ends)
        if not written:
            pool = max(pool, now) + costs.pool
            heapq.heappush(ends, (pool, True))
            continue
        end = coordinator = max(coordinator, now) + costs.served
        if left:
            left -= 1
            seconds = rng.choice(costs.durations)
            work += seconds
            heapq.heappush(ends, (coordinator + seconds, False))
    served, busy_pool = evaluations * costs.served / end, evaluations * costs.pool / end
    return Simulated(end / 86400, work / (workers * end), served, busy_pool)


def main() -> None:
    """Measure, simulate, and say which part saturates first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--evaluations", type=int, default=10**6)
    parser.add_argument("--longer", type=float, default=1.0, help="factor on the recorded durations")
    parser.add_argument("--pool-megabytes", type=float, default=1000.0, help="what the pool writes in a second")
    parser.add_argument("--population", type=int, default=100, help="of the measured search")
    parser.add_argument("--sample", type=int, default=200, help="evaluations of the measured search")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    costs, machine = measured(given), surroundings()
    mean = statistics.fmean(costs.durations)
    print(f"# {given.workers:,} workers, {given.evaluations:,} evaluations, simulated, {machine['date']}")
    print(f"  {machine['processor']}, {machine['cores']} cores; seed {given.seed}")
    print(
        f"  an evaluation: mean {mean:.1f} s (median {statistics.median(costs.durations):.1f}, "
        f"{len(costs.durations)} recorded), {costs.blob_bytes / 1e3:.0f} kB of blobs, "
        f"{costs.row_bytes / 1e3:.1f} kB of database"
    )
    seconds = {part: getattr(costs, part) for part in PARTS}
    one = costs.served
    rows = [
        {
            "part": part,
            "ms per evaluation": f"{1e3 * value:.2f}",
            "evaluations per second": f"{1 / (one if part != 'pool' else value):.0f}" if value else "-",
            "workers that it keeps busy": f"{mean / (one if part != 'pool' else value):.0f}" if value else "-",
        }
        for part, value in {**seconds, "coordinator, store and executor": one}.items()
        if part in ("pool", "coordinator, store and executor")
    ]
    print_table([{"part": part, "ms per evaluation": f"{1e3 * value:.2f}"} for part, value in seconds.items()])
    print_table(rows)
    table = []
    for workers in sorted({8, 32, 100, given.workers, 10 * given.workers}):
        found = simulate(costs, workers, given.evaluations, given.seed)
        table.append(
            {
                "workers": workers,
                "days": f"{found.days:.2f}",
                "workers busy": f"{found.busy:.3f}",
                "coordinator busy": f"{found.served:.3f}",
                "pool busy": f"{found.pool:.3f}",
            }
        )
    print_table(table)
    inside = max(("coordinator", "store", "executor"), key=lambda part: seconds[part])
    first = f"the coordinator's process, most of it {inside}" if one > costs.pool else "the pool of blobs"
    limit = mean / max(one, costs.pool)
    print(
        f"  saturated first: {first}, at {limit:.0f} workers; {given.evaluations:,} evaluations make "
        f"{given.evaluations * costs.row_bytes / 1e9:.1f} GB of database and "
        f"{given.evaluations * costs.blob_bytes / 1e12:.2f} TB of blobs, if all are kept"
    )


if __name__ == "__main__":
    main()
