"""A long search in one store: is the last evaluation as cheap as the first, and are readers still quick?

Each case is a search of a cheap function (no training, in this process), by generations or in steady state, whose
evaluations are all recorded. Promises: an evaluation costs at the end at most 1.2 times what it costs after the first
tenth (medians over generations, CPU time of the coordinator, proposals and records included); the memory of the
process grows by at most 4 kB an evaluation after the first tenth; `evodevo status` and `evodevo front` take at most 1 s
of CPU time on that store; the store has no damage.

    python benchmarks/faults/long_run.py --cases 1 --evaluations 10000
"""

from __future__ import annotations

import itertools
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from campaign import Campaign, Case

from evodevo.execution.serial import SerialExecutor
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.testing.real_vector import RealVectorSpace, zdt1

POPULATION = 100
SLOWER, BYTES_EACH, READER_SECONDS = 1.2, 4096, 1.0
FEW = 1000
"""Below so many evaluations a window holds too little to be judged."""


def resident() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def reader_seconds(folder: Path, *command: str) -> float:
    """CPU seconds of a command that reads the store, start of Python included; the best of three."""
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "evodevo.cli", *command, "--store", str(folder), "--json"],
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(seconds)


def too_much(name: str, measured: float, bound: float) -> str:
    """The evidence against a bound; empty where it is kept."""
    return "" if measured <= bound else f"{name} {measured:.3g}, more than {bound:g}"


def search(case: Case) -> None:
    """One long search, and its readers."""
    folder = case.folder / "runs"
    generations = case.options["evaluations"] // POPULATION
    mode = ("generational", "steady")[case.number % 2]
    marks: list[tuple[float, float, int]] = []

    def listen(kind: str, facts: dict[str, Any]) -> None:
        if kind == "generation":
            marks.append((time.process_time(), time.perf_counter(), resident()))

    settings = StudySettings(mode=mode, population=POPULATION, generations=generations, seed=case.rng.randrange(2**31))
    with Store.open(folder) as store:
        result = Study(
            RealVectorSpace(8),
            zdt1,
            goals=("first", "second"),
            settings=settings,
            store=store,
            executor=SerialExecutor(),
            listener=listen,
        ).run()
        count = len(store.evaluations(result.run))
        case.promise("every evaluation is recorded once", "" if count == len(result.members) else f"{count} rows")
        problems = [f"{problem.subject}: {problem.message}" for problem in store.check(deep=True).problems]
        case.promise("the store has no damage", "; ".join(problems))
    tenth = max(1, generations // 10)
    # The first tenth is left out: nothing is selected from yet, and everything is imported then.
    cpu, wall = ([1000 * (b[at] - a[at]) / POPULATION for a, b in itertools.pairwise(marks)] for at in (0, 1))
    first, last = (statistics.median(part) for part in (cpu[tenth : 2 * tenth], cpu[-tenth:]))
    grown = (marks[-1][2] - marks[tenth - 1][2]) / (POPULATION * (len(marks) - tenth))
    readers = {name: reader_seconds(folder, *name.split()) for name in ("status", "front last")}
    with Store.open(case.folder / "empty"):
        base = reader_seconds(case.folder / "empty", "status")
    case.note(
        mode=mode,
        evaluations=count,
        milliseconds_each={"first": round(first, 2), "last": round(last, 2), "ratio": round(last / first, 3)},
        wall_milliseconds_each=[round(statistics.median(part), 2) for part in (wall[tenth : 2 * tenth], wall[-tenth:])],
        megabytes={"tenth": round(marks[tenth - 1][2] / 2**20, 1), "end": round(marks[-1][2] / 2**20, 1)},
        memory_ratio=round(marks[-1][2] / marks[tenth - 1][2], 3),
        bytes_each=round(grown),
        reader_cpu_seconds={"status of an empty store": round(base, 2)}
        | {name: round(seconds, 2) for name, seconds in readers.items()},
    )
    if count >= FEW:
        case.promise(f"an evaluation costs at most {SLOWER} times what it did", too_much("ratio", last / first, SLOWER))
        case.promise(f"memory grows by at most {BYTES_EACH} bytes each", too_much("bytes each", grown, BYTES_EACH))
    for name, seconds in readers.items():
        case.promise(
            f"readers take at most {READER_SECONDS:g} s", too_much(f"seconds of {name}", seconds, READER_SECONDS)
        )


if __name__ == "__main__":
    campaign = Campaign("long run", search, seconds=3600, numbers={"evaluations": 10_000}, always=True)
    campaign.main(__doc__, cases=1, minutes=60)
