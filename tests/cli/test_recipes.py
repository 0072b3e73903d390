"""``evodevo recipes``: what is there, and settings that a file can hold."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from functools import cache

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.runs.recipe import RECIPES, Changes
from evodevo.runs.resolve import resolve


def test_every_recipe_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipes"]) == ExitCode.SUCCESS
    shown = capsys.readouterr().out
    assert run(["recipes", "--json"]) == ExitCode.SUCCESS
    rows = json.loads(capsys.readouterr().out)["recipes"]
    assert [row["name"] for row in rows] == RECIPES.names()
    for row in rows:
        assert row["name"] in shown
        assert row["summary"] in shown


@cache
def first_of_its_kind() -> dict[tuple[str, type], str]:
    found: dict[tuple[str, type], str] = {}
    for name in RECIPES.names():
        for driver in RECIPES.get(name).drivers:
            found.setdefault((driver, type(RECIPES.get(name).settings("quick", driver, Changes(name)))), name)
    return found


@pytest.mark.parametrize("name", RECIPES.names())
def test_the_shown_settings_are_a_file_that_gives_them_back(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    size = "full"
    assert run(["recipes", "show", name, "--size", size]) == ExitCode.SUCCESS
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 100
    values = tomllib.loads(shown)
    driver = RECIPES.get(name).drivers[0]
    settings = resolve(name, size=size, driver=driver, overrides={})
    assert resolve(name, size=size, driver=driver, overrides=values) == settings
    # The file decides, whatever recipe of its kind it is laid over.
    other = first_of_its_kind()[driver, type(settings)]
    assert resolve(other, size=size, driver=driver, overrides=values).study == settings.study


def test_the_json_form_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipes", "show", "backbone.demo", "--json"]) == ExitCode.SUCCESS
    document = json.loads(capsys.readouterr().out)
    wanted = resolve("backbone.demo", overrides={}).model_dump(mode="json")
    assert (document["schema"], document["settings"]) == ("evodevo.recipe/1", wanted)


def test_an_unknown_recipe_or_size(refuse: Callable[..., None]) -> None:
    refuse(["recipes", "show", "backbone.dmeo"], ExitCode.USAGE, "backbone.demo")
    assert run(["recipes", "show", "backbone.demo", "--size", "huge"]) == ExitCode.USAGE
