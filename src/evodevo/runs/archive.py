"""The contents of a store as objects: runs, individuals, their scores, their models. Nothing here writes.

A run's settings and genomes are interpreted by its slice, a row of ``SLICES``: a run belongs to the slice that its
recipe's name begins with; a run that compares given trainings is an experiment, whatever it compares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from evodevo.errors import NotFoundError, UsageError
from evodevo.execution.base import Executor
from evodevo.export.folder import Export
from evodevo.networks.sampling import SamplingSettings
from evodevo.objectives.base import Judged, parse_objectives
from evodevo.randomness import integer_seed
from evodevo.registry import Registry, enable_packages, table
from evodevo.runs.answers import Prediction, Predicts, continues_texts
from evodevo.runs.differences import setting_differences
from evodevo.runs.pick import Pick, Summary, pick
from evodevo.runs.recipe import RunSettings
from evodevo.search.base import Algorithm
from evodevo.search.front import front_places
from evodevo.search.problem import Goal, Outcome, Problem
from evodevo.search.record import is_final, to_outcome
from evodevo.search.space import Space
from evodevo.search.study import BASELINE, Listener
from evodevo.settings import validate
from evodevo.storage import EvaluationRow, EventRow, IndividualRow, RunRow, Store

MAX_PROMPT_BYTES = 1 << 20
EXPERIMENT = "experiment"
"""Room of the settings of runs that compare given trainings, and the name of their slice."""

PROTOCOL = "protocol"
"""Room of the settings of runs that consist of other runs, the name of their slice, and their kind."""
STAGE = "protocol.stage"
"""Type of the event of a protocol that names the run of a stage."""
OWN_STUDY = "study"
"""Kind of the runs of ``Study`` over a user's own function, and the name of their slice."""

SLICES: Registry[Slice] = table("slice", "evodevo.slices")
SLICES.add(OWN_STUDY, "evodevo.runs.own_study:OWN_STUDY")

RETRAINING = "train"
"""Kind of the runs that train what they are given."""

OF_SYSTEMS = ("system", "agent")
"""Kinds of the store's runs that are no runs of a recipe."""


class Motifs(Protocol):
    """Patterns that recur in the genomes of a search."""

    def to_json(self) -> dict[str, Any]:
        """All facts, JSON-able."""

    def tables(self, most: int) -> list[tuple[Sequence[str], list[list[str]]]]:
        """(headings, rows) for people, the first column words and the others numbers; at most ``most`` rows each."""


class Archive:
    """A store opened for reading; it may be in use, and it may be of a run that was killed.

    Args:
        folder: folder of the store.

    Raises:
        NotFoundError: there is none.
    """

    def __init__(self, folder: str | Path = "runs") -> None:
        self.folder = Path(folder)
        self.store = Store.open(folder, "ro", create=False)

    def close(self) -> None:
        """Let go of the files."""
        self.store.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def runs(self) -> list[Run]:
        """All runs, oldest first. Systems of many tasks and their agents are others' (``evodevo.multitask``)."""
        return [Run(self, row) for row in self.store.runs() if row.kind not in OF_SYSTEMS]

    def run(self, prefix: str) -> Run:
        """The run whose id begins so; ``last`` is the newest one, or the protocol that it is a stage of.

        Raises:
            NotFoundError: none.
            UsageError: more than one.
        """
        if prefix == "last":
            found_runs = self.runs()
            if not found_runs:
                raise NotFoundError(f"the store {self.folder} holds no run yet; begin one with: evodevo evolve")
            return self._whole(found_runs[-1], found_runs)
        reference = self.store.find(prefix)
        if reference.kind != "run":
            raise NotFoundError(f"{prefix!r} is an individual; a run is wanted here. See: evodevo status")
        return self._run(reference.id)

    def _whole(self, run: Run, every: Sequence[Run]) -> Run:
        """The protocol that a run is a stage of; a run that stands alone itself."""
        for other in every:
            if other.kind == PROTOCOL and any(
                event.type == STAGE and event.payload["run"] == run.id for event in other.events()
            ):
                return other
        return run

    def individual(self, prefix: str) -> Individual:
        """The individual whose id begins so; ``last`` is the one that answers for the newest run (``Run.best``).

        Raises:
            NotFoundError: none.
            UsageError: more than one.
        """
        if prefix == "last":
            return self.run("last").best()
        reference = self.store.find(prefix)
        if reference.kind != "individual":
            raise NotFoundError(f"{prefix!r} is a run; an individual is wanted here. See: evodevo front {prefix}")
        row = self.store.individual(reference.id)
        return self._run(row.run_id).individual(reference.id)

    def _run(self, run_id: str) -> Run:
        row = self.store.run(run_id)
        if row.kind in OF_SYSTEMS:
            raise UsageError(f"{run_id} is a multitask {row.kind}; it is read with evodevo.multitask.System.open.")
        return Run(self, row)


