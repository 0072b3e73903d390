"""The probe and its controls: it finds what is there, and nothing where nothing is."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evodevo.errors import DataError, UsageError
from evodevo.h_model.trace.diagnose import with_random_routers
from evodevo.h_model.trace.probe import LinearProbe, linear_probe, paired_gain, route_probe
from evodevo.randomness import integer_seed
from evodevo.testing.networks import small_batch, small_model
from fixtures.traces import classes_trace, random_trace

LANGUAGES = ("ar", "de", "en", "uk")
SCRIPTS = {"ar": "arabic", "de": "latin", "en": "latin", "uk": "cyrillic"}


@pytest.fixture(scope="module")
def found():
    trace = classes_trace(120, LANGUAGES, noise=0.05)
    untrained = random_trace(120, 4, 5, inputs=2, outputs=2)
    histograms = np.random.default_rng(0).poisson(3.0, (120, 16))
    return route_probe(trace, "language", untrained=untrained, histograms=histograms, scripts=SCRIPTS)


def test_a_linear_probe_is_scikit_learns_cross_validation() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 90)
    features = rng.standard_normal((90, 6)) + labels[:, None] * 0.5
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=3000, tol=1e-3))
    folds = StratifiedKFold(5, shuffle=True, random_state=integer_seed(4) % 2**32)
    assert linear_probe(features, labels, seed=4).accuracy == pytest.approx(
        np.mean(cross_val_score(model, features, labels, cv=folds)), abs=0.01
    )


def test_routes_that_follow_the_language_tell_it_and_the_controls_do_not(found) -> None:
    assert found.trained.accuracy > 0.98
    assert found.shuffled.accuracy < 0.45
    assert found.untrained.accuracy < 0.5
    assert found.histogram.accuracy < 0.5
    assert found.majority == pytest.approx(0.25)
    assert found.gain.low > 0.4
    assert found.gain.low <= found.gain.value <= found.gain.high
    assert found.gain.value == pytest.approx(found.trained.accuracy - found.untrained.accuracy)
    assert [name for name, _ in found.rows()][:2] == ["routes, trained", "routes, untrained"]


def test_languages_of_one_script_are_probed_alone(found) -> None:
    assert set(found.scripts) == {"latin"}
    latin = found.scripts["latin"]
    assert (latin.classes, latin.samples, latin.fact) == (("de", "en"), 60, "language, latin only")
    assert latin.gain is not None
    assert latin.majority == pytest.approx(0.5)


def test_a_model_against_itself_gains_nothing() -> None:
    trace = classes_trace(60, noise=0.3)
    gain = route_probe(trace, "language", untrained=trace).gain
    assert (gain.value, gain.low, gain.high) == (0, 0, 0)


def test_the_interval_of_a_gain_is_near_the_normal_one() -> None:
    rng = np.random.default_rng(2)
    one, other = (LinearProbe(0.0, rng.random(800) < chance) for chance in (0.8, 0.6))
    gain = paired_gain(one, other)
    spread = np.std(one.right.astype(float) - other.right) / np.sqrt(800)
    assert gain.high - gain.low == pytest.approx(2 * 1.96 * spread, rel=0.1)


def test_samples_without_the_fact_do_not_count() -> None:
    trace = classes_trace(90)
    values = np.where(np.arange(90) < 30, -1, trace.facts["language"])
    assert route_probe(dataclasses.replace(trace, facts={"language": values}), "language").samples == 60


def test_what_cannot_be_probed_is_refused() -> None:
    trace = classes_trace(30)
    with pytest.raises(DataError, match="two classes"):
        route_probe(dataclasses.replace(trace, facts={"language": np.zeros(30, np.int64)}), "language")
    with pytest.raises(UsageError, match="untrained trace has 7 samples"):
        route_probe(trace, "language", untrained=trace.select(np.arange(7)))
    with pytest.raises(UsageError, match="histograms has 3 samples"):
        route_probe(trace, "language", histograms=np.ones((3, 2)))
    with pytest.raises(UsageError, match="same samples"):
        paired_gain(LinearProbe(0, np.ones(3, np.bool_)), LinearProbe(0, np.ones(4, np.bool_)))


def test_random_routers_tell_inputs_apart_where_new_ones_do_not() -> None:
    model = small_model(lively=0.0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batch = small_batch(count=20)
    assert model.trace(batch).routes().std(0).max() < 1e-6
    control = with_random_routers(model, seed=1)
    routes = control.trace(batch).routes()
    assert routes.std(0).max() > 1e-3
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items()), "a copy"
    changed = {name for name, value in control.state_dict().items() if not torch.equal(before[name], value)}
    assert changed
    assert all("routers" in name and name.endswith("outer.weight") for name in changed)
    assert (with_random_routers(model, seed=1).trace(batch).routes() == routes).all()
