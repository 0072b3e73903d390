"""A recipe: a Python function that returns a run's whole settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, JsonValue

from evodevo.errors import UsageError
from evodevo.execution.base import Setup
from evodevo.registry import Registry, table
from evodevo.search.settings import StudySettings
from evodevo.settings import Settings

Size = Literal["quick", "full", "paper"]
Driver = Literal["evolve", "train", "grow", "ablate", "extend"]
Baselines = Literal["none", "quick", "all"]
"""Set of opponents beside the network of a recipe, where the recipe leaves that to its user."""

RECIPES: Registry[Recipe] = table("recipe", "evodevo.recipes")

STRATEGIST = "ppo"
"""Strategist where the user of ``grow`` names none."""


class ExecutionSettings(Settings):
    """The execution of evaluations.

    Attributes:
        executor: name in ``execution.base.EXECUTORS``: processes (isolated, on this machine, the default), serial (in
            this process, for debugging), ray or slurm (on the nodes of such a cluster).
        options: options of that executor alone, for example of ray: address, cpus, gpus, memory_bytes.
        workers: number of evaluations at a time.
        threads: number of threads per evaluation; scores may depend on it in the last bits, so it belongs to the run.
        packages: installed packages whose operators, objectives, … are enabled, by name.
        devices: CUDA devices of the workers of ``processes``, each of which sees one: cuda:0, cuda:1, …, or auto alone
            for all that are there; without any, each worker sees all.
    """

    executor: str = "processes"
    options: dict[str, JsonValue] = Field(default_factory=dict, exclude_if=lambda value: not value)
    workers: int = Field(default=2, ge=1, le=4096)
    threads: int = Field(default=1, ge=1, le=1024)
    packages: tuple[str, ...] = ()
    devices: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)

    def setup(self, preload: tuple[str, ...]) -> Setup:
        """The setup of the executor.

        Args:
            preload: See ``Setup``.
        """
        return Setup(self.executor, self.workers, self.threads, preload, self.packages, self.devices, self.options)


class RunSettings(Settings):
    """The common settings of every run; each slice defines the class of each field.

    Attributes:
        evaluation: settings of an individual's evaluation.
        study: settings of the search.
        execution: settings of the workers.
    """

    if TYPE_CHECKING:
        evaluation: Any
        study: StudySettings
        execution: ExecutionSettings


@dataclass(frozen=True)
class Changes:
    """A user's options of a whole recipe, beside changes of its single settings.

    Attributes:
        recipe: Name of the recipe, for messages.
        part: Changes of what its networks are made of (``Recipe.part``).
        baselines: Compared baselines; None leaves the choice to the recipe.
        strategists: Strategists of the command ``grow``; None where the user names none.
        data: The user's data, where they name no task for them and the recipe ``reads_data``.
    """

    recipe: str
    part: Mapping[str, Any] = field(default_factory=dict)
    baselines: Baselines | None = None
    strategists: Sequence[str] | None = None
    data: str | None = None

    def refuse_baselines(self) -> None:
        """
        Raises:
            UsageError: the user names baselines.
        """
        if self.baselines is not None:
            raise UsageError(f"the recipe {self.recipe!r} names its arms itself; leave --baselines out.")

    def refuse_strategists(self) -> None:
        """
        Raises:
            UsageError: the user names strategists.
        """
        if self.strategists is not None:
            raise UsageError(
                f"the arms of the recipe {self.recipe!r} name their strategists themselves; leave --strategist out."
            )


Make = Callable[[Size, Driver, Changes], RunSettings]


@dataclass(frozen=True)
class Recipe:
    """A row of the table of recipes.

    Attributes:
        name: ``slice.name``.
        summary: description in one line.
        drivers: the commands that it serves.
        settings: (size, driver, changes) -> all settings; it raises UsageError for changes that it cannot make.
        part: the name under which ``--set`` changes what the networks are made of ("zoo"); empty where it cannot.
        short: names that ``--set`` may use for dotted settings, beside those of the task ("patience").
        data_task: the task that reads data of the user's own; None where the recipe's task does.
        sizes: sizes that it has.
        reads_data: whether the user's data decide more than a setting of the task: which task it is, budget, arms.
    """

    name: str
    summary: str
    drivers: tuple[Driver, ...]
    settings: Make
    part: str = ""
    short: Mapping[str, str] = field(default_factory=dict)
    data_task: str | None = None
    reads_data: bool = False
    sizes: tuple[Size, ...] = ("quick", "full")


def by_size(settings: Callable[[Size], RunSettings]) -> Make:
    """The settings of a recipe that has no option but its size."""

    def made(size: Size, driver: Driver, changes: Changes) -> RunSettings:
        changes.refuse_strategists()
        changes.refuse_baselines()
        return settings(size)

    return made
