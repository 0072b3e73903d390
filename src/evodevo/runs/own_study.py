"""Runs of ``Study`` over a user's own space and function, as far as the record holds them without their code."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from evodevo.errors import GenomeError, UsageError
from evodevo.runs.archive import Individual, Run
from evodevo.runs.recipe import ExecutionSettings, RunSettings
from evodevo.runs.slices import Slice
from evodevo.search.problem import Problem
from evodevo.search.settings import StudySettings
from evodevo.search.space import Space
from evodevo.settings import Settings

_IN_CODE = (
    "is of a study of your own: its space and its function are in your code alone. Go on with it in Python: "
    "Study(…, run=…)."
)


class RecordedGoal(Settings):
    """A goal as a study records it."""

    name: str
    unit: str = ""
    direction: str = "minimise"


class OwnStudySettings(RunSettings):
    """The record of a study of one's own: its settings and its goals."""

    study: StudySettings
    goals: tuple[RecordedGoal, ...] = ()
    execution: ExecutionSettings = ExecutionSettings()


class RecordedSpace(Space[Hashable]):
    """Genomes as the record has them: their genes as JSON text. They can be looked at and not changed."""

    name = "study"

    def from_json(self, envelope: Any) -> str:
        """The genes of any space's envelope, as canonical JSON."""
        if not isinstance(envelope, Mapping) or "genes" not in envelope:
            raise GenomeError("a recorded genome is an object with genes.")
        return json.dumps(envelope["genes"], ensure_ascii=False, sort_keys=True)

    def parse(self, text: str) -> Hashable:
        return text

    def print(self, genome: Hashable) -> str:
        return str(genome)

    def check(self, genome: Hashable) -> None:
        """Every recorded genome is one."""

    def segments(self, genome: Hashable) -> tuple[Hashable, ...]:
        return (genome,)

    def _refuse(self, *_: Any) -> NoReturn:
        raise UsageError(f"this genome {_IN_CODE}")

    def repair(self, genome: Hashable, rng: np.random.Generator) -> Hashable:
        self._refuse()

    def join(self, segments: Sequence[Any]) -> Hashable:
        self._refuse()

    def _sample(self, rng: np.random.Generator) -> Hashable:
        self._refuse()

    def _mutate(self, genome: Hashable, rng: np.random.Generator) -> Hashable:
        self._refuse()

    def _crossover(self, a: Hashable, b: Hashable, rng: np.random.Generator) -> tuple[Hashable, Hashable]:
        self._refuse()

    def _to_genes(self, genome: Hashable) -> Any:
        return json.loads(str(genome))

    def _from_genes(self, genes: Any) -> Hashable:
        return json.dumps(genes, ensure_ascii=False, sort_keys=True)


class OwnStudySlice(Slice[Run, Individual]):
    """See ``Slice``; whatever needs the user's code is refused."""

    name = "study"
    settings_class = OwnStudySettings
    preload = ()
    judged = "network"

    def space(self, settings: Any) -> RecordedSpace:
        return RecordedSpace()

    def problem(self, settings: Any, blobs: str | Path | None = None, cache_folder: Path | None = None) -> Problem:
        raise UsageError(f"this run {_IN_CODE}")

    def paths(self, settings: Any) -> dict[str, Any]:
        return {}

    def retraining(self, settings: Any, individual: Individual | None, budget: Mapping[str, Any], seeds: int) -> Any:
        raise UsageError(f"this run {_IN_CODE}")

    def tokens_per_step(self, values: Mapping[str, Any]) -> int:
        raise UsageError(f"this run {_IN_CODE}")

    def load(self, individual: Individual) -> Any:
        raise UsageError(f"this run {_IN_CODE}")

    def report(self, run: Run) -> str:
        from evodevo.runs.report.own_study import own_study_page  # commands that only list runs draw nothing

        return own_study_page(run)


OWN_STUDY = OwnStudySlice()
