"""``evodevo recipes``: list recipes, complete runs that are ready to start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.drive.evolve import SearchSize
from evodevo.cli.options import Json

LONGEST = 100
"""Columns of what is printed."""

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
    for line in wrap(f"{name}, size {size.value}: {recipe.summary}", LONGEST - 2):
        output.line(f"# {line}")
    for room, values in settings.items():
        output.line(f"\n[{room}]")
        for line in _toml(values, room):
            output.line(line)


def _toml(values: Mapping[str, Any], header: str, above: str = "", *, whole: bool = False) -> Iterator[str]:
    """Lines of one table.

    TOML has no null, so that a setting without a value becomes a comment. Keys are dotted, and values stand in line,
    where they fit; what does not becomes a table of its own below all of these.

    Args:
        values: Keys and values.
        header: Name of the table.
        above: Beginning of its dotted keys.
        whole: Whether it replaces what was there, as an entry of a list does: empty tables count then.
    """
    tables: list[tuple[str, Any]] = []
    for key, value in values.items():
        name = f"{above}{_key(key)}"
        if _is_deep(value):
            tables.append((f"{header}.{name}", value))
        elif isinstance(value, dict) and value:
            yield from _toml(value, header, f"{name}.", whole=whole)
        elif value is None:
            yield f"# {name} is not set"
        elif whole or value != {}:
            yield from _assignment(name, value)
    for name, value in tables:
        if isinstance(value, dict):
            yield f"\n[{name}]"
            yield from _toml(value, name, whole=whole)
            continue
        for element in value:
            yield f"\n[[{name}]]"
            yield from _toml(_given(element), name, whole=True)


def _given(value: Any) -> Any:
    """A value without what is not set."""
    if isinstance(value, dict):
        return {key: _given(inner) for key, inner in value.items() if inner is not None}
    return [_given(inner) for inner in value] if isinstance(value, list) else value


def _is_deep(value: Any) -> bool:
    """Whether it is a list of tables of which one does not fit on a line, or holds such a list."""
    if isinstance(value, dict):
        return any(_is_deep(inner) for inner in value.values())
    tables = isinstance(value, list) and bool(value) and all(isinstance(inner, dict) for inner in value)
    return tables and any(len(_value(inner)) > LONGEST - 5 for inner in value)


def _assignment(name: str, value: Any) -> Iterator[str]:
    """A key and its value, on as many lines as it needs."""
    line = f"{name} = {_value(value)}"
    if len(line) <= LONGEST or not isinstance(value, list | str):
        yield line
        return
    if isinstance(value, str):
        yield f"{name} = " + "\n".join(_text(value, ""))
        return
    yield f"{name} = ["
    for element in value:
        yield from _item(element, "    ")
    yield "]"


def _item(value: Any, indent: str) -> Iterator[str]:
    line = f"{indent}{_value(value)},"
    if len(line) <= LONGEST or not isinstance(value, list | str):
        yield line
    elif isinstance(value, str):
        first, *rest = _text(value, indent)
        yield "\n".join([indent + first, *rest]) + ","
    else:
        yield f"{indent}["
        for inner in value:
            yield from _item(inner, indent + "    ")
        yield f"{indent}],"


def _text(value: str, indent: str) -> list[str]:
    """Lines of a long text: a line that ends with a backslash goes on where the next one has its first letter."""
    import json

    words = re.findall(r"\S+\s*|^\s+", value)
    lines = [""]
    for word in (json.dumps(word)[1:-1] for word in words):
        if lines[-1] and len(indent + lines[-1] + word) > LONGEST - 4:
            lines.append("")
        lines[-1] += word
    return ['"""\\', *(f"{indent}{line}\\" for line in lines[:-1]), f'{indent}{lines[-1]}"""']


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

    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)
