"""How busy do 8 workers stay, when evaluations have unequal durations: steady state beside generational?

The evaluations sleep for log-normal durations (sigma 1), so that a machine of two cores can carry all workers, and both
searches at the same time. Both make the same number of evaluations; what differs is when children are created.

- busy: the time that evaluations took, over workers times wall time from the first proposal to the last score;
- without cost: the same where neither coordinator nor forks nor store cost anything, computed from the same durations.

    python benchmarks/utilisation.py
    python benchmarks/utilisation.py --executor ray     # a cluster on this machine, one node with 8 CPUs
"""

from __future__ import annotations

import argparse
import heapq
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evodevo.execution.base import EXECUTORS, Executor, Job, Result, Setup
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.testing.evaluations.sleeping import SleepingProblem
from evodevo.testing.real_vector import RealVectorSpace
from measuring import print_table, surroundings

MODES = ("steady", "generational")
WANTED = 0.92


def warm(executor: Executor) -> None:
    """Start all workers, so that their start is no part of the measurement."""
    for number in range(executor.workers):
        executor.submit(Job(f"warm {number}", "testing.sleep", b"1.0"))
    left = executor.workers
    while left:
        left -= sum(isinstance(event, Result) for event in executor.poll(1.0))


def without_cost(durations: Sequence[float], workers: int, batch: int) -> float:
    """Utilisation where whatever is free takes the next evaluation at once, and all wait at the end of a batch."""
    wall = 0.0
    for start in range(0, len(durations), batch):
        free = [0.0] * workers
        for seconds in durations[start : start + batch]:
            heapq.heappush(free, heapq.heappop(free) + seconds)
        wall += max(free)
    return sum(durations) / (workers * wall)


def measure(mode: Any, given: argparse.Namespace) -> dict[str, Any]:
    """Row of one search."""
    settings = StudySettings(population=given.population, generations=given.generations, mode=mode, seed=given.seed)
    setup = Setup(given.executor, given.workers, preload=("sleeping",))
    if given.executor == "ray":
        import ray

        ray.init("local", num_cpus=given.workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder) / "runs") as store,
        EXECUTORS.get(given.executor).make(setup) as executor,
    ):
        warm(executor)
        problem = SleepingProblem(given.median, given.sigma)
        study = Study(RealVectorSpace(10), problem, settings=settings, store=store, executor=executor)
        result = study.run()
        (times,) = (event.payload for event in store.events(result.run) if event.type == "study.time")
    durations = [problem.duration(member.genome, study.seed(0)) for member in result.members]
    wall = float(times["wall_seconds"])
    busy = sum(member.outcomes[0].seconds for member in result.members)
    batch = given.population if mode == "generational" else len(durations)
    return {
        "mode": mode,
        "evaluations": len(durations),
        "wall, s": round(wall, 1),
        "busy": round(busy / (given.workers * wall), 3),
        "without cost": round(without_cost(durations, given.workers, batch), 3),
    }


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executor", default="processes", help="processes, or ray: a cluster of this machine")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--population", type=int, default=16)
    parser.add_argument("--generations", type=int, default=36)
    parser.add_argument("--median", type=float, default=0.22, help="median duration of an evaluation in seconds")
    parser.add_argument("--sigma", type=float, default=1.0, help="standard deviation of its logarithm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", choices=MODES, help="this one alone, as JSON")
    return parser.parse_args()


def main() -> None:
    """Measure both modes, each in a process of its own, at the same time; print a table."""
    given = arguments()
    if given.mode is not None:
        print(json.dumps(measure(given.mode, given)))
        return
    running = [
        subprocess.Popen([sys.executable, *sys.argv, "--mode", mode], stdout=subprocess.PIPE, text=True)
        for mode in MODES
    ]
    rows = [json.loads(process.communicate()[0].splitlines()[-1]) for process in running]
    machine = surroundings()
    print(f"# utilisation of {given.workers} workers ({given.executor}), {machine['date']}")
    print(f"  {machine['processor']}, {machine['cores']} cores; median {given.median:g} s, sigma {given.sigma:g}")
    print_table(rows)
    steady = rows[0]["busy"]
    verdict = "met   " if steady >= WANTED else "MISSED"
    print(f"  {verdict} steady state keeps {given.workers} workers busy: {steady:.3f} (wanted >= {WANTED:g})")


if __name__ == "__main__":
    main()
