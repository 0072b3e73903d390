"""Linear probes: what they measure, and the draw of parents by them (docs/spec/munet.md#probes)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evodevo.multitask.search.parents import ParentSettings, select_parents
from evodevo.multitask.search.population import ScoredPath
from evodevo.multitask.search.transfer import transfer_weights
from evodevo.multitask.transfer.probe import SAMPLES, chosen_places, prior_loss, probed
from evodevo.randomness import generator

IDS = tuple("abcdef")


def clouds(spread: float, classes: int = 4, samples: int = 240) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    labels = np.arange(samples) % classes
    return rng.normal(size=(classes, 6))[labels] + spread * rng.normal(size=(samples, 6)), labels


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_a_probe_agrees_with_cross_validation_by_scikit_learn(spread: float) -> None:
    features, labels = clouds(spread)
    loss, accuracy = probed(features, labels, 0)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=100))
    chances = cross_val_predict(
        model, features, labels, cv=StratifiedKFold(3, shuffle=True, random_state=0), method="predict_proba"
    )
    # Other folds: equal but for the luck of the draw.
    assert loss == pytest.approx(log_loss(labels, chances), rel=0.25, abs=0.02)
    assert accuracy == pytest.approx(accuracy_score(labels, chances.argmax(1)), abs=0.08)


def test_better_representations_have_lower_losses_and_noise_is_no_better_than_the_prior() -> None:
    losses = [probed(*clouds(spread), 0)[0] for spread in (0.1, 0.5, 1.0, 3.0)]
    assert losses == sorted(losses)
    noise, labels = np.random.default_rng(0).normal(size=(300, 4)), np.arange(300) % 3
    assert probed(noise, labels, 0)[0] > prior_loss(labels) - 0.02


def test_rare_classes_and_constant_numbers_are_no_trouble() -> None:
    features, labels = clouds(0.5)
    labels[:] = 0
    labels[7] = 5
    features[:, 2] = 1.0
    loss, accuracy = probed(features, labels, 0)
    assert math.isfinite(loss)
    assert accuracy == pytest.approx(239 / 240)
    assert probed(features, labels, 0) == (loss, accuracy)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=60))
def test_the_prior_is_the_entropy_of_the_classes(labels: list[int]) -> None:
    assert prior_loss(np.asarray(labels)) == pytest.approx(entropy(np.bincount(labels)))


def test_samples_are_at_most_500_each_once_and_a_function_of_the_seed() -> None:
    few, many = chosen_places(30, 1), chosen_places(4000, 1)
    assert few.tolist() == list(range(30))
    assert len(set(many.tolist())) == SAMPLES == len(many)
    assert (many == chosen_places(4000, 1)).all()
    assert (many != chosen_places(4000, 2)).any()


@given(
    losses=st.dictionaries(st.sampled_from(IDS), st.floats(0, 20), min_size=1),
    own=st.sets(st.sampled_from(IDS)),
    temperature=st.floats(0.01, 10),
    explore=st.floats(0, 1),
)
def test_weights_are_chances_that_fall_with_the_loss(
    losses: dict[str, float], own: set[str], temperature: float, explore: float
) -> None:
    weights = transfer_weights(IDS, own, losses, temperature=temperature, explore=explore)
    assert weights is not None
    assert math.fsum(weights.values()) == pytest.approx(1)
    assert min(weights.values()) >= explore / len(IDS) - 1e-12
    strangers = sorted((one for one in losses if one not in own), key=losses.__getitem__)
    assert [weights[one] for one in strangers] == sorted((weights[one] for one in strangers), reverse=True)
    assert all(weights[one] == pytest.approx(max(weights.values())) for one in own)
    if explore == 1:
        assert max(weights.values()) == pytest.approx(min(weights.values()))


def test_one_temperature_of_loss_is_a_factor_of_e() -> None:
    weights = transfer_weights(("a", "b"), (), {"a": 0.5, "b": 0.8}, temperature=0.3, explore=0.0)
    assert weights is not None
    assert weights["a"] / weights["b"] == pytest.approx(math.e)
    assert transfer_weights(("a", "b"), (), {"c": 0.1}, temperature=0.3, explore=0.0) is None


def test_draws_by_probes_have_their_chances_and_uniform_ones_stay_what_they_were() -> None:
    weights = transfer_weights(IDS, (), {"a": 0.1, "b": 0.2, "c": 2.0}, temperature=0.1, explore=0.1)
    generators = [generator(0, number) for number in range(4000)]
    chosen, _ = select_parents((), IDS, generators, ParentSettings(fallback="probed"), weights=weights)
    assert {one.how for one in chosen} == {"probed"}
    assert weights is not None
    for name in IDS:
        share = sum(one.parent == name for one in chosen) / len(chosen)
        assert share == pytest.approx(weights[name], abs=0.03)
    # Without probes, the draw and its record are those of the uniform choice.
    again = [generator(0, number) for number in range(50)]
    plain, _ = select_parents((), IDS, again, ParentSettings(fallback="uniform"))
    unprobed, _ = select_parents((), IDS, [generator(0, n) for n in range(50)], ParentSettings(fallback="probed"))
    assert plain == unprobed
    # The first two take the best one; where nothing was probed they are drawn.
    some, _ = select_parents(
        (), IDS, [generator(0, n) for n in range(4000)], ParentSettings(fallback="probed"), weights=weights, best=2
    )
    assert [(one.parent, one.probability) for one in some[:2]] == [("a", 1.0)] * 2
    assert some[2:] == chosen[2:]
    blind, _ = select_parents((), IDS, [generator(0, n) for n in range(50)], ParentSettings(fallback="probed"), best=2)
    assert blind == unprobed
    owned, _ = select_parents(
        (ScoredPath("x", 0, 0.5),),
        IDS,
        [generator(1)],
        ParentSettings(fallback="probed"),
        weights={**weights, "x": 9},
        best=1,
    )
    assert owned[0].how == "population", "an own path comes first"
    population = (ScoredPath("x", 0, 0.5),)
    first, _ = select_parents(population, IDS, [generator(1)], ParentSettings(fallback="probed"), weights=None)
    assert first[0].how == "population"


def test_settings_of_before_are_written_as_before() -> None:
    assert ParentSettings().model_dump(mode="json") == {"fallback": "uniform"}
