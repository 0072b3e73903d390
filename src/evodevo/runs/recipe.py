"""What a recipe is: a Python function that returns a run's whole settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import Field

from evodevo.backbone.evaluation_settings import EvaluationSettings
from evodevo.backbone.space import BackboneSettings
from evodevo.errors import UsageError, unknown_name
from evodevo.registry import Registry, table
from evodevo.search.study import StudySettings
from evodevo.settings import Settings, merge, validate

Size = Literal["quick", "full"]
Driver = Literal["evolve", "train", "grow", "ablate", "extend"]
Baselines = Literal["none", "quick", "all"]
"""Which opponents stand beside the network of a recipe, where it leaves that to its user."""

RECIPES: Registry[Recipe] = table("recipe", "evodevo.recipes")

Compose = Callable[[Size, "Baselines | None", Mapping[str, Any]], "RunSettings"]
Grow = Callable[[Size, "Baselines | None", Mapping[str, Any], Sequence[str]], "RunSettings"]
STRATEGIST = "ppo"
"""Who decides where the user of ``grow`` names nobody."""


class ExecutionSettings(Settings):
    """Where evaluations run.

    Attributes:
        executor: processes (isolated, the default) or serial (in this process, for debugging).
        workers: evaluations at a time.
        threads: per evaluation; scores may depend on it in the last bits, so it belongs to the run.
        packages: installed packages whose operators, objectives, … are enabled, by name.
    """

    executor: Literal["processes", "serial"] = "processes"
    workers: int = Field(default=2, ge=1, le=4096)
    threads: int = Field(default=1, ge=1, le=1024)
    packages: tuple[str, ...] = ()


class RunSettings(Settings):
    """What the settings of every run have; each slice says what its own rooms are.

    Attributes:
        evaluation: how an individual gets its scores.
        study: how individuals come about.
        execution: where evaluations run.
    """

    if TYPE_CHECKING:
        evaluation: Any
        study: StudySettings
        execution: ExecutionSettings


class EvolveSettings(RunSettings):
    """All settings of a run of ``evolve`` over backbones.

    Attributes:
        space: the genomes.
        evaluation: how one gets its scores.
        study: the search.
        execution: where evaluations run.
    """

    space: BackboneSettings
    evaluation: EvaluationSettings
    study: StudySettings
    execution: ExecutionSettings = ExecutionSettings()


@dataclass(frozen=True)
class Recipe:
    """A row of the table of recipes.

    Attributes:
        name: ``slice.name``.
        summary: one line for people.
        drivers: the commands that it serves.
        settings: size -> all settings.
        compose: (size, baselines, changes of ``part``) -> all settings; None where all that can be said is the size.
            Baselines None are the recipe's own choice.
        part: the name under which ``--set`` changes what the networks of ``compose`` are made of ("zoo").
        short: names that ``--set`` may use for dotted settings, beside those of the task ("patience").
        data_task: the task that reads data of the user's own; None where the recipe's task does.
        grow: (size, baselines, changes of ``part``, strategists) -> all settings of the command ``grow``; None where
            they are those of ``settings`` or ``compose``, whose arms name their strategists themselves.
        ablate: size -> what the command ``ablate`` changes of ``compose``, under what a user changes.
        of_data: the user's data -> ``compose`` for them, where they decide more than a setting of the task: which task
            it is, budget, arms. Not asked where the user names the task, too. None where they decide nothing.
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


def resolve(
    name: str,
    *,
    size: str = "quick",
    driver: Driver = "evolve",
    overrides: dict[str, Any],
    baselines: str | None = None,
) -> RunSettings:
    """The settings of a recipe, of its slice's own class, with what the user changed.

    Args:
        name: of the recipe.
        size: quick (minutes on 2 cores) or full.
        driver: what is about to run.
        overrides: nested plain data, from files, ``--set`` and flags, merged over the recipe's; settings of the task
            and the recipe's short names may stand at the top (see ``recipes.overriding``). For ``grow``, so may
            ``grow``: settings of the growth of all arms (``spaces.zoo_growth``), and its ``strategist``, a name,
            names with commas between them, or a list.
        baselines: none, quick or all; the recipe's own choice if left out.

    Raises:
        UsageError: an unknown recipe, size or setting, a wrong value, or a recipe of another driver.
    """
    from evodevo.runs.overriding import of_growth, own_data, spell_out

    recipe = RECIPES.get(name)
    if size not in get_args(Size):
        raise UsageError(f"size {size!r}: it must be {' or '.join(get_args(Size))}.")
    if driver not in recipe.drivers:
        raise UsageError(f"the recipe {name!r} serves {', '.join(recipe.drivers)}, not {driver}.")
    strategists: Sequence[str] | None = None
    if driver == "ablate":
        overrides = merge(dict(recipe.ablate.get(size, {})), overrides)
    if driver == "grow":
        strategists, overrides = of_growth(overrides)
    changes = overrides.get(recipe.part, {})
    if driver == "grow" and recipe.grow is not None:
        grow, wanted = recipe.grow, (STRATEGIST,) if strategists is None else strategists
        made = _made(recipe, size, baselines, changes, lambda a, b, c: grow(a, b, c, wanted))
    elif strategists is not None:
        raise UsageError(f"the arms of the recipe {name!r} name their strategists themselves; leave --strategist out.")
    else:
        compose = recipe.compose
        if recipe.of_data is not None:
            data, overrides = own_data(overrides)
            compose = compose if data is None else recipe.of_data(data)
        made = _made(recipe, size, baselines, changes, compose)
    others = {name: value for name, value in overrides.items() if name != recipe.part}
    values, changes = spell_out(recipe, made.model_dump(mode="json"), others)
    return validate(type(made), merge(values, changes), what=f"settings of {name}")


def _made(
    recipe: Recipe,
    size: Any,
    baselines: Any,
    changes: Any,
    compose: Compose | None,
) -> RunSettings:
    if compose is None:
        if baselines is not None:
            raise UsageError(f"the recipe {recipe.name!r} names its arms itself; leave --baselines out.")
        return recipe.settings(size)
    if baselines is not None and baselines not in get_args(Baselines):
        raise unknown_name("choice of baselines", str(baselines), get_args(Baselines))
    if not isinstance(changes, Mapping):
        raise UsageError(f"{recipe.part} is a table of settings, for example {recipe.part}.width=128; got {changes!r}.")
    return compose(size, baselines, changes)
