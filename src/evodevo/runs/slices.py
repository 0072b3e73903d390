"""The table of slices: a slice interprets the settings, the genomes and the weights of its runs.

A run belongs to the slice that its recipe's name begins with; a run that compares given trainings is an experiment,
whatever it compares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from evodevo.errors import UsageError
from evodevo.execution.base import Executor
from evodevo.networks.sampling import SamplingSettings
from evodevo.objectives.base import Judged
from evodevo.registry import Registry, table
from evodevo.runs.answers import Predicts, continues_texts
from evodevo.runs.differences import setting_differences
from evodevo.runs.recipe import RunSettings
from evodevo.runs.results import Results
from evodevo.search.base import Algorithm
from evodevo.search.members import Listener
from evodevo.search.problem import Problem
from evodevo.search.space import Space

if TYPE_CHECKING:  # it loads numpy, and most commands only read
    from evodevo.export.folder import Export

EXPERIMENT = "experiment"
"""Room of the settings of runs that compare given trainings, and the name of their slice."""
COMPOSED = ("protocol", "search_comparison")
"""Rooms of the settings of runs that consist of other runs (``runs.composed``), the names of their slices, and their
kinds."""
OWN_STUDY = "study"
"""Kind of the runs of ``Study`` over a user's own function, and the name of their slice."""

SLICES: Registry[Slice[Any, Any]] = table("slice", "evodevo.slices")
SLICES.add(OWN_STUDY, "evodevo.runs.own_study:OWN_STUDY")


class ReadRun(Protocol):
    """The part of a run that any slice reads."""

    @property
    def space(self) -> Space[Any]: ...
    def front(self) -> list[Any]: ...


class ReadIndividual(Protocol):
    """The part of an individual that any slice reads."""

    @property
    def id(self) -> str: ...
    @property
    def run(self) -> ReadRun: ...
    @property
    def genome(self) -> Any: ...


RunT = TypeVar("RunT", bound=ReadRun)
IndividualT = TypeVar("IndividualT", bound=ReadIndividual)


class Motifs(Protocol):
    """Patterns that recur in the genomes of a search."""

    def to_json(self) -> dict[str, Any]:
        """All facts, JSON-able."""

    def tables(self, most: int) -> list[tuple[Sequence[str], list[list[str]]]]:
        """(headings, rows) for people, the first column words and the others numbers; at most ``most`` rows each."""


