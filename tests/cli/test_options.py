"""Counts such as ``5M``, and settings from files, assignments and flags."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from evodevo.cli.options import GivenBudget, parse_budget, parse_count
from evodevo.cli.overrides import overrides
from evodevo.errors import ExitCode, UsageError


@given(st.integers(0, 10**15), st.text(max_size=30))
def test_plain_numbers_are_themselves_and_any_text_is_a_count_or_a_budget_or_refused(value: int, text: str) -> None:
    assert parse_count(str(value)) == value
    with contextlib.suppress(typer.BadParameter):
        assert parse_count(text) >= 0
    with contextlib.suppress(typer.BadParameter):
        assert parse_budget(text) != GivenBudget()


def test_suffixes_of_counts() -> None:
    counts = {"5M": 5_000_000, "1.5K": 1500, "600k": 600_000, " 2G ": 2 * 10**9, "0.001K": 1}
    assert {text: parse_count(text) for text in counts} == counts
    for text in ("", "-5", "1.5", "M", "5 M", "1e6", "0x10", "٣", "5MB", "nan", "1.0001K"):
        with pytest.raises(typer.BadParameter):
            parse_count(text)


def test_budgets() -> None:
    seconds = {"10m": 600, "90s": 90, "1.5h": 5400, "2 min": 120}
    assert {text: parse_budget(text) for text in seconds} == {t: GivenBudget(seconds=s) for t, s in seconds.items()}
    assert parse_budget("1000steps") == GivenBudget(steps=1000)
    assert parse_budget("5K steps") == GivenBudget(steps=5000)
    assert parse_budget("1.5Msamples") == GivenBudget(tokens=1_500_000)
    for text in ("", "10", "m", "10x", "-3m", "steps", "0m", "0steps", "1e3s", "5Km", "٣m", "1.2.3s"):
        with pytest.raises(typer.BadParameter, match="10m"):
            parse_budget(text)


def test_a_budget_is_said_once_and_baselines_alone_mean_all(refuse: Callable[..., None]) -> None:
    train = ["train", "h_model.pointer"]
    refuse([*train, "--budget", "9steps", "--steps", "9"], ExitCode.USAGE, "--budget and --steps set the same")
    for words in (["--baselines"], ["--baselines", "all"], ["--baselines", "--seeds", "2"]):
        refuse([*train, *words], ExitCode.USAGE, "names its arms itself")


def test_flags_over_assignments_over_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[study]\npopulation = 1\nseed = 1\nmode = 'steady'\n")
    values = overrides(tmp_path / "a.toml", ["study.seed=2", "study.population=2"], {"study.population": 3})
    assert values == {"study": {"population": 3, "seed": 2, "mode": "steady"}}
    assert overrides(None, [], {"study.population": None}) == {}, "a flag that is not given changes nothing"
    for text in ("study.population", "=3", "study..seed=1"):
        with pytest.raises(UsageError, match="--set"):
            overrides(None, [text], {})
