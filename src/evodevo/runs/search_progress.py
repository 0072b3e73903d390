"""Progress of a running search, from the messages of the study to its listener. No terminal here."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evodevo.search.members import Member
    from evodevo.search.study import Study

OWN_SEED = 0
"""The number of the search's own evaluation; higher ones are confirmations."""


class SearchProgress:
    """Counts, shares and times of one search.

    Attributes:
        study: Study; None before the search begins.
        phase: Phase of the search: preparation, baselines, generations or confirmation.
        generation: Number of the generation that is being evaluated.
        running: Share of a training that is done, 0 to 1, by (individual, seed number).
        errors: Last error on validation samples, 0 to 1, of trainings that have measured one and run.
        scored: Number of individuals of the search with scores.
        failed: Number of failures by reason.
        hypervolume, gain: Hypervolume after the last closed generation, and its change from the one before.
        front: Members of the front.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.study: Study | None = None
        self.phase = "preparation"
        self.generation = 0
        self.running: dict[tuple[str, int], float] = {}
        self.errors: dict[tuple[str, int], float] = {}
        self.scored = 0
        self.failed: Counter[str] = Counter()
        self.hypervolume: float | None = None
        self.gain: float | None = None
        self.front: list[Member] = []
        self._clock = clock
        self._begun = clock()
        self._earlier = 0
        self._finished = 0

    def begin(self, study: Study) -> None:
        """Start counting, before the search runs."""
        self.study = study
        self._begun = self._clock()

    def handle(self, kind: str, facts: dict[str, Any]) -> None:
        """Handle one message of the study."""
        if kind == "run":
            self._recall()
        elif kind == "phase":
            self.phase = facts["name"]
        elif kind == "started":
            self.running[facts["id"], facts["seed"]] = 0.0
            self._move_on(facts["id"], facts["seed"])
        elif kind == "progress" and "share" in facts and (facts["id"], facts["seed"]) in self.running:
            self.running[facts["id"], facts["seed"]] = min(float(facts["share"]), 1.0)
            if "validation_error" in facts:
                self.errors[facts["id"], facts["seed"]] = float(facts["validation_error"])
        elif kind == "evaluated":
            for of_trainings in (self.running, self.errors):
                of_trainings.pop((facts["id"], facts["seed"]), None)
            if "share" in facts:
                return  # at a rung: whether it ends there is decided when all candidates have reached it
            self._finished += 1
            self._count(facts["id"], facts["seed"], facts["reason"])
        elif kind == "rung" and self.study is not None:
            self._finished += len(facts["stopped"])
            for identity in facts["stopped"]:
                self._count(identity, OWN_SEED, self.study.members[identity].rungs[facts["share"]].reason)
        elif kind == "generation":
            before, self.hypervolume = self.hypervolume, facts["hypervolume"]
            self.gain = None if before is None else facts["hypervolume"] - before
            self.generation = max(self.generation, facts["generation"])

    def _recall(self) -> None:
        """Count the evaluations of earlier sessions of a resumed run."""
        if self.study is None:
            return
        for member in self.study.members.values():
            self._earlier += len(member.outcomes)
            if OWN_SEED in member.outcomes:
                self._count(member.id, OWN_SEED, member.outcomes[OWN_SEED].reason)

    def _count(self, identity: str, seed: int, reason: str | None) -> None:
        if seed != OWN_SEED or self.study is None or self._is_baseline(identity):
            return
        if reason is None:
            self.scored += 1
            self.front = self.study.front()
        else:
            self.failed[reason] += 1

    def _is_baseline(self, identity: str) -> bool:
        from evodevo.search.members import BASELINE

        return self.study is not None and self.study.members[identity].operation == BASELINE

    def _move_on(self, identity: str, seed: int) -> None:
        if self.study is not None and seed == OWN_SEED and not self._is_baseline(identity):
            self.phase = "generations"
            self.generation = max(self.generation, self.study.members[identity].generation)

    @property
    def generations(self) -> int:
        """Number of generations."""
        return 1 if self.study is None else self.study.settings.generations

    @property
    def wanted(self) -> int:
        """Number of evaluations in all, as far as it is known: the final front is not."""
        if self.study is None:
            return 0
        from evodevo.runs.fixed_generation import FixedGeneration

        settings, algorithm = self.study.settings, self.study.algorithm
        baselines = sum(self._is_baseline(member) for member in self.study.members)
        # A retraining evaluates given individuals, whatever the population of their search was.
        first = len(algorithm.proposals) if isinstance(algorithm, FixedGeneration) else settings.population
        search = first + (self.generations - 1) * algorithm.offspring
        return baselines + search + settings.confirmations * (baselines + max(1, len(self.front)))

    @property
    def done(self) -> int:
        """Number of evaluations that have ended, those of earlier sessions included."""
        return self._earlier + self._finished

    @property
    def share(self) -> float:
        """Finished and begun work as a share of all, 0 to 1."""
        wanted = self.wanted
        return min(1.0, (self.done + sum(self.running.values())) / wanted) if wanted else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds left at the pace of this session; None before there is one."""
        work = self._finished + sum(self.running.values())
        elapsed = self._clock() - self._begun
        if work < 0.25 or elapsed <= 0:
            return None
        return max(0.0, self.wanted - self._earlier - work) * elapsed / work


def duration(seconds: float | None) -> str:
    """Seconds as text: ``4.2 s``, ``40 s``, ``1 min 40 s``, ``2 h 05 min``; a dash where not known."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
