"""kill -9 at any moment: nothing finished is lost, nothing is done twice, and the future is that of an unkilled run.

Cases take turns with six kinds of work: a search with workers, of which the coordinator, the workers or both are killed
(also at progress within a training); the same with rungs and inheritance; a search, a protocol (a composed run, killed
between and within its stages and while it reads the test split), growth, and agents of a multitask system, whose
process is killed. Each case is killed up to four times: first at a named point of the store (every point takes its
turn), then at points, passes and times by chance. Then it goes on to its end, and what it has recorded is compared with
what one uninterrupted run recorded.

    python benchmarks/faults/kill.py --cases 100 --seed 0
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign import FORKS, NUMBERS, Campaign, Case
from sessions import EVOLVE, LANGUAGE, difference, everything, session, write_data

from evodevo.multitask.system import System
from evodevo.search.record import is_final
from evodevo.storage import Store, failpoints
from evodevo.testing.crash_sessions import Kill, Victim, compare
from evodevo.testing.multitask.paths import told

KILLS = 4
PROTOCOL = (
    *("evolve", "backbone.cache", *LANGUAGE, "--set", "evaluation.training.budget.tokens=128"),
    *("--set", "protocol.learning_rates=[0.001,0.01]", "--set", "protocol.tuning_tokens=128"),
    *("--set", "protocol.final_tokens=384", "--set", "protocol.finalists=1", "--set", "protocol.best=1"),
    *("--set", "protocol.seeds=1", "--set", "protocol.test_tokens=256", "--set", "protocol.curve_points=1"),
)
GROW = ("grow", "module_zoo.classifier", "--config", "grow.toml", "--strategist", "random", "--budget", "16steps")
GROW_SETTINGS = """
[zoo]
width = 16
extractor.blocks = 0
modules = "mlp,squeeze_excite"
[grow]
events = {count = 2, first = 0.25, last = 0.5, warm = 0.25, horizon = 0.25, looks = 0}
fitness.samples = 16
prune.distil_steps = 1
[evaluation]
task_settings = {questions = 4, form = "answer"}
training.budget = {steps = 8}
training.batch_size = 4
training.checkpoint_every = 2
validation_samples = 16
test_samples = 16
curve_points = 2
curve_samples = 16
exchange = false
[execution]
executor = "serial"
"""
SYSTEM_SETTINGS = """
cycle = {samples = 2, generation_size = 2}
training = {validations = 2, most_between = 64, device = "cpu"}
root.structure = {width = 16, heads = 2, hidden = 32}
root.hyperparameters.num_layers = {values = [0, 1, 2], default = 1}
root.hyperparameters.ds_image_size = {values = [8, 16], default = 8}
"""
SEARCHES: Mapping[str, dict[str, Any]] = {
    "workers": {},
    "workers, rungs, inheritance": {
        "rungs": {"shares": [0.25, 0.5], "kept": 0.5, "minimum": 2},
        "inheritance": {"budget": 0.5},
    },
}
WHOLE, LOST, SAME = "the store is whole after each kill", "nothing finished is lost or done twice", "the same future"


@dataclass(frozen=True)
class Work:
    """Work of one process that is killed.

    Attributes:
        command: begins it.
        again: goes on with it.
        points: points at which it is killed.
        before: commands that come before, which nobody kills.
        seen: everything that it recorded, but for what chance and clocks put there.
    """

    command: tuple[str, ...]
    again: tuple[str, ...]
    points: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    seen: Callable[[Store], Any] = everything


AGENTS = ("extend", "run", "zoo", "--cycles", "2")
WORKS: Mapping[str, Work] = {
    "search": Work(EVOLVE, ("resume", "last"), (*failpoints.POINTS, *failpoints.EVENT_POINTS)),
    "protocol": Work(PROTOCOL, ("resume", "last"), (*failpoints.EVENT_POINTS, *failpoints.POINTS)),
    "growth": Work(GROW, ("resume", "last"), (*failpoints.EVENT_POINTS, *failpoints.POINTS[:6])),
    "agents": Work(
        AGENTS,
        AGENTS,
        failpoints.SYSTEM_POINTS,
        (
            ("extend", "create", "zoo", "--class", "VitTiny", "--config", "system.toml"),
            ("extend", "add", "zoo", "digits"),
        ),
        lambda store: told(System.open(store, "zoo")),
    ),
}


KINDS = (*WORKS, *SEARCHES)


def finished(store: Store) -> dict[tuple[str, int, str], int]:
    """Every final evaluation with its number.

    Raises:
        AssertionError: one was done twice.
    """
    rows = [row for owner in store.runs() for row in store.evaluations(owner.id) if is_final(row)]
    found = {(row.individual_id, row.seed, row.fidelity): row.finished_seq or 0 for row in rows}
    assert len(found) == len(rows), "an evaluation was done twice"
    return found


def make_references(shared: Path) -> None:
    """The work of each kind that comes up, without a kill."""
    names = {KINDS[number % len(KINDS)] for number in json.loads((shared / NUMBERS).read_text())}
    processes = [FORKS.Process(target=_refer, args=(shared, name)) for name in WORKS if name in names]
    for process in processes:
        process.start()
    for process in processes:
        _finish(process, "what is not killed")


def _refer(shared: Path, name: str) -> None:
    """Do the work of a kind; keep what it recorded, its passes of each point, and its time."""
    work, folder = WORKS[name], shared / name
    folder.mkdir()
    write_data(folder)
    (folder / "grow.toml").write_text(GROW_SETTINGS)
    (folder / "system.toml").write_text(SYSTEM_SETTINGS)
    for command in work.before:
        _finish(session(folder, command), name)
    if work.before:
        _copy(folder / "runs", folder / "begun")
    begin = time.monotonic()
    _finish(session(folder, work.command, passes=shared / f"{name}.passes"), name)
    (shared / f"{name}.seconds").write_text(str(time.monotonic() - begin))
    with Store.open(folder / "runs", "ro") as store:
        (shared / f"{name}.seen").write_text(json.dumps(work.seen(store)))


def _finish(process: Any, what: str) -> None:
    process.join()
    assert process.exitcode == 0, f"{what} ended with {process.exitcode}"


def _copy(source: Path, target: Path) -> None:
    """A copy of a folder, whose folders stay private."""
    for path in sorted(source.rglob("*")):
        there = target / path.relative_to(source)
        if path.is_dir():
            there.mkdir(parents=True, exist_ok=True, mode=0o700)
        else:
            there.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            there.write_bytes(path.read_bytes())


def kill_process(case: Case, name: str, turn: int) -> None:
    """Kill the one process of a kind of work, again and again, and compare the end."""
    work, folder = WORKS[name], case.folder
    for file in ("text.py", "grow.toml", "system.toml"):
        (folder / file).write_bytes((case.shared / name / file).read_bytes())
    if (case.shared / name / "cache").exists():
        _copy(case.shared / name / "cache", folder / "cache")
    if work.before:
        _copy(case.shared / name / "begun", folder / "runs")
    passes = json.loads((case.shared / f"{name}.passes").read_text())
    usual = float((case.shared / f"{name}.seconds").read_text())
    points = [point for point in work.points if passes.get(point)]
    known: dict[tuple[str, int, str], int] = {}
    kills: list[str] = []
    problems: dict[str, list[str]] = {WHOLE: [], LOST: []}
    for number in range(case.rng.randint(1, KILLS)):
        point = points[turn % len(points)] if number == 0 else case.rng.choice([*points, "time", "time"])
        armed, seconds = _drawn(case.rng, point, passes, usual / (number + 1), number)
        if (name, number, turn % 3) == ("protocol", 0, 2):
            # Its last event is the result of the test split, which has been read by then.
            armed, seconds = f"before_event_commit:kill@{passes['before_event_commit']}", None
        process = session(folder, _next(folder, work), armed=armed)
        process.join(seconds)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        kills.append(armed or f"{seconds:.2f} s")
        if process.exitcode != -signal.SIGKILL:
            case.count(name, "not met")  # its moment did not come any more
            assert process.exitcode == 0, f"after {kills}: exit code {process.exitcode}"
        else:
            case.count(name, "kills")
        if not (folder / "runs" / "store.db").exists():
            continue
        with Store.open(folder / "runs") as store:
            problems[WHOLE] += [
                f"after {kills}: {one.subject}: {one.message}" for one in store.check(deep=True).problems
            ]
            now = finished(store)
        problems[LOST] += [f"after {kills}: {key}" for key, seq in known.items() if now.get(key) != seq]
        known = now
    case.note(kind=name, kills=kills)
    process = session(folder, _next(folder, work))
    process.join()
    assert process.exitcode == 0, f"after {kills}: exit code {process.exitcode}"
    with Store.open(folder / "runs", "ro") as store:
        problems[LOST] += [f"in the end: {key}" for key, seq in known.items() if finished(store).get(key) != seq]
        seen = json.loads(json.dumps(work.seen(store)))
    for promise, found in problems.items():
        case.promise(promise, "; ".join(found))
    case.promise(SAME, difference(seen, json.loads((case.shared / f"{name}.seen").read_text())))


def _drawn(
    rng: random.Random, point: str, passes: Mapping[str, int], usual: float, number: int
) -> tuple[str, float | None]:
    """A point and its pass as the variable wants it, or a time in seconds; later kills come where less is left."""
    if point == "time":
        return "", rng.uniform(0.0, usual)
    last = max(1, passes[point] // (number + 1))
    return f"{point}:kill@{rng.choice((1, last, rng.randint(1, last)))}", None


def _next(folder: Path, work: Work) -> tuple[str, ...]:
    """The command that a user gives now: go on where there is a run, else begin."""
    if work.before or not (folder / "runs" / "store.db").exists():
        return work.command
    with Store.open(folder / "runs") as store:
        return work.again if store.runs() else work.command


def kill_search(case: Case, name: str, turn: int) -> None:
    """Kill the coordinator of a search, its workers, or both, again and again; ``Victim`` judges each death."""
    data, cache = case.folder / "text.py", case.folder / "cache"
    write_data(case.folder)
    for folder in (cache, case.folder / "reference", case.folder / "killed"):
        folder.mkdir()
    reference = Victim(case.folder / "reference", data, cache, study=SEARCHES[name])
    reference.session()
    victim = Victim(case.folder / "killed", data, cache, study=SEARCHES[name])
    kills, broken = [], ""
    try:
        for number in range(case.rng.randint(1, KILLS)):
            kill = _who(case.rng, turn if number == 0 else None)
            kills.append(f"{kill.who} at {kill.at} {kill.count}")
            report = victim.session(kill, workers=case.rng.randint(1, 2))
            case.count(name, "kills" if report.struck else "not met")
            if not report.killed and not report.struck:
                break
        victim.session()
    except AssertionError as error:
        broken = str(error) or repr(error)
    case.note(kind=name, kills=kills)
    case.promise(LOST, broken)
    if not broken:
        try:
            compare(victim, reference)
        except AssertionError as error:
            broken = str(error) or "another search"
        case.promise(SAME, broken)


def _who(rng: random.Random, turn: int | None) -> Kill:
    """A kill like any other; the first of a case has its turn among the points."""
    place = 2 if turn is not None else rng.randrange(3)
    who = rng.choice(("coordinator", "worker", "both"))
    if place == 0:
        return Kill(who, "time", rng.randint(100, 1200))
    if place == 1:
        return Kill(who, "progress", rng.randint(1, 40))
    point = failpoints.POINTS[turn % len(failpoints.POINTS)] if turn is not None else rng.choice(failpoints.POINTS)
    # Blobs are written by workers, everything else by the coordinator.
    return Kill(rng.choice(("worker", "both")) if "blob" in point else "coordinator", point, rng.randint(1, 3))


def kill(case: Case) -> None:
    """One case: its kind of work, and the turn of that kind."""
    name, turn = KINDS[case.number % len(KINDS)], case.number // len(KINDS)
    (kill_process if name in WORKS else kill_search)(case, name, turn)


IMPORTS = (
    *("evodevo.backbone.evaluate", "evodevo.backbone.problem", "evodevo.backbone.protocol.runs"),
    *("evodevo.experiments.evaluate", "evodevo.growth.run", "evodevo.multitask.run.run", "evodevo.runs.evolve"),
)

if __name__ == "__main__":
    Campaign("kill", kill, make_references, seconds=1800, imports=IMPORTS).main(__doc__, cases=100, minutes=60)
