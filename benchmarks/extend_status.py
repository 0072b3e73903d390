"""How long ``evodevo extend status`` and ``graph`` take as processes, for a system of many tasks.

Run: python benchmarks/extend_status.py [--json PATH] [--tasks 100 --cycles 3 --rounds 15]

The system is made by the driver: each agent runs so many cycles of 16 children, whose training alone is replaced by a
function of their values (``evodevo.testing.multitask.paths``). Its store lies in memory (/dev/shm) while it is made,
where there is one, and on disk when it is read. Wall time of whole processes, in turns, beside that of
``python -c pass``; and the least CPU time of three, which other work on the machine moves less.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from evodevo.storage import Store
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of
from measuring import Report, Spread, arguments, take_turns

CHILDREN, GENERATION = 16, 4
SECONDS = 1.0
SEEN = "import sys; from evodevo.cli.application import run; run(sys.argv[1:]); print('torch' in sys.modules)"


def make(folder: Path, tasks: int, cycles: int) -> float:
    """A system "zoo" in a new store; the seconds that it took."""
    begin = time.perf_counter()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        with Store.open(Path(scratch) / "runs") as store:
            names = tuple(f"task_{number:03d}" for number in range(tasks))
            system = new_system(store, names, samples=CHILDREN, size=GENERATION)
            system.run(tasks_of(system), cycles, executor_of(PathTrainer(store)))
        shutil.copytree(Path(scratch) / "runs", folder)
    return time.perf_counter() - begin


def children_seconds() -> float:
    """CPU time of all processes that this one began and saw end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, tasks=100, cycles=3, rounds=15)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "runs"
        seconds = make(folder, options.tasks, options.cycles)
        sizes = f"{options.tasks} tasks, {options.cycles} cycles of {CHILDREN} children, made in {seconds:.0f} s"
        report = Report("Status of a system", settings={"system": sizes, "clock": "wall time of a process"})
        store = ["--store", str(folder)]
        evodevo = [sys.executable, "-m", "evodevo.cli", "extend"]
        command = [*evodevo, "status"]
        processes = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "evodevo extend status zoo": [*command, "zoo", *store],
            "evodevo extend status zoo --json": [*command, "zoo", "--json", *store],
            "evodevo extend status zoo --task task_000": [*command, "zoo", "--task", "task_000", *store],
            "evodevo extend status": [*command, *store],
            "evodevo extend graph zoo": [*evodevo, "graph", "zoo", *store],
            "evodevo extend graph zoo -o FILE": [*evodevo, "graph", "zoo", "-o", f"{scratch}/zoo.svg", *store],
        }
        runs = {
            name: lambda words=words: subprocess.run(words, capture_output=True, check=True)
            for name, words in processes.items()
        }
        taken = take_turns(runs, options.rounds, settle=False, clock=time.perf_counter)
        used = take_turns(runs, 3, settle=False, clock=children_seconds)
        nothing = Spread.of(taken["python -c pass"]).median
        for name, values in taken.items():
            found = Spread.of(values)
            report.rows.append(
                {
                    "process": name,
                    "seconds": found.show(),
                    "slowest": f"{max(values):.3g}",
                    "of CPU": f"{min(used[name]):.3g}",
                    "times python -c pass": f"{found.median / nothing:.3g}",
                }
            )
            if name != "python -c pass":
                report.at_most(f"{name}, median seconds", found.median, SECONDS)
                report.at_most(f"{name}, CPU seconds", min(used[name]), SECONDS)
        seen = subprocess.run(
            [sys.executable, "-c", SEEN, "extend", "status", "zoo", *store], capture_output=True, text=True, check=True
        )
        report.at_most("imports torch", float(seen.stdout.splitlines()[-1] == "True"), 0.0)
    report.finish(options.json)


if __name__ == "__main__":
    main()
