"""Candidates that misbehave inside a real search on two workers: one row and one reason each, and nothing is left."""

from __future__ import annotations

import json
import os
import sys
import threading
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evodevo import canonical
from evodevo.cli.application import run
from evodevo.execution.family import descendants
from evodevo.execution.processes import ProcessExecutor
from evodevo.objectives.base import OBJECTIVES
from evodevo.search.members import BASELINE
from evodevo.search.problem import Goal, Outcome, Problem, read_numbers
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.testing.executors import wait_until_gone
from evodevo.testing.real_vector import Point, RealVectorSpace, zdt1

pytestmark = pytest.mark.slow

SPACE = RealVectorSpace(2)
MEMORY = 128 * 2**20

# What a candidate does, what that one gets, and the reason that is recorded.
BEHAVIOURS: tuple[tuple[str, str, str | None], ...] = (
    ("echo", '{"f1": 0.5, "f2": 0.5}', None),
    ("crash", "", "crash"),
    ("abort", "", "crash"),
    ("exit", "", "crash"),
    ("ignore_sigterm_and_hang", "", "timeout"),
    ("hang", "", "timeout"),
    ("allocate", str(2 * MEMORY), "memory"),
    ("allocate_at_once", str(64 * MEMORY), "memory"),
    ("echo", '{"f1": "nan", "f2": 0.5}', "nan"),
    ("echo", '{"f1": 0.5}', "exception"),
    ("echo", "rubbish", "exception"),
    ("fail", "words", "exception"),
    ("fork_grandchild", "hang", "timeout"),
    ("kill_worker", "", "lost"),
)


class Misbehaviour(Problem):
    """The first coordinate decides what a candidate does."""

    entry = "testing.act"
    goals = (Goal("f1"), Goal("f2"))
    fidelity = "misbehaviour"
    seconds = 3.0
    memory_bytes = MEMORY

    def payload(self, genome: Point, seed: int, resume: str | None = None) -> bytes:
        name, given, reason = behaviour(genome)
        if reason is None:
            given = canonical.dumps(dict(zip(("f1", "f2"), zdt1(genome), strict=True)))
        return json.dumps([name, given]).encode()

    def read(self, payload: bytes) -> Outcome:
        return Outcome(scores=read_numbers(canonical.loads(payload)))

    def baselines(self) -> dict[str, Any]:
        count = len(BEHAVIOURS)
        return {str(number): (0.5 + (number + 0.5) / count / 2, 0.5) for number in range(count)}


def behaviour(genome: Point) -> tuple[str, str, str | None]:
    """The lower half behaves; the upper half is divided among all behaviours."""
    return BEHAVIOURS[max(0, int((genome[0] - 0.5) * 2 * len(BEHAVIOURS)))]


def test_each_has_its_reason_and_the_search_goes_on(tmp_path: Path) -> None:
    before = set(descendants(os.getpid()))
    seen: set[int] = set()
    with Store.open(tmp_path / "runs") as store, ProcessExecutor(2, preload=()) as executor:

        def listen(kind: str, facts: dict[str, Any]) -> None:
            seen.update(descendants(os.getpid()))
            seen.update(value for value in facts.get("pids", ()) if isinstance(value, int))

        chosen = StudySettings(population=4, generations=2, mode="steady", retries=1, seed=5)
        study = Study(SPACE, Misbehaviour(), settings=chosen, store=store, executor=executor, listener=listen)
        result = study.run()
        assert result.state == "finished"
        rows = [row for row in store.evaluations(result.run) if row.finished_seq is not None]
        assert Counter(row.individual_id for row in rows) == Counter(one.id for one in result.members), "one row each"
        by_id = {row.individual_id: row for row in rows}
        for one in result.members:
            name, _, reason = behaviour(one.genome)
            row = by_id[one.id]
            assert (row.state, row.reason) == ("failed" if reason else "done", reason), (name, row.detail)
            assert bool(row.detail) == bool(reason), "the reason is told in words too"
        assert {one.operation for one in result.members} > {BASELINE}
        assert result.front
        assert all(behaviour(one.genome)[2] is None for one in result.front)
        assert store.check(deep=True).ok
    assert wait_until_gone(sorted(seen - before)) == []


