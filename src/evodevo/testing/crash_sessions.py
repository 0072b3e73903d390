"""Searches with real training that are killed on purpose, and the laws that must hold afterwards.

One session is one process: ``python -m evodevo.testing.crash_sessions PLAN`` begins the search of the plan, or goes on
with it, and kills itself, its workers, or both as the plan demands. It prints each evaluation that it holds to be
recorded. ``Victim`` runs sessions and checks the stores that they leave behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evodevo.execution.family import descendants
from evodevo.search.record import is_final
from evodevo.storage import Store
from evodevo.storage.failpoints import VARIABLE
from evodevo.testing.executors import wait_until_gone
from evodevo.testing.histories import Birth, difference, evaluated_twice, history, hypervolumes

if TYPE_CHECKING:
    from evodevo.search.study import Study

Who = Literal["coordinator", "worker", "both", "nobody"]

# Small, and yet everything takes part: baselines, two generations, weights, checkpoints within a training, fresh seeds.
SETTINGS: dict[str, Any] = {
    "space": {"depth": 4, "dimensions": {"width": 64}},
    "evaluation": {
        "language": {"context_length": 32},
        "training": {
            "budget": {"tokens": 2560},
            "batch_size": 4,
            "device": "cpu",
            "report_every": 2,
            "checkpoint_every": 6,
        },
        "validation_tokens": 512,
    },
    "study": {"population": 4, "generations": 2, "confirmations": 1, "retries": 5, "seed": 1},
}


@dataclass(frozen=True)
class Kill:
    """The processes that receive SIGKILL, and the time.

    Attributes:
        who: "coordinator", all of its "worker" processes, "both", or "nobody".
        at: a failpoint, which the process that passes it does not survive; "progress" of a training; or "time".
        count: the how-manieth pass of it; hundredths of a second where ``at`` is "time".
    """

    who: Who = "nobody"
    at: str = ""
    count: int = 1

    @property
    def failpoint(self) -> str:
        """The value of the variable that arms it, or empty."""
        return "" if self.at in ("", "progress", "time") else f"{self.at}:kill@{self.count}"


@dataclass(frozen=True)
class SessionPlan:
    """One session."""

    store: str
    cache: str
    data: str
    workers: int
    kill: Kill
    run: str | None = None
    study: dict[str, Any] = field(default_factory=dict)


def main(text: str) -> None:
    """Run the session of a plan, given as JSON."""
    from evodevo.runs.evolve import evolve, resume

    values = json.loads(text)
    plan = SessionPlan(**{**values, "kill": Kill(**values["kill"])})
    passes, armed = 0, bool(plan.kill.failpoint)
    studies: list[Study] = []

    def listen(kind: str, facts: dict[str, Any]) -> None:
        nonlocal passes, armed
        if kind == "evaluated":
            print(json.dumps(["evaluated", facts["id"], facts["seed"], facts.get("share", 1)]), flush=True)
        if kind == "progress":
            passes += plan.kill.at == "progress"
            # A failpoint within a worker has killed an evaluation; now those die with it whom the plan names.
            if armed and "restarted" in facts:
                armed = False
                disarm(studies[0])
                strike(plan.kill.who)
            if passes == plan.kill.count:
                passes += 1
                strike(plan.kill.who)

    def begin(study: Study) -> None:
        studies.append(study)
        print(json.dumps(["run", study.run_id]), flush=True)

    places: dict[str, Any] = {"store": plan.store, "cache_folder": Path(plan.cache), "listener": listen}
    execution = {"workers": plan.workers}
    if plan.run is None:
        settings = {**SETTINGS, "study": {**SETTINGS["study"], **plan.study}, "execution": execution}
        settings["evaluation"] = {
            **SETTINGS["evaluation"],
            "language": {**SETTINGS["evaluation"]["language"], "data": plan.data},
        }
        evolve("backbone.demo", overrides=settings, on_start=begin, **places)
    else:
        resume(plan.run, overrides={"execution": execution}, on_start=begin, **places)


def disarm(study: Study) -> None:
    """Workers that start from now on pass their failpoints; else each of them would die at its first evaluation."""
    executor: Any = study._evaluations.dispatcher.executor
    executor._environment.pop(VARIABLE)


def strike(who: Who) -> None:
    """Send SIGKILL from within the coordinator."""
    print(json.dumps(["struck"]), flush=True)
    if who in ("worker", "both"):
        for pid in descendants(os.getpid())[1:]:
            _kill(pid)
    if who in ("coordinator", "both"):
        os.kill(os.getpid(), signal.SIGKILL)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@dataclass
class Report:
    """The result of one session.

    Attributes:
        killed: the coordinator died of SIGKILL.
        struck: a process was killed; the plan's moment may never have come.
        recorded: number of evaluations that this session finished.
        seconds: duration of the session.
    """

    killed: bool
    struck: bool
    recorded: int
    seconds: float


class Victim:
    """One search that is killed again and again, in a folder of its own.

    Args:
        folder: folder of its store; exists.
        data: a file of text.
        cache: folder of prepared data.
        workers: number of evaluations at a time; may change between sessions.
        study: further settings of the search.
    """

    def __init__(
        self, folder: Path, data: Path, cache: Path, workers: int = 1, study: dict[str, Any] | None = None
    ) -> None:
        self._plan = SessionPlan(str(folder / "runs"), str(cache), str(data), workers, Kill(), study=study or {})
        self._known: dict[tuple[str, int, str], int] = {}

    @property
    def run(self) -> str | None:
        """The id of the run, once it exists."""
        return self._plan.run

    def session(self, kill: Kill | None = None, *, workers: int | None = None) -> Report:
        """Run one session to its end and judge what it leaves.

        Raises:
            AssertionError: it ended in another way than by being finished or killed, something is left running, the
                store is damaged, or an evaluation that was recorded is gone or was done again.
        """
        kill = kill or Kill()
        self._plan = replace(self._plan, kill=kill, workers=workers or self._plan.workers)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop(VARIABLE, None)
        if kill.failpoint:
            environment[VARIABLE] = kill.failpoint
        command = [sys.executable, "-m", "evodevo.testing.crash_sessions", json.dumps(asdict(self._plan))]
        begin = time.monotonic()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            output, errors, seen, struck = self._watch(process, kill)
        killed = process.returncode == -signal.SIGKILL
        assert killed or process.returncode == 0, f"exit code {process.returncode}: {errors[-3000:]}"
        left = wait_until_gone(sorted(seen))
        assert not left, f"processes {left} are left"
        seconds = time.monotonic() - begin
        words = [json.loads(line) for line in output.splitlines()]
        struck = struck or killed or ["struck"] in words
        for word in words:
            if word[0] == "run":
                self._plan = replace(self._plan, run=word[1])
        if self.run is None and Path(self._plan.store).exists():
            # Killed between recording the run and saying so.
            with Store.open(self._plan.store, "ro", create=False) as store:
                runs = store.runs()
                self._plan = replace(self._plan, run=runs[-1].id if runs else None)
        if self.run is None:
            return Report(killed, struck, 0, seconds)
        recorded = {(word[1], word[2], word[3]) for word in words if word[0] == "evaluated"}
        return Report(killed, struck, self._judge(recorded), seconds)

    def result(self) -> tuple[list[Birth], list[str]]:
        """History of the finished search, and its hypervolumes."""
        assert self.run is not None
        with Store.open(self._plan.store, "ro", create=False) as store:
            assert store.run(self.run).state == "finished"
            assert evaluated_twice(store, self.run) == []
            return history(store, self.run), hypervolumes(store, self.run)

    def _watch(self, process: subprocess.Popen[str], kill: Kill) -> tuple[str, str, set[int], bool]:
        seen: set[int] = set()
        begin = time.monotonic()
        due, struck = kill.at == "time", False
        while True:
            family = descendants(process.pid)[1:]
            seen.update(family)
            if due and time.monotonic() - begin > kill.count / 100:
                victims = [*family] if kill.who in ("worker", "both") else []
                victims += [process.pid] if kill.who in ("coordinator", "both") else []
                for pid in victims:
                    _kill(pid)
                due, struck = False, bool(victims)
            try:
                output, errors = process.communicate(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            return output, errors, seen, struck

    def _judge(self, printed: set[tuple[str, int, float]]) -> int:
        """Number of new evaluations, after a check that none is gone."""
        assert self.run is not None
        with Store.open(self._plan.store, create=False) as store:
            store.check(deep=True).require()
            assert store.owner(self.run) is None, "a dead process owns nothing"
            rows = [row for row in store.evaluations(self.run) if is_final(row)]
        now = {(row.individual_id, row.seed, row.fidelity): row.finished_seq or 0 for row in rows}
        assert len(now) == len(rows), "an evaluation was done twice"
        assert {identity for identity, _, _ in printed} <= {one for one, _, _ in now}, "what was said is recorded"
        assert len(printed) <= len(now.keys() - self._known.keys()), "each seed of it, too"
        gone = {key for key, seq in self._known.items() if now.get(key) != seq}
        assert not gone, f"finished evaluations are gone or were redone: {gone}"
        new = len(now) - len(self._known)
        self._known = now
        return new


def compare(victim: Victim, reference: Victim) -> None:
    """Raises AssertionError where the two searches are not the same."""
    (ours, volumes), (theirs, expected) = victim.result(), reference.result()
    assert not difference(ours, theirs), difference(ours, theirs)
    assert volumes == expected


if __name__ == "__main__":
    main(sys.argv[1])
