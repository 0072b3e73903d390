"""From a recipe and what a user changes to the settings of a run.

A user may write shortly: names without a room, a task or data of their own, a budget of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from evodevo.errors import UsageError, unknown_name
from evodevo.runs.recipe import RECIPES, Baselines, Changes, Driver, Recipe, RunSettings
from evodevo.settings import merge, nested, of_new_runs, renewed, validate
from evodevo.tasks.base import TASKS

Values = dict[str, Any]
_LONGEST, _FACTOR = 1800.0, 4.0
"""Limit of a training with a budget in seconds, measurements included: seconds, plus a multiple of the budget."""


GROW = "grow"
"""The procedure, and the name under which ``--set`` changes what all growing arms have in common."""


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
        name: name of the recipe.
        size: quick (minutes on 2 cores), full, or another one that the recipe has.
        driver: command that is about to run.
        overrides: nested plain data, from files, ``--set`` and flags, merged over the recipe's; settings of the task
            and the recipe's short names may be at the top level (see ``spell_out``). For ``grow``, so may
            ``grow``: settings of the growth of all arms (``growth.spec``), and its ``strategist``, a name,
            names with commas between them, or a list.
        baselines: none, quick or all; the recipe's own choice if left out.

    Raises:
        UsageError: an unknown recipe, size or setting, a wrong value, or a recipe of another driver.
    """
    recipe = RECIPES.get(name)
    if size not in recipe.sizes:
        raise UsageError(f"size {size!r}: the recipe {name!r} has {' or '.join(recipe.sizes)}.")
    if driver not in recipe.drivers:
        raise UsageError(f"the recipe {name!r} serves {', '.join(recipe.drivers)}, not {driver}.")
    if baselines is not None and baselines not in get_args(Baselines):
        raise unknown_name("choice of baselines", baselines, get_args(Baselines))
    strategists, data = None, None
    if driver == "grow":
        strategists, overrides = of_growth(overrides)
    if recipe.reads_data:
        data, overrides = own_data(overrides)
    part = overrides.get(recipe.part, {})
    if not isinstance(part, Mapping):
        raise UsageError(f"{recipe.part} is a table of settings, for example {recipe.part}.KEY=VALUE; got {part!r}.")
    made = renewed(
        recipe.settings(size, driver, Changes(name, part, cast("Baselines | None", baselines), strategists, data))
    )
    others = {name: value for name, value in overrides.items() if name != recipe.part}
    values, changes = spell_out(recipe, made.model_dump(mode="json"), others)
    return validate(type(made), _of_new_task(merge(values, changes)), what=f"settings of {name}")


def of_growth(given: Values) -> tuple[Sequence[str] | None, Values]:
    """A user's settings of growth for the command ``grow``.

    Args:
        given: nested changes; ``grow`` may be at the top level.

    Returns:
        The strategists (None where none is named), and the changes with the rest of ``grow`` at its full name: the
        common options of the procedure.

    Raises:
        UsageError: no table, or no names.
    """
    growth = given.get(GROW, {})
    if not isinstance(growth, Mapping):
        raise UsageError(f"{GROW} is a table of settings, for example {GROW}.events.count=4; got {growth!r}.")
    named = growth.get("strategist")
    if isinstance(named, str):
        named = [name.strip() for name in named.split(",")]
    if named is not None and not (isinstance(named, list) and all(isinstance(name, str) for name in named)):
        raise UsageError(f"a strategist is a name such as 'ppo', or several with commas between them; got {named!r}.")
    options = {name: value for name, value in growth.items() if name != "strategist"}
    others = {name: value for name, value in given.items() if name != GROW}
    return named, merge({"evaluation": {"options": {GROW: options}}}, others) if options else others


def own_data(given: Values) -> tuple[str | None, Values]:
    """The user's data where no task is named for them, and the changes without them; else None and all changes."""
    evaluation = given.get("evaluation", {})
    settings = evaluation.get("task_settings", {})
    data = settings.get("data", given.get("data"))
    if "task" in evaluation or data is None:
        return None, given
    rest = {name: value for name, value in settings.items() if name != "data"}
    others = {name: value for name, value in given.items() if name != "data"}
    if not settings:  # recipes of systems have no settings of one task
        return str(data), others
    return str(data), {**others, "evaluation": {**evaluation, "task_settings": rest}}


def spell_out(recipe: Recipe, values: Values, given: Values) -> tuple[Values, Values]:
    """A recipe's settings and a user's changes, ready to be merged.

    Where another task than the recipe's is chosen, the recipe's settings of its own task are dropped. A name that is no
    room is a short one of the recipe or a setting of the task: ``{"label": "class"}`` is
    ``{"evaluation": {"task_settings": {"label": "class"}}}``. Names written in full take precedence.

    Args:
        recipe: recipe of the settings.
        values: all settings, as plain data.
        given: nested changes.

    Raises:
        UsageError: a short name that is none, or an unknown task.
    """
    if "task" not in values.get("evaluation", {}):
        return values, given
    full = {name: value for name, value in given.items() if name in values}
    short = {name: value for name, value in given.items() if name not in values}
    for name in [name for name in short if name in recipe.short]:
        full = merge(nested(recipe.short[name], short.pop(name)), full)
    task = _task(recipe, values, full, short)
    known = TASKS.get(task).settings_class.model_fields
    for name in short:
        if name not in known:
            raise unknown_name("setting", name, filter(None, [*known, *recipe.short, recipe.part, *values]))
    changes = merge({"evaluation": {"task_settings": short}}, full)
    if task != values["evaluation"]["task"]:
        # Probes shuffle inputs of the recipe's own task.
        values = merge(values, {"evaluation": {"task": task, "probes": []}})
        values["evaluation"]["task_settings"] = {}
        if task != recipe.data_task and "title" in values.get("experiment", {}):
            # Title, published numbers and notes are about the recipe's own task.
            other = {"title": f"the networks of {recipe.name} on the task {task}", "paper": [], "caveats": []}
            values = merge(values, {"experiment": other})
    experiment = changes.get("experiment", {})
    if isinstance(experiment, Mapping) and "arms" in experiment and "reference" not in experiment:
        # The recipe's reference is one of its own arms; files of settings have no null for it.
        values = merge(values, {"experiment": {"reference": None}})
    return _with_time(values, changes), changes


def _of_new_task(values: Values) -> Values:
    """The settings of the task with those that differ in new runs, where they are left out."""
    evaluation = values.get("evaluation", {})
    if "task" not in evaluation or evaluation["task"] not in TASKS:
        return values
    new = of_new_runs(TASKS.get(evaluation["task"]).settings_class)
    return merge({"evaluation": {"task_settings": new}}, values) if new else values


def _task(recipe: Recipe, values: Values, full: Values, short: Values) -> str:
    """The task that is meant: the user's, that of the user's data, or the recipe's."""
    evaluation = full.get("evaluation", {})
    if "task" in evaluation:
        return str(evaluation["task"])
    has_data = "data" in short or evaluation.get("task_settings", {}).get("data") is not None
    return recipe.data_task if has_data and recipe.data_task is not None else str(values["evaluation"]["task"])


def _with_time(values: Values, changes: Values) -> Values:
    """The wall-clock limit of an evaluation grows with a budget in seconds: it is there for what hangs."""
    limit = values["evaluation"].get("seconds")
    budget = changes["evaluation"].get("training", {}).get("budget")
    seconds = budget.get("seconds") if isinstance(budget, Mapping) else None
    if limit is None or not isinstance(seconds, (int, float)):
        return values
    return merge(values, {"evaluation": {"seconds": max(limit, _LONGEST + _FACTOR * seconds)}})
