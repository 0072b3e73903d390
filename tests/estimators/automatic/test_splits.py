"""Folds: copies stay together, what recurs does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import evodevo
from evodevo.estimators.automatic.search import LEAST_NETWORK_SECONDS, PLAIN_SHARE, RETRAIN_SHARE
from evodevo.estimators.automatic.splits import RECURRING, fingerprints, folds
from evodevo.randomness import generator
from evodevo.tasks.rows.samples import Samples


def samples_of(numbers: list[float]) -> Samples:
    return Samples(len(numbers), np.asarray(numbers)[:, None], np.zeros((len(numbers), 0), np.int64))


def test_copies_are_in_one_fold_and_recurring_samples_are_not() -> None:
    numbers = [float(number) for number in range(50)] * 2
    copies = np.arange(100) % 50 % 3
    together = fingerprints(samples_of(numbers), copies, None)
    assert together[:50] == together[50:]
    for fold in folds(copies, together, 0):
        assert not set(fold.train % 50) & set(fold.held % 50)
    few = copies.copy()
    few[: math.ceil(50 * RECURRING) - 1] += 1  # a few wrong labels
    assert fingerprints(samples_of(numbers), few, None) == together
    often = copies.copy()
    often[: math.ceil(50 * RECURRING)] += 1
    assert len(set(fingerprints(samples_of(numbers), often, None))) == 100
    given = fingerprints(samples_of(numbers), often, ["a"] * 100)
    assert set(given) == {b"a"}


def test_labels_and_quantities_recur_as_well() -> None:
    numbers = [float(number) for number in range(20)] * 2
    labels = np.tile(np.eye(2, dtype=np.float32), (20, 1))
    assert len(set(fingerprints(samples_of(numbers), labels, None))) == 20
    labels[20:] = 1 - labels[20:]
    assert len(set(fingerprints(samples_of(numbers), labels, None))) == 40
    values = np.tile(np.linspace(0, 1, 20), 2)
    assert len(set(fingerprints(samples_of(numbers), values, None))) == 20
    assert len(set(fingerprints(samples_of(numbers), np.linspace(0, 1, 40), None))) == 40


@pytest.mark.slow
def test_the_held_out_score_of_a_table_of_few_categories_is_that_of_new_rows() -> None:
    """Before, whole combinations were held out, which said nothing of rows that come: .5 was measured here for .76."""
    rng = generator(0, "categories")
    classes, ages = rng.choice(["first", "second", "third"], 800), rng.choice(["adult", "child"], 800)
    chance = np.where((classes == "first") != (ages == "child"), 0.8, 0.3)
    rows = {"class": classes, "age": ages, "answer": np.where(rng.random(800) < chance, "yes", "no")}
    train = {name: column[:400] for name, column in rows.items()}
    test = {name: column[400:] for name, column in rows.items()}
    model = evodevo.fit(train, "answer", time_limit=20, networks=False)
    right = float(np.mean(np.asarray(model.predict(test)) == test["answer"]))
    assert right > 0.7
    assert abs(model.leaderboard().rows[0].score - right) < 0.06


@pytest.mark.parametrize(("seconds", "networks", "plain"), [(2, True, False), (2, False, False), (60, True, True)])
def test_plain_candidates_have_the_time_where_networks_cannot_have_it(
    seconds: float, networks: bool, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[float] = []
    from evodevo.estimators.automatic.search import FitSearch

    monkeypatch.setattr(FitSearch, "_plain", lambda self, share: (shares.append(share), _first(self)))
    monkeypatch.setattr(FitSearch, "_networks", lambda self: None)
    rows = {"x": np.arange(40) % 7, "y": np.where(np.arange(40) % 7 > 3, "a", "b")}
    evodevo.fit(rows, "y", time_limit=seconds, networks=networks)
    assert shares == [PLAIN_SHARE if plain else 1 - RETRAIN_SHARE]
    assert (seconds * (1 - PLAIN_SHARE - RETRAIN_SHARE) >= 5 * LEAST_NETWORK_SECONDS) == plain


def _first(search: Any) -> None:
    from evodevo.estimators.automatic.candidates.base import Limit
    from evodevo.estimators.automatic.candidates.constant import Constant

    one = search._judge(Constant(), Limit(search.limit.ends))
    assert one is not None
    search._add(one)
