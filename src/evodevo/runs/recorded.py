"""The rows of runs and of individuals, read: settings, goals, events, scores. Nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from statistics import fmean
from typing import Any

from evodevo.errors import NotFoundError
from evodevo.objectives.base import parse_objectives
from evodevo.randomness import integer_seed
from evodevo.registry import enable_packages
from evodevo.runs.pick import Summary
from evodevo.runs.slices import COMPOSED, EXPERIMENT, OWN_STUDY, SLICES, Slice, slice_of
from evodevo.search.members import BASELINE
from evodevo.search.problem import Goal, Outcome
from evodevo.search.record import is_final, to_generation, to_outcome
from evodevo.search.space import Space
from evodevo.settings import validate
from evodevo.storage import EvaluationRow, EventRow, IndividualRow, RunRow, Store
from evodevo.storage.base import as_written
from evodevo.tasks.data_lines import data_lines

RETRAINING = "train"
"""Kind of the runs that train what they are given."""


class RecordedRun:
    """The row of a run, with its settings, goals and events as its slice reads them.

    Args:
        store: Store of the run, open.
        row: Row of the run.
    """

    def __init__(self, store: Store, row: RunRow) -> None:
        self.store = store
        self.row = row
        self.id = row.id
        self.kind = row.kind
        self.recipe = row.recipe
        killed = row.state == "running" and store.owner(row.id) is None
        self.state = "interrupted" if killed else row.state
        self.seed = row.seed
        self._seeds: dict[int, int] = {}

    @property
    def is_composed(self) -> bool:
        """Whether it consists of other runs; such a run has stages and tables, no individuals of its own."""
        return self.kind in COMPOSED

    @property
    def is_experiment(self) -> bool:
        """Whether it compares given trainings; such a run has a table, not a front."""
        return EXPERIMENT in self.row.settings

    @cached_property
    def slice(self) -> Slice[Any, Any]:
        """The slice that interprets its settings and genomes; of a study of one's own that of ``OWN_STUDY``.

        Raises:
            UsageError: a slice that this evodevo does not have.
        """
        if self.kind == OWN_STUDY:
            return SLICES.get(OWN_STUDY)
        return slice_of(self.recipe, self.row.settings)

    @cached_property
    def settings(self) -> Any:
        """All settings, as they were resolved, of the slice's class; the packages that they name are enabled.

        Raises:
            UsageError: settings of another evodevo, a package that is not installed, or a run without such settings.
        """
        kind = self.slice.settings_class
        settings = validate(kind, self.row.settings, what=f"the recorded settings of run {self.id}")
        if self.kind != OWN_STUDY:
            enable_packages(settings.execution.packages)
        return settings

    @cached_property
    def space(self) -> Space[Any]:
        """The space of its individuals."""
        return self.slice.space(self.settings)

    @cached_property
    def goals(self) -> tuple[Goal, ...]:
        """Goals of the search."""
        if "goals" in self.row.settings:
            return tuple(Goal(**goal) for goal in self.row.settings["goals"])
        objectives = parse_objectives(self.settings.evaluation.objectives, self.slice.judged)
        return tuple(Goal(objective.name, objective.unit, objective.direction) for objective in objectives)

    @cached_property
    def exact_goals(self) -> frozenset[str]:
        """Names of the goals that a genome alone decides: they have no spread over seeds."""
        if "evaluation" not in self.row.settings:
            return frozenset()
        objectives = parse_objectives(self.settings.evaluation.objectives, self.slice.judged)
        return frozenset(objective.name for objective in objectives if objective.needs == "genome")

    def generations(self) -> list[dict[str, Any]]:
        """Per finished generation: hypervolume, reference point, front, evaluated, failed.

        Raises:
            StoreDamagedError: one that evodevo did not write.
        """
        events = self.store.events(self.id, type="generation")
        return [{"generation": number, **facts} for number, facts in map(to_generation, events)]

    def events(self) -> list[EventRow]:
        """Everything that was recorded, in order."""
        return self.store.events(self.id)

    def data(self) -> dict[str, Any]:
        """Description of the data: source, sizes of the splits, what was left out; empty before they were read."""
        return next((event.payload for event in self.store.events(self.id, type="task")), {})

    def data_lines(self) -> dict[str, str]:
        """The description of the data as lines for people, by title.

        Raises:
            StoreDamagedError: one that evodevo did not write.
        """
        with as_written(f"run {self.id}", "a description of its data"):
            return data_lines(self.data())

    def evaluation_seed(self, number: int) -> int:
        """The seed of the number-th evaluation of every individual."""
        if number not in self._seeds:
            self._seeds[number] = integer_seed(self.seed, "evaluation", number)
        return self._seeds[number]


class RecordedIndividual:
    """The row of an individual and those of its evaluations, with its scores.

    Args:
        run: Run of the individual.
        row: Row of the individual.
        evaluations: Rows of its evaluations.
    """

    def __init__(self, run: RecordedRun, row: IndividualRow, evaluations: Sequence[EvaluationRow]) -> None:
        self.run = run
        self.row = row
        self.id = row.id
        self.generation = row.generation
        self.slot = row.slot
        self.operation = row.operation
        self.parents = row.parents
        self.evaluations = tuple(evaluations)

    @property
    def name(self) -> str:
        """A baseline's name, else the id."""
        return str(self.row.details.get("name", self.id)) if self.operation == BASELINE else self.id

    @cached_property
    def _outcomes(self) -> dict[int, EvaluationRow]:
        """The last final evaluation of each seed."""
        return {row.seed: row for row in self.evaluations if is_final(row)}

    @cached_property
    def evaluation(self) -> EvaluationRow | None:
        """The search's own evaluation, if it has ended."""
        return self._outcomes.get(self.run.evaluation_seed(0))

    @property
    def outcome(self) -> Outcome | None:
        """Result that was reported to the search; None where there is none."""
        return None if self.evaluation is None else to_outcome(self.evaluation)

    @property
    def state(self) -> str:
        """waiting, done or failed."""
        return "waiting" if self.evaluation is None else self.evaluation.state

    @property
    def share(self) -> float:
        """Share of the budget at which it was scored: less than 1 where it stopped at a rung, 0 before any score."""
        return 0.0 if self.evaluation is None else self.evaluation.fact("share", float, 1.0)

    @property
    def stopped(self) -> bool:
        """Whether its training stopped at a rung, without a failure."""
        return not self.reason and 0 < self.share < 1

    @property
    def state_words(self) -> str:
        """The reason of a failure, the rung at which its training stopped, or its state."""
        if self.stopped:
            return f"stopped at {self.share:.0%}"
        return self.reason or self.state

    @property
    def reason(self) -> str:
        """Why it failed; empty otherwise."""
        return (self.evaluation.reason or "") if self.evaluation is not None else ""

    @property
    def scores(self) -> dict[str, float | None]:
        """Goal -> value of the search's own evaluation; None where there is no finite one."""
        if self.evaluation is None:
            return {}
        return {name: score.value for name, score in self.evaluation.scores.items()}

    def key(self, goal: Goal) -> float:
        """The value of a goal to sort by, smallest first; infinite where there is none."""
        value = self.scores.get(goal.name)
        return float("inf") if value is None else goal.to_minimise(value)

    def values(self, goal: str, *, fresh: bool) -> list[float]:
        """A goal's values over the fresh seeds, or over the search's own."""
        own = self.run.evaluation_seed(0)
        rows = [row for seed, row in self._outcomes.items() if (seed != own) == fresh]
        values = [row.scores[goal].value for row in rows if goal in row.scores]
        return [value for value in values if value is not None]

    def summary(self, goal: str) -> Summary | None:
        """Mean and range: over fresh seeds where there are some, else the search's own value.

        A run that trains a given individual has chosen nothing by its scores: all its seeds count.
        """
        if self.run.kind == RETRAINING:
            values = [*self.values(goal, fresh=False), *self.values(goal, fresh=True)]
            return Summary(fmean(values), min(values), max(values), len(values), False) if values else None
        return self._summary(goal, fresh=True) or self.own(goal)

    def own(self, goal: str) -> Summary | None:
        """The search's own value, as a summary."""
        return self._summary(goal, fresh=False)

    def _summary(self, goal: str, *, fresh: bool) -> Summary | None:
        values = self.values(goal, fresh=fresh)
        return Summary(fmean(values), min(values), max(values), len(values), fresh) if values else None

    @property
    def fact(self) -> dict[str, Any]:
        """Cost and extra facts of the search's own evaluation: JSON."""
        return {} if self.evaluation is None else {**self.evaluation.cost, **self.evaluation.extra}

    def curve(self) -> list[tuple[float, float]]:
        """(tokens, training loss in nats) of the search's own evaluation."""
        if self.evaluation is None:
            return []
        return self.run.store.series(self.evaluation.id).get("train_loss", [])

    def weights(self) -> str:
        """Digest of the checkpoint of its best-trained evaluation.

        Raises:
            NotFoundError: no weights were kept.
        """
        rows = [row for row in self._outcomes.values() if "weights" in row.blobs]
        if not rows:
            raise NotFoundError(
                f"no weights of {self.name} are in the store (state {self.state}"
                + (f", {self.reason}" if self.reason else "")
                + f"). Train it with: evodevo train {self.id}"
            )
        own = self.run.evaluation_seed(0)
        return next((row for row in rows if row.seed == own), rows[0]).blobs["weights"]
