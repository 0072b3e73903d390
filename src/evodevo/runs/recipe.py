"""A recipe: a Python function that returns a run's whole settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from evodevo.registry import Registry, table
from evodevo.search.study import StudySettings
from evodevo.settings import Settings

Size = Literal["quick", "full"]
Driver = Literal["evolve", "train", "grow", "ablate", "extend"]
Baselines = Literal["none", "quick", "all"]
"""Set of opponents beside the network of a recipe, where the recipe leaves that to its user."""

RECIPES: Registry[Recipe] = table("recipe", "evodevo.recipes")

Compose = Callable[[Size, "Baselines | None", Mapping[str, Any]], "RunSettings"]
Grow = Callable[[Size, "Baselines | None", Mapping[str, Any], Sequence[str]], "RunSettings"]
STRATEGIST = "ppo"
"""Strategist where the user of ``grow`` names none."""


class ExecutionSettings(Settings):
    """The execution of evaluations.

    Attributes:
        executor: processes (isolated, the default) or serial (in this process, for debugging).
        workers: number of evaluations at a time.
        threads: number of threads per evaluation; scores may depend on it in the last bits, so it belongs to the run.
        packages: installed packages whose operators, objectives, … are enabled, by name.
    """

    executor: Literal["processes", "serial"] = "processes"
    workers: int = Field(default=2, ge=1, le=4096)
    threads: int = Field(default=1, ge=1, le=1024)
    packages: tuple[str, ...] = ()


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
class Recipe:
    """A row of the table of recipes.

    Attributes:
        name: ``slice.name``.
        summary: description in one line.
        drivers: the commands that it serves.
        settings: size -> all settings.
        compose: (size, baselines, changes of ``part``) -> all settings; None where only the size can be chosen.
            Baselines None are the recipe's own choice.
        part: the name under which ``--set`` changes the structure of ``compose``'s networks ("zoo").
        short: names that ``--set`` may use for dotted settings, beside those of the task ("patience").
        data_task: the task that reads data of the user's own; None where the recipe's task does.
        grow: (size, baselines, changes of ``part``, strategists) -> all settings of the command ``grow``; None where
            they are those of ``settings`` or ``compose``, whose arms name their strategists themselves.
        ablate: size -> changes of ``compose`` for the command ``ablate``, below those of the user.
        of_data: the user's data -> ``compose`` for them, where they decide more than a setting of the task: the task
            itself, budget, arms. Not called where the user names the task, too. None where they decide nothing.
    """

    name: str
    summary: str
    drivers: tuple[Driver, ...]
    settings: Callable[[Size], RunSettings]
    compose: Compose | None = None
    part: str = ""
    short: Mapping[str, str] = field(default_factory=dict)
    data_task: str | None = None
    grow: Grow | None = None
    ablate: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    of_data: Callable[[str], Compose] | None = None
