"""``evodevo demo``: the whole way once, here with a small recipe in the place of the demo's."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evodevo.cli.application import run
from evodevo.cli.start.demo import RECIPE
from evodevo.errors import ExitCode
from evodevo.runs.recipe import RECIPES, Recipe, by_size
from evodevo.runs.resolve import resolve
from evodevo.settings import merge

if TYPE_CHECKING:
    from ..conftest import Small


@pytest.fixture
def small_demo(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {
        "evaluation": {"language": {"data": str(small.text)}},
        "study": {"generations": 1, "confirmations": 0},
        "protocol": {"tuning_tokens": 64, "final_tokens": 128, "test_tokens": 64, "learning_rates": [1e-2]},
    }
    values: dict[str, Any] = merge(tomllib.loads(small.config.read_text()), changes)
    settings = resolve(RECIPE, overrides=values)
    monkeypatch.setitem(RECIPES._rows, RECIPE, Recipe(RECIPE, "small", ("evolve",), by_size(lambda size: settings)))


@pytest.mark.slow
def test_it_goes_the_whole_way(
    small_demo: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["demo"]) == ExitCode.SUCCESS
    seen = capsys.readouterr()
    assert "transformer++" in seen.out
    assert "random-1" in seen.out
    assert "What it cannot show" in seen.out
    assert "Against random search (4 and 4 evaluations" in seen.out
    assert "def " in seen.out
    report = tmp_path / "demo" / "report.html"
    assert report.as_uri() in seen.out
    assert report.read_text().startswith("<!")
    assert "evodevo show" in seen.out
    assert "Traceback" not in seen.err
