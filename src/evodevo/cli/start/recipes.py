"""``evodevo recipes``: list recipes, complete runs that are ready to start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.drive.evolve import SearchSize
from evodevo.cli.options import Json

recipes = typer.Typer(help="List the recipes: whole runs, ready to start; show NAME prints the settings of one.")


@recipes.callback(invoke_without_command=True)
def listed(context: typer.Context, json: Json = False) -> None:
    """List the recipes: whole runs, ready to start; show NAME prints the settings of one."""
    if context.invoked_subcommand is not None:
        return
    from evodevo.runs.recipe import RECIPES

    every = [RECIPES.get(name) for name in RECIPES.names()]
    if json:
        rows = [{"name": recipe.name, "summary": recipe.summary, "drivers": list(recipe.drivers)} for recipe in every]
        output.document("evodevo.recipes/1", {"recipes": rows})
        return
    output.table(
        ("recipe", "for", "what"), [(recipe.name, ", ".join(recipe.drivers), recipe.summary) for recipe in every]
    )


@recipes.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of the recipe.")],
    size: Annotated[
        SearchSize, typer.Option(help="Minutes on two cores, or the whole thing; paper where the recipe has it.")
    ] = SearchSize.quick,
    json: Json = False,
) -> None:
    """Print all settings of a recipe, as TOML that --config reads."""
    from evodevo.runs.recipe import RECIPES
    from evodevo.runs.resolve import resolve

    recipe = RECIPES.get(name)
    settings = resolve(name, size=size.value, driver=recipe.drivers[0], overrides={}).model_dump(mode="json")
    if json:
        output.document("evodevo.recipe/1", {"name": name, "size": size.value, "settings": settings})
        return
    output.line(f"# {name}, size {size.value}: {recipe.summary}")
    for room, values in settings.items():
        output.line(f"\n[{room}]")
        for line in _toml(values):
            output.line(line)


def _toml(values: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Lines with dotted keys; TOML has no null, so that a setting without a value becomes a comment."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _toml(value, f"{above}{_key(key)}.")
        elif value is None:
            yield f"# {above}{key} is not set"
        elif value != {}:
            yield f"{above}{_key(key)} = {_value(value)}"


def _value(value: Any) -> str:
    """A value on one line; entries of a table without a value are left out."""
    import json

    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    # JSON's numbers, texts and booleans are TOML's, too.
    return json.dumps(value)


def _key(key: str) -> str:
    import json
    import re

    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)