class Slice(ABC, Generic[RunT, IndividualT]):
    """One row of the table; its runs are of type ``RunT``, their individuals of type ``IndividualT``.

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
    def problem(self, settings: Any, blobs: str | Path | None = None, cache_folder: Path | None = None) -> Problem:
        """The problem that evaluates the individuals.

        Args:
            settings: settings of the run.
            blobs: folder of the store's pool; None keeps no weights.
            cache_folder: folder of prepared data; None is the user's.

        Raises:
            DataError, UsageError: data or settings cannot be used.
        """

    def exact(self, run: RunT) -> Mapping[str, Callable[[Any], float]]:
        """Name of a goal that the genome alone decides -> its function of the genome, where it can be derived anew."""
        return {}

    @abstractmethod
    def paths(self, settings: Any) -> dict[str, Any]:
        """Settings that hold paths, made absolute, as nested changes, so that a resume finds them from any folder."""

    def at_depth(self, genome: Any, values: dict[str, Any]) -> dict[str, Any]:
        """Settings as plain data whose space holds a genome of this depth."""
        return values

    def retraining(self, settings: Any, individual: IndividualT | None, budget: Mapping[str, Any], seeds: int) -> Any:
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
    def load(self, individual: IndividualT) -> Any:
        """The trained model on the CPU, in evaluation mode.

        Raises:
            NotFoundError: no weights were kept.
        """

    def tokenizer(self, individual: IndividualT) -> Any:
        """The tokenizer that the model was trained with."""
        raise UsageError(f"{individual.id} is of the slice {self.name!r}, whose networks have no tokenizer of text.")

    def generate(
        self, individual: IndividualT, prompt: str, count: int, *, sampling: SamplingSettings | None, seed: int
    ) -> str:
        """A text that continues the prompt, without it."""
        raise UsageError(
            f"{individual.id} is of the slice {self.name!r}, whose networks do not write text; "
            f"see what it answers with: evodevo show {individual.id}"
        )

    def strip(self, space: Space[Any], genome: Any, *, ascii_only: bool = False) -> str:
        """The genome in one short line."""
        return space.title(genome)

    def words(self, individual: IndividualT) -> list[str]:
        """The genome in sentences."""
        return []

    def differences(self, a: IndividualT, b: IndividualT) -> list[dict[str, Any]]:
        """Differences of two genomes in canonical form as JSON rows: what differs, and its values under ``a`` and
        ``b``."""
        return setting_differences(
            *(one.run.space.to_json(one.run.space.canonical(one.genome))["genes"] for one in (a, b))
        )

    def distance(self, a: IndividualT, b: IndividualT) -> float:
        """Distance of the two networks, in [0, 1]; genes without effect do not count."""
        space = a.run.space
        return space.distance(space.canonical(a.genome), space.canonical(b.genome))

    def extent(self, a: IndividualT, b: IndividualT) -> str:
        """Unit in which ``differences`` are counted, in the plural, and how many there are where that is known."""
        return "settings"

    def motifs(self, run: RunT) -> Motifs | None:
        """Patterns that recur in the genomes of a search; None where the slice counts none."""
        return None

    def drawing(self, individual: IndividualT) -> str:
        """The architecture as SVG."""
        raise UsageError(
            f"architectures of the slice {self.name!r} cannot be drawn; show {individual.id} has all of it."
        )

    def plan(self, individual: IndividualT) -> Any:
        """The genome with its connections resolved.

        Raises:
            UsageError: genomes of this slice have no such plan.
        """
        raise UsageError(
            f"{individual.id} is no backbone but of the space {individual.run.space.name!r}; it has no plan of LIVs."
        )

    def recall(self, individual: IndividualT, task: str, device: str = "cpu") -> Any:
        """Recall of an individual's architecture after a small training of its own on a task of recall.

        Raises:
            UsageError: networks of this slice predict no next token.
        """
        raise UsageError(f"{individual.id} is of the slice {self.name!r}; recall is asked of backbones.")

    def algorithm(self, settings: Any) -> Algorithm | None:
        """Algorithm that proposes the individuals of a new run; None where the study's settings or the record determine
        it."""
        return None

    def prepare(self, settings: Any, problem: Problem, executor: Executor, listener: Listener | None) -> None:
        """Do the computations that come once, before the first evaluation; the executor is idle before and after.

        Raises:
            DataError: the data cannot be used.
        """

    def forecast(self, settings: Any, problem: Problem, executor: Executor) -> dict[str, Any] | None:
        """Forecast of the run's duration, JSON; None where that is not measured."""
        return None

    def needs(
        self,
        settings: Any,
        store: Path,
        cache_folder: Path | None = None,
        device_profile: str | None = None,
    ) -> dict[str, Any]:
        """Evaluations, tokens, FLOPs, memory, disk and time that a run will need: JSON with ``refusal``, a sentence
        where it does not fit; see ``backbone.protocol.plan``. With the name of a device that is not here, at its
        published peaks.

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

    def start_depth(self, settings: Any) -> int | None:
        """Depth to which what begins a run is brought where the user names none; None keeps each as it is."""
        return None

    def searched(self, run: RunT) -> RunT:
        """The run whose individuals ``front`` and ``pick`` look at: of a composed run that of a stage.

        Raises:
            NotFoundError: that stage has not begun.
            UsageError: there is more than one.
        """
        return run

    def results(self, run: RunT) -> Results:
        """Tables and sentences of a composed run, as far as it has come."""
        raise NotImplementedError(f"runs of the slice {self.name!r} consist of individuals")

    def data(self, run: RunT) -> dict[str, Any] | None:
        """Content of the page on a run, as JSON to be kept beside it; None where the page is all."""
        return None

    def best(self, run: RunT) -> list[IndividualT]:
        """The finished individuals that answer for a run, best first."""
        return run.front()

    def predictor(self, individual: IndividualT, cache_folder: Path | None = None, device: str = "cpu") -> Predicts:
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

    def export(self, individual: IndividualT, target: str | Path, to: str | None) -> Export:
        """Write a trained network for other programs; see ``Individual.export``.

        Raises:
            UsageError: individuals of this slice are no networks.
        """
        raise UsageError(f"{individual.id} is of the slice {self.name!r}, whose individuals are no networks to export.")

    @abstractmethod
    def report(self, run: RunT) -> str:
        """One self-contained HTML page on a run."""


def slice_of(recipe: str, rooms: Container[str]) -> Slice[Any, Any]:
    """The slice of a run: that which the recipe's name begins with, or composed runs or experiments, which any
    recipe may describe.

    Args:
        recipe: name of the recipe.
        rooms: names of the run's settings at the top level.

    Raises:
        UsageError: no slice of this evodevo.
    """
    named = next((room for room in (*COMPOSED, EXPERIMENT) if room in rooms), None)
    return SLICES.get(named or recipe.partition(".")[0])


def absolute(path: str) -> str:
    """A path as it is found from any folder."""
    return str(Path(path).expanduser().absolute())