class Run:
    """One recorded run of ``evolve`` or ``train``."""

    def __init__(self, archive: Archive, row: RunRow) -> None:
        self.archive = archive
        self.row = row
        self.id = row.id
        self.kind = row.kind
        self.recipe = row.recipe
        killed = row.state == "running" and archive.store.owner(row.id) is None
        self.state = "interrupted" if killed else row.state
        self.seed = row.seed

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.recipe} {self.state}>"

    @property
    def is_experiment(self) -> bool:
        """Whether it compares given trainings; such a run has a table, not a front."""
        return EXPERIMENT in self.row.settings

    @cached_property
    def slice(self) -> Slice:
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

    @cached_property
    def _members(self) -> dict[str, Individual]:
        evaluations: dict[str, list[EvaluationRow]] = {}
        for evaluation in self.archive.store.evaluations(self.id):
            evaluations.setdefault(evaluation.individual_id, []).append(evaluation)
        rows = self.archive.store.individuals(self.id)
        return {row.id: Individual(self, row, evaluations.get(row.id, [])) for row in rows}

    def individuals(self) -> list[Individual]:
        """All of the search's own, in order of birth; no baselines."""
        return [individual for individual in self._members.values() if individual.operation != BASELINE]

    def individual(self, identity: str) -> Individual:
        """One of this run by its whole id."""
        if identity not in self._members:
            raise NotFoundError(f"run {self.id} has no individual {identity}.")
        return self._members[identity]

    def baselines(self) -> list[Individual]:
        """The hand-drawn ones, evaluated under the same budget."""
        return [individual for individual in self._members.values() if individual.operation == BASELINE]

    def front(self) -> list[Individual]:
        """The non-dominated that keep all constraints, best first in the first goal."""
        pool = self.individuals()
        chosen = [pool[place] for place in front_places([individual.outcome for individual in pool], self.goals)]
        return sorted(chosen, key=lambda individual: individual.key(self.goals[0]))

    def best(self) -> Individual:
        """The individual that answers for the run: of a search the best of its front in the first goal, of an
        experiment the training of its first arm (its reference, where it names one) that is best on validation data.

        Raises:
            NotFoundError: no individual is finished.
        """
        individuals = self.slice.best(self)
        if not individuals:
            raise NotFoundError(
                f"run {self.id} has no trained network yet (state {self.state}); see: evodevo status {self.id}"
            )
        return individuals[0]

    def pick(self, rule: str = "knee", where: Sequence[str] = ()) -> Pick[Individual]:
        """One of the front, with the reason and the comparison with the baselines; see ``runs.pick``."""
        return pick(self, rule, where)

    def generations(self) -> list[dict[str, Any]]:
        """Per finished generation: hypervolume, reference point, front, evaluated, failed."""
        events = [event for event in self.events() if event.type == "generation"]
        return [{"generation": int(event.subject), **event.payload} for event in events]

    def events(self) -> list[EventRow]:
        """Everything that was recorded, in order."""
        return self.archive.store.events(self.id)

    def data(self) -> dict[str, Any]:
        """Description of the data: source, sizes of the splits, what was left out; empty before they were read."""
        return next((event.payload for event in self.events() if event.type == "task"), {})

    def report(self, path: str | Path) -> Path:
        """Write the page on this run, one self-contained HTML file, and return its absolute path.

        Raises:
            UsageError: the file cannot be written.
        """
        target = Path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.slice.report(self), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{target} cannot be written: {error}.") from None
        return target.absolute()

    def export(self, target: str | Path, *, to: str | None = None) -> Export:
        """Export the individual that answers for this run (``best``); see ``Individual.export``."""
        return self.best().export(target, to=to)

    def evaluation_seed(self, number: int) -> int:
        """The seed of the number-th evaluation of every individual."""
        return integer_seed(self.seed, "evaluation", number)

    def facts(self) -> dict[str, Any]:
        """Facts for ``evodevo status``: JSON."""
        pool = self.individuals()
        closed = self.generations()
        reasons: dict[str, int] = {}
        for individual in pool:
            if individual.reason:
                reasons[individual.reason] = reasons.get(individual.reason, 0) + 1
        return {
            "run": self.id,
            "kind": self.kind,
            "recipe": self.recipe,
            "state": self.state,
            "created": self.row.created_at,
            "individuals": len(pool),
            "scored": sum(individual.state == "done" for individual in pool),
            "failed": reasons,
            "generations": len(closed),
            "generations_wanted": self.settings.study.generations if self.kind in ("evolve", OWN_STUDY) else None,
            "front": len(self.front()),
            "hypervolume": closed[-1]["hypervolume"] if closed else None,
        }


