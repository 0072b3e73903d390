"""A zoo that grows as a classifier: it learns, repeats itself, tells and replays its history, and is kept with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score

from evodevo.errors import DataError, UnsafeFileError, UsageError
from evodevo.estimators import GrowingClassifier, ZooClassifier
from evodevo.estimators.fitting import divided
from evodevo.growth.fitness import FitnessHistory
from evodevo.growth.probes import ModuleProbe

GROWTH: dict[str, Any] = {
    "prune": {"age": 0, "tolerance": 10.0, "least": 2, "distil_steps": 2},
    "replay": {"capacity": 16, "steps": 2},
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def small(**changes: Any) -> GrowingClassifier:
    values: dict[str, Any] = {
        "width": 8,
        "modules": ("mlp", "squeeze_excite", "cnn"),
        "strategist": "random",
        "events": {"count": 2, "warm": 0.2, "horizon": 0.1},
        "growth": GROWTH,
        "epochs": 8,
        "learning_rate": 1e-2,
        "random_state": 1,
        "device": "cpu",
    }
    return GrowingClassifier(**{**values, **changes})


@pytest.fixture(scope="module")
def iris() -> Any:
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(iris: Any) -> GrowingClassifier:
    """Modules were born and went."""
    model = small().fit(*iris)
    assert model.n_births_ > 0
    assert model.n_prunings_ > 0
    return model


@pytest.mark.slow
def test_it_learns_iris(iris: Any) -> None:
    X, y = iris
    model = small(epochs=25, width=16).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9


@pytest.mark.slow
def test_counts_are_those_of_the_history(fitted: GrowingClassifier) -> None:
    history = fitted.history_
    born = [one for event in history["timeline"] for one in event["born"]]
    gone = [one for event in history["timeline"] for one in event["gone"]]
    assert (fitted.n_events_, fitted.n_births_, fitted.n_prunings_) == (2, len(born), len(gone))
    begun = ["mlp-1", "squeeze_excite-1", "cnn-1"]
    assert set(fitted.modules_) == set(begun + born) - set(gone)
    assert fitted.modules_ == [one.id for one in fitted.zoo_.modules] == list(fitted.network_.live)
    hybrids = [one for one in history["edits"] if one["action"]["operation"] == "hybridise" and one["module"]]
    assert fitted.n_hybrids_ == len(hybrids)
    assert fitted.n_refused_ == len(history["edits"]) - len(born) - len(gone) - sum(
        one["action"]["operation"] == "rewarm" for one in history["edits"]
    )
    assert json.loads(json.dumps(history)) == history


def test_the_report_names_every_edit(fitted: GrowingClassifier) -> None:
    text = fitted.report()
    for edit in fitted.history_["edits"]:
        assert f"{edit['action']['operation']} {' '.join(edit['action']['modules'])}".strip() in text
        assert edit["module"] is None or edit["module"] in text
    assert f"{len(fitted.modules_)} modules in the end" in text


def test_answers_come_from_the_modules_that_are_there(iris: Any, fitted: GrowingClassifier) -> None:
    weights = fitted.routing(iris[0][:5])
    assert list(weights) == fitted.modules_
    assert np.allclose(sum(weights.values()), 1)


@pytest.mark.slow
def test_equal_seeds_grow_equally(iris: Any, fitted: GrowingClassifier) -> None:
    X, y = iris
    again = clone(fitted).fit(X, y)
    assert again.history_["edits"] == fitted.history_["edits"]
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    other = small(random_state=5).fit(X, y)
    assert other.history_["edits"] != fitted.history_["edits"]


@pytest.mark.slow
def test_the_global_random_streams_are_left_alone(iris: Any) -> None:
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    small(epochs=5, strategist="ppo").fit(*iris)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numbers)  # type: ignore[index]


@pytest.mark.slow
def test_who_never_acts_is_a_zoo_that_stays(iris: Any) -> None:
    X, y = iris
    fixed = small(strategist="fixed").fit(X, y)
    assert fixed.modules_ == ["mlp-1", "squeeze_excite-1", "cnn-1"]
    assert (fixed.n_births_, fixed.n_prunings_, fixed.n_events_) == (0, 0, 2)
    silent = small(strategist="fixed", events=0).fit(X, y)
    assert silent.n_events_ == 0
    assert silent.report().startswith("no event")


def test_the_log_rebuilds_the_zoo_and_every_newborn(fitted: GrowingClassifier) -> None:
    found = fitted.replay()
    assert found.modules == fitted.zoo_.modules
    assert set(found.newborns) == {one for event in fitted.history_["timeline"] for one in event["born"]}


@pytest.mark.slow
def test_what_is_kept_answers_and_replays_the_same(iris: Any, fitted: GrowingClassifier, tmp_path: Path) -> None:
    X, _ = iris
    fitted.save(tmp_path)
    again = GrowingClassifier.load(tmp_path)
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.get_params() == fitted.get_params()
    assert (again.history_, again.curve_, again.modules_) == (fitted.history_, fitted.curve_, fitted.modules_)
    assert again.report() == fitted.report()
    for name, tensors in fitted.replay().newborns.items():
        theirs = again.replay().newborns[name]
        assert all(torch.equal(one, theirs[key]) for key, one in tensors.items())
    again.save(tmp_path)
    with pytest.raises(UnsafeFileError, match=r"growing_classifier/1.*zoo_classifier/1"):
        ZooClassifier.load(tmp_path)
    small(strategist="fixed").fit(*load_iris(return_X_y=True)).save(tmp_path)
    assert not list(tmp_path.glob("?" * 64 + ".safetensors")), "weights of another fit would stay"


def test_a_log_that_does_not_match_is_refused(fitted: GrowingClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    log = (tmp_path / "edits.json").read_text()
    parents = sorted(tmp_path.glob("?" * 64 + ".safetensors"))
    assert parents, "a newborn inherits"

    def refused(words: str) -> None:
        with pytest.raises(DataError, match=words):
            GrowingClassifier.load(tmp_path).replay()

    whole = parents[0].read_bytes()
    parents[0].write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused("not those that the log names")
    parents[0].unlink()
    refused("are missing")
    parents[0].write_bytes(whole)
    shorter = json.loads(log)
    shorter["edits"] = shorter["edits"][:1] if shorter["edits"][0]["after"] is None else []
    (tmp_path / "edits.json").write_text(json.dumps(shorter))
    refused("another zoo")
    (tmp_path / "edits.json").write_text(log.replace("evodevo.edits/1", "evodevo.edits/9"))
    refused("has the format")
    (tmp_path / "edits.json").unlink()
    with pytest.raises(UnsafeFileError, match=r"edits\.json is missing"):
        GrowingClassifier.load(tmp_path)


@pytest.mark.slow
def test_texts_images_and_labels() -> None:
    rng = np.random.default_rng(0)
    y = np.array(["no", "yes"] * 40)
    texts = [f"{'good' if one == 'yes' else 'bad'} thing {rng.integers(9)}" for one in y]
    images = rng.integers(0, 100, (80, 6, 6)).astype(np.uint8)
    images[y == "yes", :3] += 100
    both = small(modules=("mlp", "cnn"), epochs=15).fit({"image": images, "text": texts}, y)
    assert both.score({"image": images, "text": texts}, y) > 0.9
    assert both.predict({"text": ["good"]}).shape == (1,)
    table = rng.normal(size=(120, 3))
    labels = (table > 0).astype(int)
    model = small(modules=("mlp", "cnn"), epochs=25).fit(table, labels)
    assert (model.predict(table) == labels).mean() > 0.85


@pytest.mark.slow
def test_growth_sees_samples_of_its_own(iris: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither trained on nor used to choose weights, and whole groups."""
    groups = np.arange(150) // 5
    parts = divided(iris[1], groups, 0.1, 0.2)
    assert sorted(np.concatenate(list(parts.values()))) == list(range(150))
    held = [set(groups[rows]) for rows in parts.values()]
    assert not held[0] & held[1] | held[0] & held[2] | held[1] & held[2]
    assert len(parts["architecture"]) == 30
    assert len(divided(iris[1][:19], None, 0.1, 0.2)["architecture"]) == 0
    two = divided(iris[1], np.arange(150) % 2, 0.1, 0.2)
    assert (len(two["architecture"]), len(two["validation"])) == (0, 75)

    from evodevo.growth import driver

    sizes: list[int] = []

    def listening(before: FitnessHistory, seen: ModuleProbe, *given: Any) -> FitnessHistory:
        sizes.append(len(next(iter(seen.alone.values()))))
        return assess(before, seen, *given)

    assess = driver.assess
    monkeypatch.setattr(driver, "assess", listening)
    small().fit(*iris, groups=groups)
    assert set(sizes) == {30}


