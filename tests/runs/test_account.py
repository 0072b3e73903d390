"""The account of a search with rungs and inheritance: stated equals recorded, and every page of it says the same."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from evodevo.cli.application import run
from evodevo.runs.account import rank_correlation, training_account
from evodevo.runs.archive import Archive

pytestmark = pytest.mark.slow
STEP, STEPS = 64, 4  # tokens of a step, and steps of the whole budget, of the small search
CHANGES = (
    "study.population=3",
    "study.rungs={shares=[0.5],kept=0.25,minimum=1}",
    "study.inheritance.budget=0.5",
    "study.confirmations=1",
)


@pytest.fixture(scope="module")
def store(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small search again, cheaper."""
    folder = tmp_path_factory.mktemp("cheaper") / "runs"
    assert small.evolve(folder, *(word for change in CHANGES for word in ("--set", change))) == 0
    return folder


def test_the_account_is_that_of_the_settings(store: Path) -> None:
    with Archive(store) as archive:
        search = archive.run("last")
        account = training_account(search)
        half, whole = account.rungs
        assert [rung.share for rung in account.rungs] == [0.5, 1.0]
        # Three founders of four steps, three children of two: to the half, and one of each to the end.
        assert (half.reached, half.stopped, half.failed) == (6, 4, 0)
        assert half.tokens == STEP * (3 * 2 + 3 * 1)
        assert (whole.reached, whole.stopped) == (2, 0)
        assert whole.tokens == STEP * (1 * 2 + 1 * 1)
        assert account.search == sum(sum(row["tokens"].values()) for row in search.generations())
        assert account.baselines == 2 * STEPS * STEP
        assert account.confirmations == (2 + len(search.front())) * STEPS * STEP
        assert half.correlation == {"quality": None, "cache": None}, "two individuals have no ranking"
        assert len(account.inherited) == 3
        assert all(one.share == 1 for one in search.front())


def test_every_page_says_who_stopped_and_what_was_inherited(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Archive(store) as archive:
        people = archive.run("last").individuals()
        child = next(one for one in people if "inherited" in one.fact)
        stopped = next(one for one in people if one.stopped)
    assert run(["show", stopped.id, "--store", str(store)]) == 0
    assert "stopped at 50%" in capsys.readouterr().out
    assert run(["show", "last", "--store", str(store), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [rung["stopped"] for rung in shown["training"]["rungs"]] == [4, 0]
    assert {row["id"]: row.get("share") for row in shown["individuals"]}[stopped.id] == 0.5
    assert run(["lineage", child.id, "--store", str(store)]) == 0
    share = child.fact["inherited"]["share"]
    assert f"began with {share:.0%} of the weights" in capsys.readouterr().out
    page = store.parent / "page.html"
    assert run(["report", "last", "--store", str(store), "--output", str(page)]) == 0
    text = page.read_text()
    assert "Training tokens" in text
    assert "4 individuals that stopped at a rung are left out" in text


def test_training_one_again_has_neither_rungs_nor_inheritance(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Archive(store) as archive:
        child = next(one for one in archive.run("last").individuals() if "inherited" in one.fact)
    assert run(["train", child.id, "--steps", "1", "--store", str(store)]) == 0
    capsys.readouterr()
    with Archive(store) as archive:
        again = archive.run("last")
        assert again.kind == "train"
        assert again.settings.study.rungs is None
        assert again.individuals()[0].share == 1
        assert "inherited" not in again.individuals()[0].fact


def test_a_budget_without_shares_is_refused_before_a_store_is_made(
    small: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = small.evolve(tmp_path / "runs", "--set", CHANGES[1], "--set", "evaluation.training.budget.seconds=1")
    assert code != 0
    assert "study.rungs cannot be used here" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("length", [3, 4, 5, 12])
def test_the_rank_correlation_is_that_of_the_ranks(length: int) -> None:
    a, b = np.random.default_rng(length).integers(0, 5, (2, length)).tolist()
    value = rank_correlation(a, b)
    x, y = rankdata(a) - (len(a) + 1) / 2, rankdata(b) - (len(b) + 1) / 2
    assert value == pytest.approx(float(x @ y / math.sqrt((x @ x) * (y @ y))), abs=1e-12)
    assert rank_correlation([1] * length, b) is None
    assert rank_correlation(a[:2], b[:2]) is None


def test_rungs_cannot_come_or_go_on_resume(store: Path, small: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, change in ((store, "study.rungs.kept=0.5"), (small.store, CHANGES[1])):
        assert run(["resume", "last", "--set", change, "--store", str(folder)]) != 0
        assert "study.rungs cannot change on resume" in capsys.readouterr().err