class Individual:
    """One genome in one run, with what is known of it."""

    def __init__(self, run: Run, row: IndividualRow, evaluations: Sequence[EvaluationRow]) -> None:
        self.run = run
        self.row = row
        self.id = row.id
        self.generation = row.generation
        self.slot = row.slot
        self.operation = row.operation
        self.parents = row.parents
        self.evaluations = tuple(evaluations)

    def __repr__(self) -> str:
        return f"<Individual {self.id} {self.operation} {self.title}>"

    @cached_property
    def genome(self) -> Any:
        """The architecture; in an experiment, the training."""
        return self.run.space.from_json(self.row.genome_envelope)

    @property
    def text(self) -> str:
        """The genome as written."""
        return self.run.space.print(self.genome)

    @property
    def title(self) -> str:
        """The genome in one line for people."""
        return self.run.space.title(self.genome)

    @property
    def name(self) -> str:
        """A baseline's name, else the id."""
        return str(self.row.details.get("name", self.id)) if self.operation == BASELINE else self.id

    @cached_property
    def plan(self) -> Any:
        """A backbone with its connections resolved, a tuple of ``LIVPlan``.

        Raises:
            UsageError: it is no backbone.
        """
        return self.run.slice.plan(self)

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
        return 0.0 if self.evaluation is None else float(self.evaluation.extra.get("share", 1.0))

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
        return self.run.archive.store.series(self.evaluation.id).get("train_loss", [])

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

    def load(self) -> Any:
        """The trained model, on the CPU, in evaluation mode: a ``torch.nn.Module``."""
        return self._loaded

    @cached_property
    def _loaded(self) -> Any:
        return self.run.slice.load(self)

    def tokenizer(self) -> Any:
        """The tokenizer that the model was trained with."""
        return self._tokenizer

    @cached_property
    def _tokenizer(self) -> Any:
        return self.run.slice.tokenizer(self)

    def predict(self, values: Mapping[str, str]) -> Prediction:
        """The trained network's answers to one sample of the user's; for many see ``runs.predict.Predictor``.

        Args:
            values: input -> a text, the path of an image, or numbers with commas; inputs that are left out are missing.

        Raises:
            UsageError, DataError: see ``Predictor.sample``.
            NotFoundError: no weights were kept.
        """
        return self._predictor.sample(values)

    def export(self, target: str | Path, *, to: str | None = None) -> Export:
        """Write the trained network for other programs, as ``evodevo export`` does.

        Args:
            target: a folder that is missing, empty, or an earlier export, which is replaced.
            to: format, for example ``source``, ``hf`` or ``pt2``; ``source`` where it holds the network, else ``pt2``,
                if left out.

        Raises:
            NotFoundError, UsageError, MissingExtraError, VerificationError: see ``runs.export.export_individual``.
        """
        return self.run.slice.export(self, target, to)

    @cached_property
    def _predictor(self) -> Predicts:
        return self.run.slice.predictor(self)

    def generate(
        self, prompt: str, count: int = 200, *, sampling: SamplingSettings | None = None, seed: int = 0
    ) -> str:
        """Let the trained model continue a text.

        Args:
            prompt: the text to continue.
            count: number of tokens to write.
            sampling: temperature, top-k, top-p.
            seed: equal seeds give equal text.

        Returns:
            The new text alone.

        Raises:
            UsageError: an empty or very long prompt.
            NotFoundError: no weights were kept.
        """
        if not prompt:
            raise UsageError("the prompt is empty; give at least one character, for example --prompt 'def '.")
        if len(prompt.encode("utf-8", "surrogatepass")) > MAX_PROMPT_BYTES:
            raise UsageError(f"the prompt has more than {MAX_PROMPT_BYTES} bytes.")
        return self.run.slice.generate(self, prompt, count, sampling=sampling, seed=seed)


