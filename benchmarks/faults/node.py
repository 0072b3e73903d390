"""A search on a cluster of two nodes, in which something is killed: does it end as one local worker's does?

Each case starts a Ray or a Slurm cluster on this machine and a coordinator in a process of its own, waits for a random
moment of the search, and kills, with SIGKILL,

- a node, with all its processes, and adds another one;
- the process of a Ray task or the ``srun`` of a Slurm worker, the guard of a worker, or its warm process;
- the coordinator, and goes on with the run from another process.

Afterwards individuals, parents and the bits of all scores are compared with those of a search in one process.
A case whose cluster is not installed is skipped.

    python benchmarks/faults/node.py --cases 12 --seed 0
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from campaign import Campaign, Case

from evodevo.execution.base import EXECUTORS, Executor, Setup
from evodevo.execution.family import children
from evodevo.execution.serial import SerialExecutor
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.testing import slurm_cluster
from evodevo.testing.evaluations.sleeping import SleepingProblem
from evodevo.testing.executors import wait_until_gone
from evodevo.testing.histories import difference, evaluated_twice, history, hypervolumes
from evodevo.testing.ray_cluster import RayCluster
from evodevo.testing.real_vector import RealVectorSpace
from evodevo.testing.slurm_cluster import SlurmCluster

SETTINGS = StudySettings(population=6, generations=3, seed=3, retries=2)
SYSTEMS = {
    "ray": ("node", "task", "guard", "warm", "coordinator"),
    "slurm": ("node", "srun", "guard", "warm", "coordinator"),
}
SAME = "the search is that of one process"
ONCE = "nothing is evaluated twice"
SOUND = "the store is sound"
ONE = "a kill costs each evaluation that it hits one attempt, and no other"
GONE = "no evaluation outlives its coordinator"


def search(store: Store, executor: Executor, run: str | None = None, told: Any = None) -> str:
    """Run the search of all cases, or go on with it; its id."""
    problem = SleepingProblem(0.3, 0.5)
    study = Study(
        RealVectorSpace(3), problem, settings=SETTINGS, store=store, executor=executor, run=run, listener=told
    )
    if told is not None:
        told("run", {"run": study.run_id})
    return study.run().run


def session(folder: str, system: str, address: str, run: str | None) -> None:
    """The coordinator: prints each event as a line of JSON."""

    def tell(kind: str, facts: dict[str, Any]) -> None:
        known = {name: facts[name] for name in ("run", "pid", "id", "restarted") if name in facts}
        print(json.dumps([kind, known]), flush=True)

    setup = Setup(system, 2, preload=("sleeping",), options={"address": address} if address else {})
    with Store.open(Path(folder)) as store, EXECUTORS.get(system).make(setup) as executor:
        search(store, executor, run, tell)


def prepare(shared: Path) -> None:
    """The search without a fault."""
    with Store.open(shared / "runs") as store, SerialExecutor() as executor:
        search(store, executor)


class Coordinator:
    """A process that runs ``session``.

    Attributes:
        run: id of the run; None before it is known.
        pids: processes of evaluations that it told of.
        restarts: evaluations that it began again.
    """

    def __init__(self, folder: Path, system: str, address: str, run: str | None = None) -> None:
        arguments = [str(folder), system, address, *([] if run is None else [run])]
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--session", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.run, self.pids, self.restarts = run, list[int](), list[str]()

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What it tells, as it tells it, until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("["):
                kind, facts = json.loads(line)
                self.run = facts.get("run", self.run)
                self.pids += [facts["pid"]] if "pid" in facts else []
                self.restarts += [facts["id"]] if "restarted" in facts else []
                yield kind, facts


def parent(pid: int) -> int:
    """Process id of the parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def above(pid: int, kind: str, coordinator: int) -> int:
    """The process of that kind above an evaluation: warm, its guard, the process of the Ray task; or one ``srun``."""
    if kind == "srun":
        return next(one for one in children(coordinator) if b"srun" in Path(f"/proc/{one}/cmdline").read_bytes())
    for _ in range(1 + ("warm", "guard", "task").index(kind)):
        pid = parent(pid)
    return pid


def case(case: Case) -> None:
    """One kill, and what it left."""
    system = case.rng.choice(tuple(SYSTEMS))
    kind, moment = case.rng.choice(SYSTEMS[system]), case.rng.randint(1, 16)
    case.note(system=system, kind=kind, moment=moment)
    case.skipped = reason_to_skip(system)
    if case.skipped:
        return
    cluster: Any = RayCluster(2) if system == "ray" else SlurmCluster(2)
    address = cluster.address if system == "ray" else ""
    try:
        coordinator = Coordinator(case.folder / "runs", system, address)
        begun = 0
        for event, facts in coordinator.events():
            begun += event == "progress" and "pid" in facts
            if begun == moment and "pid" in facts and kind:
                with suppress(OSError, StopIteration):  # it has ended by itself in between
                    if kind == "coordinator":
                        coordinator.process.kill()
                    elif kind == "node":
                        cluster.kill(cluster.node_of(facts["pid"]))
                        cluster.add()
                    else:
                        os.kill(above(facts["pid"], kind, coordinator.process.pid), signal.SIGKILL)
                    case.count(f"{system}: {kind}", "killed")
                begun += 1
        code = coordinator.process.wait()
        restarts, pids = list(coordinator.restarts), coordinator.pids
        if code == -signal.SIGKILL:
            case.promise(GONE, ", ".join(map(str, wait_until_gone(pids, 20.0))))
            coordinator = Coordinator(case.folder / "runs", system, address, coordinator.run)
            for _ in coordinator.events():
                pass
            code = coordinator.process.wait()
        assert coordinator.process.stderr is not None
        assert code == 0, f"exit code {code}: {coordinator.process.stderr.read()[-1500:]}"
    finally:
        cluster.close()
    case.count(f"{system}: {kind}", "restarts" if restarts else "no restart")
    case.promise(ONE, "" if len(restarts) <= 1 else f"restarted: {restarts}")
    with Store.open(case.shared / "runs", "ro") as one, Store.open(case.folder / "runs") as store:
        (expected,), (run,) = one.runs(), store.runs()
        case.promise(SAME, difference(history(store, run.id), history(one, expected.id)))
        case.promise(ONCE, " ".join(evaluated_twice(store, run.id)))
        problems = [f"{problem.subject}: {problem.message}" for problem in store.check(deep=True).problems]
        if hypervolumes(store, run.id) != hypervolumes(one, expected.id):
            problems.append("other hypervolumes")
        case.promise(SOUND, " ".join(problems))


def reason_to_skip(system: str) -> str:
    """Why a cluster cannot be started here; empty = it can."""
    if system == "slurm":
        return slurm_cluster.reason_to_skip()
    return "" if importlib.util.find_spec("ray") else "ray is not installed: pip install 'evodevo[ray]'"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--session"]:
        session(*sys.argv[2:5], sys.argv[5] if len(sys.argv) > 5 else None)
    else:
        Campaign("node", case, prepare, seconds=300.0).main(__doc__, cases=12)
