"""What each slice of the house means by a run: its settings, its space, its problem, and how its genomes are shown.

A run belongs to the slice that its recipe's name begins with; a run that compares given trainings is an experiment,
whatever it compares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evodevo.errors import UsageError
from evodevo.objectives.base import Judged
from evodevo.registry import Registry, table
from evodevo.runs.recipe import RunSettings
from evodevo.search.problem import Problem
from evodevo.search.space import Space
from evodevo.settings import merge, validate

if TYPE_CHECKING:
    from evodevo.backbone.settings import SamplingSettings
    from evodevo.runs.archive import Individual, Run

EXPERIMENT = "experiment"

SLICES: Registry[Slice] = table("slice", "evodevo.slices")


class Slice(ABC):
    """One row of the table.

    Attributes:
        name: of the row.
        settings_class: of the runs.
        preload: what workers import before their first job (``execution.preload``).
        judged: what objectives are asked of.
    """

    name: str
    settings_class: type[RunSettings]
    preload: tuple[str, ...]
    judged: Judged

    @abstractmethod
    def space(self, settings: Any) -> Space[Any]:
        """The space of the individuals."""

    @abstractmethod
    def problem(self, settings: Any, blobs: Path | None = None, cache_folder: Path | None = None) -> Problem:
        """What evaluates them.

        Args:
            settings: of the run.
            blobs: folder of the store's pool; None keeps no weights.
            cache_folder: of prepared data; None is the user's.

        Raises:
            DataError, UsageError: data or settings cannot be used.
        """

    @abstractmethod
    def paths(self, settings: Any) -> dict[str, Any]:
        """Settings that hold paths, made absolute, as nested changes, so that a resume finds them from any folder."""

    def retraining(self, settings: Any, individual: Individual, budget: Mapping[str, Any], seeds: int) -> Any:
        """The settings with which one individual of such a run is trained again, as plain data.

        Args:
            settings: of its run.
            individual: who.
            budget: tokens, steps, seconds and flops, each a number or None; all None keeps the budget.
            seeds: how many trainings.
        """
        values = settings.model_dump(mode="json")
        if any(limit is not None for limit in budget.values()):
            values["evaluation"]["training"]["budget"] = dict(budget)
        values["evaluation"]["seconds"] = None
        values["study"] |= {"generations": 1, "confirmations": seeds - 1, "mode": "generational"}
        return values

    @abstractmethod
    def tokens_per_step(self, values: Mapping[str, Any]) -> int:
        """What one step of training takes of a budget of tokens; ``values`` are the settings as plain data."""

    @abstractmethod
    def load(self, individual: Individual) -> Any:
        """The trained model on the CPU, in evaluation mode.

        Raises:
            NotFoundError: no weights were kept.
        """

    def trained(self, run: Run) -> list[Individual]:
        """Networks of a run that can answer for it, the best first; empty where nobody has finished yet."""
        return run.front()

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

    def drawing(self, individual: Individual) -> str:
        """The architecture as SVG."""
        raise UsageError(f"architectures of the slice {self.name!r} cannot be drawn; show {individual.id} says it all.")

    @abstractmethod
    def report(self, run: Run) -> str:
        """One self-contained HTML page on a run."""


def slice_of(recipe: str, settings: Mapping[str, Any]) -> Slice:
    """The slice of a recorded run.

    Args:
        recipe: its name.
        settings: as recorded.

    Raises:
        UsageError: no slice of this evodevo.
    """
    return SLICES.get(EXPERIMENT if EXPERIMENT in settings else recipe.partition(".")[0])


def slice_of_settings(settings: RunSettings, recipe: str) -> Slice:
    """The slice of a run that is about to begin."""
    return slice_of(recipe, {EXPERIMENT: None} if EXPERIMENT in type(settings).model_fields else {})


def with_absolute_paths(kind: Slice, settings: RunSettings) -> RunSettings:
    """The settings, with paths that are found from any folder."""
    changes = kind.paths(settings)
    if not changes:
        return settings
    return validate(type(settings), merge(settings.model_dump(mode="json"), changes), what="settings")


def absolute(path: str) -> str:
    """A path as it is found from any folder."""
    return str(Path(path).expanduser().absolute())