class Slice(ABC):
    """One row of the table.

    Attributes:
        name: name of the row.
        settings_class: class of the runs' settings.
        preload: packages that workers import before their first job (``execution.preload``).
        judged: kind of individuals that objectives score.
        kind: kind of its runs, where the driver's name is not that.
        composed: whether its runs consist of other runs, which ``carry_out`` begins and continues.
        follows: settings of the room ``space`` that a genome follows which is there already; the others decide what
            a search draws.
        data_setting: dotted name of the setting that holds the user's data.
    """

    kind: str | None = None
    composed: bool = False
    name: str
    settings_class: type[RunSettings]
    preload: tuple[str, ...]
    judged: Judged
    follows: frozenset[str] = frozenset()
    data_setting: str = "evaluation.task_settings.data"

    @abstractmethod
    def space(self, settings: Any) -> Space[Any]:
        """The space of the individuals."""

    @abstractmethod
    def problem(self, settings: Any, blobs: Path | None = None, cache_folder: Path | None = None) -> Problem:
        """The problem that evaluates the individuals.

        Args:
            settings: settings of the run.
            blobs: folder of the store's pool; None keeps no weights.
            cache_folder: folder of prepared data; None is the user's.

        Raises:
            DataError, UsageError: data or settings cannot be used.
        """

    @abstractmethod
    def paths(self, settings: Any) -> dict[str, Any]:
        """Settings that hold paths, made absolute, as nested changes, so that a resume finds them from any folder."""

    def at_depth(self, genome: Any, values: dict[str, Any]) -> dict[str, Any]:
        """Settings as plain data whose space holds a genome of this depth."""
        return values

    def retraining(self, settings: Any, individual: Individual | None, budget: Mapping[str, Any], seeds: int) -> Any:
        """The settings with which one individual of such a run is trained again, as plain data.

        Args:
            settings: settings of its run.
            individual: the individual; None where a genome is trained that is none yet.
            budget: tokens, steps, seconds and flops, each a number or None; all None keeps the budget.
            seeds: number of trainings.
        """
        values = settings.model_dump(mode="json")
        if any(limit is not None for limit in budget.values()):
            values["evaluation"]["training"]["budget"] = dict(budget)
        values["evaluation"]["seconds"] = None
        values["study"] |= {"generations": 1, "confirmations": seeds - 1, "mode": "generational", "start": []}
        values["study"] |= {"rungs": None, "inheritance": None}
        return values

    @abstractmethod
    def tokens_per_step(self, values: Mapping[str, Any]) -> int:
        """Tokens of the budget that one step of training uses; ``values`` are the settings as plain data."""

    @abstractmethod
    def load(self, individual: Individual) -> Any:
        """The trained model on the CPU, in evaluation mode.

        Raises:
            NotFoundError: no weights were kept.
        """

    def tokenizer(self, individual: Individual) -> Any:
        """The tokenizer that the model was trained with."""
        raise UsageError(f"{individual.id} is of the slice {self.name!r}, whose networks have no tokenizer of text.")

    def generate(
        self, individual: Individual, prompt: str, count: int, *, sampling: SamplingSettings | None, seed: int
    ) -> str:
        """A text that continues the prompt, without it."""
        raise UsageError(
            f"{individual.id} is of the slice {self.name!r}, whose networks do not write text; "
            f"see what it answers with: evodevo show {individual.id}"
        )

    def strip(self, space: Space[Any], genome: Any, *, ascii_only: bool = False) -> str:
        """The genome in one short line."""
        return space.title(genome)

    def words(self, individual: Individual) -> list[str]:
        """The genome in sentences."""
        return []

    def differences(self, a: Individual, b: Individual) -> list[dict[str, Any]]:
        """Differences of two genomes in canonical form as JSON rows: what differs, and its values under ``a`` and
        ``b``."""
        return setting_differences(
            *(one.run.space.to_json(one.run.space.canonical(one.genome))["genes"] for one in (a, b))
        )

    def distance(self, a: Individual, b: Individual) -> float:
        """Distance of the two networks, in [0, 1]; genes without effect do not count."""
        space = a.run.space
        return space.distance(space.canonical(a.genome), space.canonical(b.genome))

    def extent(self, a: Individual, b: Individual) -> str:
        """Unit in which ``differences`` are counted, in the plural, and how many there are where that is known."""
        return "settings"

    def motifs(self, run: Run) -> Motifs | None:
        """Patterns that recur in the genomes of a search; None where the slice counts none."""
        return None

    def drawing(self, individual: Individual) -> str:
        """The architecture as SVG."""
        raise UsageError(
            f"architectures of the slice {self.name!r} cannot be drawn; show {individual.id} has all of it."
        )

    def plan(self, individual: Individual) -> Any:
        """The genome with its connections resolved.

        Raises:
            UsageError: genomes of this slice have no such plan.
        """
        raise UsageError(
            f"{individual.id} is no backbone but of the space {individual.run.space.name!r}; it has no plan of LIVs."
        )

    def recall(self, individual: Individual, task: str, device: str = "cpu") -> Any:
        """What an individual's architecture recalls after a small training of its own on a task of recall.

        Raises:
            UsageError: networks of this slice predict no next token.
        """
        raise UsageError(f"{individual.id} is of the slice {self.name!r}; recall is asked of backbones.")

    def algorithm(self, settings: Any) -> Algorithm | None:
        """Algorithm that proposes the individuals of a new run; None where the study's settings or the record determine
        it."""
        return None

    def prepare(  # noqa: B027 - optional
        self, settings: Any, problem: Problem, executor: Executor, listener: Listener | None
    ) -> None:
        """Do the computations that come once, before the first evaluation; the executor is idle before and after.

        Raises:
            DataError: the data cannot be used.
        """

    def forecast(self, settings: Any, problem: Problem, executor: Executor) -> dict[str, Any] | None:
        """Forecast of the run's duration, JSON; None where that is not measured."""
        return None

    def needs(self, settings: Any, store: Path, cache_folder: Path | None = None) -> dict[str, Any]:
        """Evaluations, tokens, FLOPs, memory, disk and time that a run will need: JSON with ``refusal``, a sentence
        where it does not fit; see ``backbone.protocol.plan``.

        Raises:
            UsageError: a run of this slice cannot be planned.
        """
        raise UsageError(f"runs of the slice {self.name!r} have no dry run; begin one, and it says what it expects.")

    def carry_out(
        self,
        run_id: str,
        settings: Any,
        *,
        store: str | Path,
        listener: Listener | None,
        on_start: Callable[[Any], None] | None,
        cache_folder: Path | None,
    ) -> None:
        """Complete a recorded run that consists of other runs."""
        raise NotImplementedError(f"runs of the slice {self.name!r} are driven as one")

    def data(self, run: Run) -> dict[str, Any] | None:
        """What the page on a run shows, as JSON to be kept beside it; None where the page is all."""
        return None

    def best(self, run: Run) -> list[Individual]:
        """The finished individuals that answer for a run, best first."""
        return run.front()

    def predictor(self, individual: Individual, cache_folder: Path | None = None, device: str = "cpu") -> Predicts:
        """Predictor of a trained network's answers to samples.

        Args:
            individual: individual of the network.
            cache_folder: folder of prepared data; None is the user's.
            device: auto, cpu, cuda, cuda:N.

        Raises:
            UsageError: a network that continues texts.
            NotFoundError: no weights were kept.
        """
        raise continues_texts(individual.id)

    def export(self, individual: Individual, target: str | Path, to: str | None) -> Export:
        """Write a trained network for other programs; see ``Individual.export``.

        Raises:
            UsageError: individuals of this slice are no networks.
        """
        raise UsageError(f"{individual.id} is of the slice {self.name!r}, whose individuals are no networks to export.")

    @abstractmethod
    def report(self, run: Run) -> str:
        """One self-contained HTML page on a run."""


def slice_of(recipe: str, rooms: Container[str]) -> Slice:
    """The slice of a run: that which the recipe's name begins with, or protocols or experiments, which any recipe may
    describe.

    Args:
        recipe: name of the recipe.
        rooms: names of the run's settings at the top level.

    Raises:
        UsageError: no slice of this evodevo.
    """
    named = next((room for room in (PROTOCOL, EXPERIMENT) if room in rooms), None)
    return SLICES.get(named or recipe.partition(".")[0])


def absolute(path: str) -> str:
    """A path as it is found from any folder."""
    return str(Path(path).expanduser().absolute())
