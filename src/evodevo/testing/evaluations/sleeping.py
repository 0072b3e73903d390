"""A search whose evaluations sleep for unequal times: for tests of executors, and for measurements of utilisation."""

from __future__ import annotations

import os
import time
from typing import Any

from evodevo import canonical
from evodevo.execution.base import Report
from evodevo.randomness import generator
from evodevo.search.problem import Goal, Outcome, Problem, read_answer, write_answer
from evodevo.testing.real_vector import Point, zdt1


def sleep(payload: bytes, report: Report) -> bytes:
    """Sleep, then give the values of ZDT1 at a point; see ``SleepingProblem.payload``."""
    given = canonical.loads(payload, what="an evaluation that sleeps")
    report({"share": 0.0, "pid": os.getpid()})
    time.sleep(given["seconds"])
    first, second = zdt1(tuple(given["point"]))
    return write_answer(Outcome(scores={"first": first, "second": second}))


class SleepingProblem(Problem):
    """ZDT1 with evaluations of a duration that depends on genome and seed alone, distributed log-normally.

    Args:
        median: Median of the duration in seconds, > 0.
        sigma: Standard deviation of its logarithm, >= 0.
    """

    goals = (Goal("first"), Goal("second"))
    fidelity = "sleeping"
    entry = "testing.sleeping"

    def __init__(self, median: float, sigma: float = 1.0) -> None:
        self._median, self._sigma = median, sigma

    def duration(self, genome: Point, seed: int) -> float:
        """Duration of an evaluation in seconds."""
        drawn = generator(seed, "duration", canonical.digest(list(genome))).lognormal(0.0, self._sigma)
        return float(self._median * drawn)

    def payload(self, genome: Any, seed: int, resume: str | None = None) -> bytes:
        return canonical.dumps({"point": list(genome), "seconds": self.duration(genome, seed)}).encode()

    def read(self, payload: bytes) -> Outcome:
        return read_answer(payload)