def test_what_was_lost_is_done_again_on_resume(tmp_path: Path) -> None:
    class Mended(Misbehaviour):
        def payload(self, genome: Point, seed: int, resume: str | None = None) -> bytes:
            name, given, reason = behaviour(genome)
            good = reason in (None, "lost")
            return super().payload((0.0, genome[1]), seed) if good else json.dumps([name, given]).encode()

    chosen = StudySettings(population=2, generations=1, retries=1, seed=5)
    with Store.open(tmp_path / "runs") as store, ProcessExecutor(2, preload=()) as executor:
        first = Study(SPACE, Misbehaviour(), settings=chosen, store=store, executor=executor).run()
        lost = [one.id for one in first.members if one.outcomes[0].reason == "lost"]
        assert len(lost) == 1
        again = Study(SPACE, Mended(), settings=chosen, store=store, executor=executor, run=first.run).run()
        assert next(one for one in again.members if one.id == lost[0]).outcomes[0].reason is None
        done = Counter(row.individual_id for row in store.evaluations(first.run))
        assert {one for one, count in done.items() if count > 1} == set(lost), "and nobody else"


# The same through the command line, with real training. An installed package adds an objective that misbehaves.

OBJECTIVE = """
import ctypes, mmap, os, signal, time, zlib
from evodevo.objectives.base import Measurement, Objective


def crash():
    ctypes.string_at(0)


def leave():
    os._exit(3)


def hang():
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(60)


def eat():
    kept = []
    while True:
        kept.append(mmap.mmap(-1, 2**24))
        kept[-1].write(b"x" * 2**24)


def raise_():
    raise ValueError("a mistake of the package")


DEEDS = [lambda: 1.0, crash, leave, hang, eat, lambda: float("nan"), raise_]


def measure(subject):
    return Measurement(DEEDS[zlib.crc32(repr(subject.genome).encode()) % len(DEEDS)]())


MISBEHAVE = Objective("misbehave", "deeds", "minimise", "genome", "does what it must not do", measure)
"""
REASONS = [None, "crash", "crash", "timeout", "memory", "nan", "exception"]


@pytest.fixture
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package ``misbehaving`` is installed, for this process until the test's end and for those that it starts."""
    folder = tmp_path / "site"
    information = folder / "misbehaving-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / "misbehaving.py").write_text(OBJECTIVE)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: misbehaving\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[evodevo.objectives]\nmisbehave = misbehaving:MISBEHAVE\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(OBJECTIVES, "_rows", dict(OBJECTIVES._rows))
    monkeypatch.delitem(sys.modules, "misbehaving", raising=False)


@pytest.mark.usefixtures("_package")
def test_evolve_exits_0_with_one_row_and_one_reason_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = tmp_path / "text.txt"
    data.write_text("the quick brown fox jumps over the lazy dog\n" * 400)
    settings = {
        "space.depth": 4,
        "space.designs": '["hybrid"]',
        "evaluation.language.context_length": 16,
        "evaluation.training.batch_size": 2,
        "evaluation.training.device": "cpu",
        "evaluation.validation_tokens": 256,
        "evaluation.seconds": 12,
        "evaluation.memory_bytes": 2**30,
        "study.confirmations": 0,
        "execution.packages": '["misbehaving"]',
    }
    command = [
        *("evolve", "backbone.demo", "--data", str(data)),
        *("--objective", "quality", "--objective", "misbehave", "--tokens", "320", "--workers", "1"),
        *("--population", "7", "--generations", "1", "--seed", "115", "--store", str(tmp_path / "runs")),
        *[word for key, value in settings.items() for word in ("--set", f"{key}={value}")],
    ]
    before, seen, over = set(descendants(os.getpid())), set[int](), threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            seen.update(descendants(os.getpid()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = run(command)
    over.set()
    watcher.join()
    assert code == 0, capsys.readouterr().err
    assert len(seen - before) > 2, "workers and evaluations were seen"
    assert wait_until_gone(sorted(seen - before)) == []
    capsys.readouterr()
    assert run(["front", "last", "--store", str(tmp_path / "runs"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["front"], "the package is enabled for reading too"
    with Store.open(tmp_path / "runs", "ro") as store:
        (made,) = store.runs()
        assert made.state == "finished"
        individuals = {row.id: row for row in store.individuals(made.id)}
        rows = store.evaluations(made.id)
        assert Counter(row.individual_id for row in rows) == Counter(list(individuals)), "one row each"
        assert len(individuals) == 7 + 1
        reasons = set()
        for row in rows:
            genes = individuals[row.individual_id].genome_envelope["genes"]
            deed = zlib.crc32(repr(tuple(map(tuple, genes))).encode()) % len(REASONS)
            assert row.reason == REASONS[deed], (row.reason, row.detail)
            assert bool(row.detail) == bool(row.reason), "the reason is told in words too"
            reasons.add(deed)
        assert reasons == set(range(len(REASONS))), "every deed is done: the seed is chosen so"
        assert store.check(deep=True).ok
