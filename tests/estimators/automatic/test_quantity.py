"""``evodevo.fit`` on a quantity: scores, leaderboard, keeping and export."""

from __future__ import annotations

import csv
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evodevo
from evodevo.errors import UsageError
from evodevo.estimators.automatic import ensemble, scores, search
from evodevo.estimators.automatic.candidates.constant import Constant, MeanValue
from evodevo.estimators.automatic.candidates.mean import MeanPredictor
from evodevo.estimators.automatic.networks.race import NetworkRace
from evodevo.estimators.automatic.splits import folds, strata
from evodevo.randomness import generator


def rows(count: int = 90, seed: int = 0) -> dict[str, Any]:
    """A price around 30,000 that depends on columns of each kind, some cells missing."""
    rng = generator(seed, "prices")
    number, word, code = rng.normal(size=count), rng.integers(0, 3, count), rng.integers(0, 15, count)
    price = 30_000 + 5_000 * number + 4_000 * (word == 1) + 1_000 * rng.normal(size=count)
    images = rng.integers(0, 100, (count, 14, 13, 3)).astype(np.uint8)
    images[number > 0] += 60
    return {
        "number": [None if row % 9 == 0 else value for row, value in enumerate(number.tolist())],
        "day": [f"2024-0{1 + row % 9}-1{row % 7}" for row in range(count)],
        "colour": ["" if row % 11 == 0 else ("red", "green", "blue")[place] for row, place in enumerate(word.tolist())],
        "code": [f"c{place}" for place in code.tolist()],
        "text": [
            f"the {('stone', 'river', 'cloud')[place]} of {row % 23} days" for row, place in enumerate(word.tolist())
        ],
        "image": images,
        "price": price,
    }


def without(data: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: column for name, column in data.items() if name not in names}


@pytest.fixture(scope="module")
def model() -> evodevo.FittedModel:
    return evodevo.fit(rows(), "price", time_limit="20m", networks=False)


def test_scores_are_scikit_learns() -> None:
    from sklearn import metrics

    rng = generator(4, "values")
    answers, values = rng.normal(size=50) * 7, rng.normal(size=(50, 1)) * 7
    chosen = scores.METRICS["r2"].decide(values, np.zeros(0))
    assert (chosen == values[:, 0]).all()
    assert scores.METRICS["r2"].score(chosen, answers) == pytest.approx(metrics.r2_score(answers, chosen))
    assert scores.METRICS["mae"].score(chosen, answers) == pytest.approx(metrics.mean_absolute_error(answers, chosen))
    rmse = metrics.root_mean_squared_error(answers, chosen)
    assert scores.METRICS["rmse"].score(chosen, answers) == pytest.approx(rmse)
    assert scores.METRICS["r2"].loss(values, answers) == pytest.approx(rmse)
    assert scores.METRICS["r2"].score(answers, answers) == 1
    assert {metric.name for metric in scores.further(scores.METRICS["rmse"])} == {"r2", "mae"}
    assert scores.further(scores.METRICS["accuracy"]) == ()


@pytest.mark.parametrize("name", ["r2", "mae"])
def test_an_ensemble_of_values_is_never_worse_than_its_best_member(name: str) -> None:
    rng = generator(5, "ensemble", name)
    answers = rng.normal(size=60)
    values = {
        key: (answers + rng.normal(size=60) * spread)[:, None] for key, spread in zip("abc", (1, 1.2, 3), strict=True)
    }
    loss = scores.METRICS[name].loss
    weights = ensemble.greedy(values, answers, loss)
    together = np.asarray(sum(weight * values[key] for key, weight in weights.items()))
    assert len(weights) > 1
    assert loss(together, answers) < min(loss(own, answers) for own in values.values())


def test_each_fold_has_values_of_every_size() -> None:
    answers = np.exp(generator(6, "skewed").normal(size=200) * 2)
    groups = [str(row).encode() for row in range(200)]
    for fold in folds(strata(answers), groups, 0):
        shares = np.histogram(answers[fold.held], np.quantile(answers, np.linspace(0, 1, 6)))[0]
        assert shares.min() >= 7
        assert shares.max() <= 9
    classes = np.asarray([0, 1, 2])
    assert strata(classes) is classes


@pytest.mark.slow
def test_the_table_has_all_three_metrics_with_intervals(model: evodevo.FittedModel) -> None:
    from sklearn import metrics

    data = rows(200, 1)
    board = model.leaderboard(data)
    assert board.metric == "r2"
    assert {row.name for row in board} >= {
        "always the mean",
        "ridge regression on words, alpha = 1",
        "gradient boosting",
        "gradient boosting, small trees",
    }
    assert list(board.rows) == sorted(board.rows, key=lambda row: (-row.score, row.further["rmse"]))
    own, mean = board.test[model.name], board.test["always the mean"]
    truth, values = data["price"], model.predict(data)
    assert own.score == pytest.approx(metrics.r2_score(truth, values))
    assert own.score > 0.6
    assert own.further["rmse"].score == pytest.approx(metrics.root_mean_squared_error(truth, values))
    assert own.further["mae"].score == pytest.approx(metrics.mean_absolute_error(truth, values))
    assert own.low < own.score < own.high
    assert mean.behind_low > 0
    assert mean.further["rmse"].behind_high < 0  # errors are lower
    assert mean.further["rmse"].behind == pytest.approx(own.further["rmse"].score - mean.further["rmse"].score)
    text = str(board)
    assert "validation r2" in text
    assert "test rmse (95 %)" in text
    assert "log-loss" not in text
    assert "rmse" in board.verdict
    json = board.to_json()
    assert json["rows"][0]["log_loss"] is None
    assert json["rows"][0]["test"]["further"]["mae"]["low"] > 0