@pytest.mark.slow
def test_patience_waits_for_the_last_event(iris: Any) -> None:
    X, y = iris
    events = {"count": 2, "first": 0.1, "last": 0.4, "warm": 0.1, "horizon": 0.05}
    model = small(epochs=40, patience=1, learning_rate=3e-2, events=events, validation_fraction=0.2).fit(X, y)
    assert model.n_events_ == 2
    whole = 40 * 3
    assert 0.5 * whole <= model.n_steps_ < whole
    assert model.best_step_ < model.n_steps_


@pytest.mark.slow
def test_budgets(iris: Any) -> None:
    X, y = iris
    assert small(budget={"steps": 20}).fit(X, y).n_steps_ == 20
    hasty = small(budget={"seconds": 0.02}, events={"count": 1, "first": 0.995, "last": 0.999})
    with pytest.warns(ConvergenceWarning, match="before the first event"):
        hasty.fit(X, y)
    assert hasty.n_events_ == 0
    last = small(validation_fraction=0).fit(X, y)
    assert (last.metric_, last.best_step_, last.curve_) == ("none", last.n_steps_, [])


@pytest.mark.slow
def test_a_budget_of_flops_pays_for_probes_and_can_be_repeated(iris: Any) -> None:
    X, y = iris
    counted = small(budget={"flops": 8e6}).fit(X, y)
    looking, blind = (small(budget={"flops": 8e6}, strategist="fixed", events=count) for count in (2, 0))
    assert looking.fit(X, y).n_steps_ < blind.fit(X, y).n_steps_, "probes count, too"
    again = clone(counted).fit(X, y)
    assert (again.n_steps_, again.history_["edits"]) == (counted.n_steps_, counted.history_["edits"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"strategist": "pop"}, "strategist"),
        ({"events": {"cuont": 3}}, "count"),
        ({"events": -1}, "count"),
        ({"events": 4, "growth": {"events": {"count": 3}}}, "not both"),
        ({"growth": {"strategist": "ppo"}}, "parameter strategist"),
        ({"growth": {"edit_memory": "0" * 64}}, "edit_memory"),
        ({"growth": {"birth": {"most": 2}}}, "begins with 3 modules"),
        ({"growth": {"caps": {"parameters": 10}}}, "over the cap of 10"),
        ({"epochs": 1, "events": 8}, r"too few for 8 events.*epochs is 1"),
        ({"budget": {"steps": 4}, "events": 8}, "too few for 8 events"),
        ({"budget": {"flops": 8e6}, "events": 200}, r"holds about \d+ steps.*too few for 200 events"),
        ({"budget": {"flops": 1e4}}, "less than one step"),
        ({"budget": {"stepps": 4}}, "steps"),
        ({"budget": {}}, "budget"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"patience": 0}, "patience is 0"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"architecture_fraction": 0.95}, "architecture_fraction is 0.95"),
        ({"modules": ("mlp", "lsmt")}, "Did you mean 'lstm'"),
    ],
)
def test_parameters_that_cannot_be(iris: Any, changes: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        small(**changes).fit(*iris)


def test_what_is_not_fitted_has_no_history() -> None:
    for ask in (lambda one: one.report(), lambda one: one.replay(), lambda one: one.n_births_, lambda one: one.zoo_):
        with pytest.raises(NotFittedError):
            ask(small())


@pytest.mark.slow
def test_it_says_how_it_goes(iris: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model = small(verbose=1).fit(*iris)
    out = capsys.readouterr().out
    assert "of the budget: loss " in out
    for event in model.history_["timeline"]:
        assert f"event {event['event']}: " in out
        assert all(one in out for one in (*event["born"], *event["gone"]))


def test_the_place_in_a_batch_changes_no_digit(iris: Any, fitted: GrowingClassifier) -> None:
    X, _ = iris
    order = np.random.default_rng(0).permutation(len(X))
    assert np.array_equal(fitted.predict_proba(X[order]), fitted.predict_proba(X)[order])


@pytest.mark.slow
def test_it_works_in_cross_validation(iris: Any) -> None:
    assert cross_val_score(small(epochs=5), *iris, cv=2).shape == (2,)
