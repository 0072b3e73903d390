"""Functions that misbehave in every way that an isolated evaluation has to survive, and searches over them."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evodevo import canonical
from evodevo.execution.base import Executor
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study, StudyResult
from evodevo.storage import Store
from evodevo.testing.real_vector import Point, RealVectorSpace, zdt1

SECONDS = 3.0
MEMORY_BYTES = 2**29


def _leave() -> None:
    os._exit(3)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    time.sleep(60)


def _allocate() -> None:
    kept = []
    while True:
        kept.append(bytearray(2**25))
        time.sleep(0.001)


def _abandon_a_child() -> None:
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
        os._exit(0)


def _deafen() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(60)


def _close_everything() -> None:
    os.closerange(0, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


WAYS: Mapping[str, tuple[Callable[[], Any], str | None]] = {
    "segmentation fault": (lambda: ctypes.string_at(0), "crash"),
    "abort": (os.abort, "crash"),
    "exit": (_leave, "crash"),
    "closed files": (_close_everything, "crash"),
    "sys.exit": (lambda: sys.exit(3), "exception"),
    "hang": (lambda: time.sleep(60), "timeout"),
    "hang without signals": (_deafen, "timeout"),
    "kill of itself": (lambda: _kill(os.getpid()), "killed"),
    "kill of its worker": (lambda: _kill(os.getppid()), "lost"),
    "memory": (_allocate, "memory"),
    "an exception": (lambda: 1 / 0, "exception"),
    "endless recursion": (lambda: _recurse(0), "exception"),
    "nothing": (lambda: None, "exception"),
    "text": (lambda: "ab", "exception"),
    "too few numbers": (lambda: (1.0,), "exception"),
    "names that are no text": (lambda: {1: 1.0, 2: 2.0}, "exception"),
    "other names": (lambda: {"c": 1.0}, "exception"),
    "not a number": (lambda: (float("nan"), 1.0), "nan"),
    "output": (lambda: print("x" * 2**22), None),
    "a child that stays": (_abandon_a_child, None),
}
"""Name -> what it does or returns, and the reason of the failure; None where the evaluation succeeds all the same."""


def _recurse(depth: int) -> int:
    return _recurse(depth + 1) + 1


def way_of(genome: Point, ways: Sequence[str], seed: int) -> str | None:
    """The way in which the function misbehaves at a point; at two points of three it does not."""
    chance = random.Random(f"{seed} {canonical.digest(list(genome))}")
    return chance.choice(ways) if chance.random() < 1 / 3 else None


def search(
    store: Store,
    ways: Sequence[str],
    seed: int,
    *,
    plain: bool = False,
    executor: Executor | None = None,
    population: int = 8,
    generations: int = 4,
) -> StudyResult:
    """A search of ZDT1 whose function misbehaves at a third of the points.

    Args:
        store: Store of the records.
        ways: Names of ``WAYS`` that occur.
        seed: Seed of the search, and of who misbehaves.
        plain: Whether the function raises an exception instead, wherever it would fail.
        executor: Executor of the evaluations; None = the default of a study.
        population: Number of individuals of a generation.
        generations: Number of generations.
    """

    def evaluate(genome: Point) -> Any:
        way = way_of(genome, ways, seed)
        if way is not None and (WAYS[way][1] is not None or not plain):
            if plain:
                raise ValueError("it fails")
            answer = WAYS[way][0]()
            if WAYS[way][1] is not None:
                return answer
        return zdt1(genome)

    settings = StudySettings(population=population, generations=generations, seed=seed, retries=1)
    study = Study(
        RealVectorSpace(3),
        evaluate,
        goals=("first", "second"),
        settings=settings,
        seconds=SECONDS,
        memory_bytes=MEMORY_BYTES,
        store=store,
        executor=executor,
    )
    return study.run()


def judged(result: StudyResult, plain: StudyResult, ways: Sequence[str], seed: int) -> list[str]:
    """What a search did otherwise than promised: a failure without its reason, or another search than with plain
    failures."""
    wrong = []
    for member, other in zip(result.members, plain.members, strict=True):
        way = way_of(member.genome, ways, seed)
        reason = None if way is None else WAYS[way][1]
        found = member.outcomes[0]
        if found.reason != reason:
            wrong.append(f"{way}: {found.reason} instead of {reason}: {found.detail[-300:]}")
        if (member.genome, member.operation) != (other.genome, other.operation):
            wrong.append(f"{way}: another individual than in a search with plain failures")
        elif found.scores != other.outcomes[0].scores and reason != "nan":
            wrong.append(f"{way}: other scores than in a search with plain failures")
    if result.hypervolumes != plain.hypervolumes:
        wrong.append("another hypervolume than in a search with plain failures")
    return wrong