@pytest.mark.slow
def test_a_fit_divides_its_rows_so(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def divided(answers: Any, *more: Any) -> Any:
        seen.append(answers)
        return folds(answers, *more)

    monkeypatch.setattr("evodevo.estimators.automatic.fit.folds", divided)
    monkeypatch.setattr(search, "plain_candidates", lambda _: [MeanValue()])
    evodevo.fit(without(rows(), "text", "image"), "price", networks=False)
    assert sorted(set(seen[0].tolist())) == list(range(10))


@pytest.mark.slow
def test_names_of_folders_are_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "plain_candidates", lambda _: [Constant()])
    for number in range(30):
        (tmp_path / "texts" / str(number)).mkdir(parents=True)
        for place in range(4):
            (tmp_path / "texts" / str(number) / f"{place}.txt").write_text(f"word{number} and {place}")
    heard: dict[str, Any] = {}
    evodevo.fit(
        tmp_path / "texts", time_limit="20m", networks=False, listener=lambda kind, facts: heard.setdefault(kind, facts)
    )
    assert (heard["plan"]["kind"], heard["plan"]["classes"], heard["plan"]["numeric"]) == ("class", 30, True)


@pytest.mark.slow
def test_an_error_as_metric_is_better_when_lower() -> None:
    found = evodevo.fit(without(rows(), "text", "image"), "price", time_limit="20m", networks=False, metric="mae")
    assert found.rows[0].score == min(row.score for row in found.rows)
    assert found.rows[-1].name == "always the mean"
    assert found.rows[0].further.keys() == {"r2", "rmse"}


@pytest.mark.slow
def test_a_quantity_has_values_and_no_probabilities(model: evodevo.FittedModel, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no probabilities"):
        model.predict_proba(rows())
    assert model.classes == ()
    values = model.predict(rows(20, 1))
    assert all(isinstance(value, float) for value in values)
    loaded = evodevo.FittedModel.load(model.save(tmp_path / "model"))
    assert loaded.predict(rows(20, 1)) == values
    assert loaded.rows == model.rows
    with pytest.raises(UsageError, match="metric"):
        evodevo.fit(rows(), "price", metric="accuracy")
    with pytest.raises(UsageError, match="metric"):
        evodevo.fit(rows(), "price", kind="class", metric="r2")


@pytest.mark.slow
def test_every_model_of_values_is_exported_and_verified(model: evodevo.FittedModel, tmp_path: Path) -> None:
    names = [name for name in model.others if name != "weighted ensemble"]
    together = MeanPredictor([model.others[name] for name in names], [1 / len(names)] * len(names))
    folder = replace(model, predictor=together).export("source", tmp_path / "all")
    evodevo.FittedModel.load(folder).export("source", folder)  # verified on rows that are drawn
    table = without(rows(), "image", "text")
    plain = evodevo.fit(table, "price", time_limit="20m", networks=False)
    names = ["15 nearest neighbours", "extremely randomised trees", "ridge regression, alpha = 10"]
    both = replace(plain, predictor=MeanPredictor([plain.others[name] for name in names], [0.25, 0.25, 0.5]))
    both.export("source", tmp_path / "plain")
    cells = plain._rows(table).cells
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(cells), *zip(*cells.values(), strict=True)])
    command = [sys.executable, "-I", str(tmp_path / "plain" / "predict.py"), str(tmp_path / "rows.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = list(csv.reader(done.stdout.splitlines()))
    assert lines[0] == ["answer"]
    np.testing.assert_allclose(np.asarray([line[0] for line in lines[1:]], float), both.predict(table), rtol=1e-9)


@pytest.mark.slow
def test_networks_take_part_and_are_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = NetworkRace.run

    def counted(self: NetworkRace, seconds: float, report: Any) -> Any:
        return run(self, seconds, report, max_steps=20)

    monkeypatch.setattr(NetworkRace, "run", counted)
    monkeypatch.setattr(search, "LEAST_NETWORK_SECONDS", 0.1)
    found = evodevo.fit(without(rows(), "image"), "price", time_limit="20m", to=tmp_path / "model")
    networks = [row.name for row in found.rows if row.kind == "network"]
    assert networks
    other = replace(found, predictor=found.others[networks[0]])
    folder = other.export("source", tmp_path / "source")
    assert (folder / "torch_networks.py").exists()
    assert evodevo.FittedModel.load(folder).predict(rows()) == other.predict(rows())
