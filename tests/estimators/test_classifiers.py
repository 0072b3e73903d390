"""Zoos as classifiers, fixed and growing: they learn, repeat themselves, are kept, and say what they cannot do."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

from evodevo.errors import DataError, NotFoundError, UnsafeFileError, UsageError
from evodevo.estimators import GrowingClassifier, ZooClassifier
from evodevo.estimators.fitting import divided
from evodevo.estimators.growing.fit import _Printer
from evodevo.growth.events import probing
from evodevo.growth.fitness import FitnessHistory
from evodevo.growth.probes import ModuleProbe
from evodevo.module_zoo.named import named_zoo
from evodevo.module_zoo.plain_surroundings import PLAIN_SURROUNDINGS

X, Y = load_iris(return_X_y=True)
BEGUN = ("mlp", "squeeze_excite", "cnn")


def small(**changes: Any) -> ZooClassifier:
    values = {"width": 8, "modules": ("mlp", "cnn"), "epochs": 8, "learning_rate": 2e-2, "random_state": 0}
    return ZooClassifier(**{**values, "device": "cpu", "plain": False, **changes})


def growing(**changes: Any) -> GrowingClassifier:
    values: dict[str, Any] = {
        "width": 8,
        "modules": BEGUN,
        "strategist": "random",
        "events": {"count": 2, "warm": 0.2, "horizon": 0.1},
        "growth": {
            "prune": {"rule": "standard", "age": 0, "tolerance": 10.0, "least": 2, "distil_steps": 2},
            "replay": {"capacity": 16, "steps": 2},
        },
        "epochs": 8,
        "learning_rate": 1e-2,
        "random_state": 1,
        "device": "cpu",
        "plain": False,
    }
    return GrowingClassifier(**{**values, **changes})


BOTH = pytest.mark.parametrize("make", [small, growing])


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def fitted() -> ZooClassifier:
    return small().fit(X, Y)


@pytest.fixture(scope="module")
def grown() -> GrowingClassifier:
    """Modules were born and went."""
    model = growing().fit(X, Y)
    assert model.n_births_ > 0
    assert model.n_prunings_ > 0
    return model


# Both


@BOTH
@pytest.mark.slow
def test_it_learns_iris(make: Any) -> None:
    changes = {"modules": "start", "learning_rate": 5e-3} if make is small else {}
    model = make(epochs=15, width=16, **changes).fit(X[::2], Y[::2])
    assert model.score(X[1::2], Y[1::2]) > 0.9
    if make is small:
        assert len(model.modules_) == 6
        assert model.metric_ == "auc"


@BOTH
def test_the_global_random_streams_are_left_alone(make: Any) -> None:
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    make(**({"epochs": 1} if make is small else {"epochs": 5, "strategist": "ppo"})).fit(X, Y)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numbers)  # type: ignore[index]


@pytest.mark.slow
def test_equal_seeds_give_equal_models(fitted: ZooClassifier, grown: GrowingClassifier) -> None:
    for model in (fitted, grown):
        again = clone(model).fit(X, Y)
        assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.history_["edits"] == grown.history_["edits"]
    assert not np.array_equal(small(random_state=1).fit(X, Y).predict_proba(X), fitted.predict_proba(X))
    assert growing(random_state=5).fit(X, Y).history_["edits"] != grown.history_["edits"]


def test_answers_come_from_the_modules_that_are_there(fitted: ZooClassifier, grown: GrowingClassifier) -> None:
    for model in (fitted, grown):
        weights = model.routing(X[:5])
        assert list(weights) == model.modules_
        assert np.allclose(sum(weights.values()), 1)
    assert fitted.modules_ == ["mlp-1", "cnn-1"]


def test_the_place_in_a_batch_changes_no_digit(grown: GrowingClassifier) -> None:
    order = np.random.default_rng(0).permutation(len(X))
    assert np.array_equal(grown.predict_proba(X[order]), grown.predict_proba(X)[order])


@pytest.fixture(scope="module")
def posts() -> dict[str, Any]:
    """Texts and images that tell the class, and the classes."""
    rng = np.random.default_rng(0)
    y = np.array(["no", "yes"] * 40)
    images = rng.integers(0, 100, (80, 6, 6)).astype(np.uint8)
    images[y == "yes", :3] += 100
    texts = [f"{'good' if one == 'yes' else 'bad'} thing {rng.integers(9)}" for one in y]
    return {"text": texts, "image": images, "y": y}


@pytest.mark.slow
def test_texts_images_and_both(posts: dict[str, Any]) -> None:
    texts, images, y = posts["text"], posts["image"], posts["y"]
    by_text = small(epochs=10).fit(texts, y)
    assert by_text.predict(["good", "bad thing"]).tolist() == ["yes", "no"]
    assert "n_features_in_" not in vars(by_text)
    assert small(modules=("cnn",), epochs=10).fit(images, y).score(images, y) > 0.9
    both = small(epochs=10).fit({"image": images, "text": texts}, y)
    assert both.score({"image": images, "text": texts}, y) > 0.9
    alone = both.predict_proba({"text": texts[:3]})
    assert np.allclose(alone.sum(1), 1)
    mixed = both.predict_proba({"image": [None, images[1]], "text": [texts[0], None]})
    assert np.allclose(mixed[0], both.predict_proba({"text": texts[:1]})[0], atol=1e-5)


@pytest.mark.slow
def test_a_growing_one_reads_texts_and_images_too(posts: dict[str, Any]) -> None:
    given = {"image": posts["image"], "text": posts["text"]}
    both = growing(modules=("mlp", "cnn"), epochs=10).fit(given, posts["y"])
    assert both.score(given, posts["y"]) > 0.9
    assert both.predict({"text": ["good"]}).shape == (1,)


@BOTH
@pytest.mark.slow
def test_labels(make: Any) -> None:
    table = np.random.default_rng(0).normal(size=(120, 3))
    labels = (table > 0).astype(int)
    model = make(modules=("mlp", "squeeze_excite"), epochs=20, learning_rate=2e-2).fit(table, labels)
    assert model.classes_.tolist() == [0, 1, 2]
    found = model.predict(table)
    assert found.shape == model.predict_proba(table).shape == (120, 3)
    assert (found == labels).mean() > (0.9 if make is small else 0.85)


@BOTH
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"patience": 0}, "patience is 0"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"modules": ("mlp", "lsmt")}, "Did you mean 'lstm'"),
    ],
)
def test_parameters_that_neither_may_have(make: Any, changes: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make(**changes).fit(X, Y)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"modules": "strat"}, "Did you mean 'start'"),
        ({"modules": ()}, "at least one module"),
        ({"modules": named_zoo("start", 16)}, "width 16, the zoo has 8"),
        ({"modules": ("mlp", *named_zoo("start", 8))}, "not both"),
        ({"width": 3}, "width"),
        ({"seconds": -1.0}, "seconds"),
        ({"seconds": 1e-9}, "before the first step"),
        ({"validation_fraction": 1.0}, "validation_fraction is 1.0"),
        ({"dropout": 2.0}, "dropout"),
        ({"device": "gpu"}, "device.*'gpu'"),
        ({"text_length": 0}, "length"),
        ({"learning_rate": 1e30}, "smaller learning_rate"),
        ({"network": {"width": 4}}, "parameter width alone"),
        ({"network": {"readuot": 4}}, "did you mean 'readout'"),
        ({"network": 3}, "network is 3; give settings"),
    ],
)
def test_parameters_that_cannot_be(changes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small(**changes).fit(X, Y)


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
        ({"architecture_fraction": 0.95}, "architecture_fraction is 0.95"),
        ({"strategist": None, "events": None, "growth": None}, "charged in seconds or in FLOPs"),
    ],
)
def test_growths_that_cannot_be(changes: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        growing(**changes).fit(X, Y)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["a"] * 150, "one class alone, 'a'"),
        ([0, 1], "150 samples and y has 2|inconsistent numbers"),
        (np.linspace(0, 1, 150), "Unknown label type"),
        (None, "requires y"),
        (np.tile([[0, 1, 2], [2, 1, 0], [1, 2, 0]], (50, 1)), "several columns of classes"),
    ],
)
def test_targets_that_cannot_be(y: Any, words: str) -> None:
    for given in (X,) if y is None else (X, {"vectors": X}):
        with pytest.raises(ValueError, match=words):
            small().fit(given, y)


def test_samples_are_divided_by_groups_and_by_class() -> None:
    groups, answers = np.repeat(np.arange(20), 5), np.tile([0, 1], 50)
    train, validation, _ = divided(answers, groups, 0.2).values()
    assert not set(groups[train]) & set(groups[validation])
    assert sorted([*train, *validation]) == list(range(100))
    assert len(validation) == 20
    train, validation, _ = divided(answers, None, 0.2).values()
    assert answers[validation].mean() == pytest.approx(0.5)
    assert len(divided(answers, None, 0.0)["validation"]) == 0
    assert len(divided(answers[:19], None, 0.2)["validation"]) == 0
    with pytest.raises(UsageError, match="one value for each of 100"):
        divided(answers, groups[:5], 0.2)


# Trained as it was built


@pytest.mark.slow
def test_it_says_what_it_saw(fitted: ZooClassifier, capsys: pytest.CaptureFixture[str]) -> None:
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.n_features_in_ == 4
    assert len(fitted.history_) == fitted.n_epochs_ <= 8
    assert fitted.history_[fitted.best_epoch_ - 1]["auc"] == max(one["auc"] for one in fitted.history_)
    small(epochs=2, verbose=1).fit(X, Y)
    assert capsys.readouterr().out.startswith("epoch 1: train_loss ")


@pytest.mark.slow
def test_early_stopping_keeps_the_best_epoch() -> None:
    model = small(epochs=60, patience=2, learning_rate=3e-2).fit(X, Y)
    assert model.n_epochs_ < 60
    assert model.best_epoch_ == model.n_epochs_ - 2
    last = small(epochs=3, validation_fraction=0).fit(X, Y)
    assert (last.metric_, last.best_epoch_, last.n_epochs_) == ("none", 3, 3)
    # With one group of validation samples of one class there is no AUC.
    one_class = small(epochs=2, validation_fraction=0.05).fit(X[:100], Y[:100], groups=np.arange(100) // 50)
    assert one_class.metric_ == "loss"


def test_a_clock_ends_training() -> None:
    with pytest.warns(ConvergenceWarning, match="of one epoch; give more"):
        model = small(seconds=0.1, batch_size=1).fit(X, Y)
    assert model.predict(X).shape == (150,)


def test_what_is_kept_answers_the_same(fitted: ZooClassifier, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    fitted.save(folder)
    assert {one.name for one in folder.iterdir()} == {"zoo.json", "weights.safetensors"}
    again = ZooClassifier.load(folder)
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.get_params() == fitted.get_params()
    assert (again.n_features_in_, again.best_epoch_, again.history_) == (4, fitted.best_epoch_, fitted.history_)
    again.save(folder)


def test_texts_with_classes_of_their_own_are_kept(tmp_path: Path) -> None:
    texts = ["a b", "b c", "c d", "d e"] * 6
    model = small(epochs=1, modules=named_zoo("start", 8)).fit(texts, ["x", "y"] * 12)
    model.save(tmp_path)
    again = ZooClassifier.load(tmp_path)
    assert again.predict(texts).tolist() == model.predict(texts).tolist()
    assert again.modules_ == model.modules_


def test_folders_that_hold_something_else(fitted: ZooClassifier, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        small().save(tmp_path)
    with pytest.raises(NotFoundError, match=r"zoo\.json"):
        ZooClassifier.load(tmp_path)
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="other files"):
        fitted.save(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "evodevo.zoo_classifier/9"}, "format"),
        ({"parameters": {"widht": 3}}, "widht"),
        ({"classes": ["a"]}, "no classifier of this evodevo"),
        ({"structure": {"modules": [{"id": "x"}]}}, "genotype"),
        ({"reading": {"mean": [0.0]}}, "no classifier of this evodevo"),
        ("feed_sideways", "feed_sideways"),
        (b"no weights", "weights"),
    ],
)
def test_a_changed_file_is_refused(fitted: ZooClassifier, tmp_path: Path, change: Any, words: str) -> None:
    fitted.save(tmp_path)
    about = (tmp_path / "zoo.json").read_text()
    if isinstance(change, dict):
        (tmp_path / "zoo.json").write_text(json.dumps({**json.loads(about), **change}))
    elif isinstance(change, str):
        (tmp_path / "zoo.json").write_text(about.replace('"type":"feed_forward"', f'"type":"{change}"'))
    else:
        (tmp_path / "weights.safetensors").write_bytes(change)
    with pytest.raises(UnsafeFileError, match=words):
        ZooClassifier.load(tmp_path)


@pytest.mark.slow
def test_it_works_in_a_search() -> None:
    search = GridSearchCV(small(epochs=2), {"modules": [("mlp",), "start"]}, cv=2).fit(X, Y)
    assert search.best_params_["modules"] in (("mlp",), "start")


@pytest.mark.slow
def test_the_class_is_found_without_torch() -> None:
    script = (
        "import sys, evodevo, evodevo.estimators\n"
        "assert evodevo.ZooClassifier is evodevo.estimators.ZooClassifier\n"
        "evodevo.ZooClassifier(width=8)\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Grown


def test_counts_are_those_of_the_history_and_the_report_names_every_edit(grown: GrowingClassifier) -> None:
    history, text = grown.history_, grown.report()
    born = [one for event in history["timeline"] for one in event["born"]]
    gone = [one for event in history["timeline"] for one in event["gone"]]
    assert (grown.n_events_, grown.n_births_, grown.n_prunings_) == (2, len(born), len(gone))
    assert set(grown.modules_) == {*(f"{one}-1" for one in BEGUN), *born} - set(gone)
    assert grown.modules_ == [one.id for one in grown.zoo_.modules] == list(grown.network_.live)
    hybrids = [one for one in history["edits"] if one["action"]["operation"] == "hybridise" and one["module"]]
    assert grown.n_hybrids_ == len(hybrids)
    assert grown.n_refused_ == len(history["edits"]) - len(born) - len(gone) - sum(
        one["action"]["operation"] == "rewarm" for one in history["edits"]
    )
    assert json.loads(json.dumps(history)) == history
    for edit in history["edits"]:
        assert f"{edit['action']['operation']} {' '.join(edit['action']['modules'])}".strip() in text
        assert edit["module"] is None or edit["module"] in text
    assert f"{len(grown.modules_)} modules in the end" in text


@pytest.mark.slow
def test_who_never_acts_is_a_zoo_that_stays() -> None:
    fixed = growing(strategist="fixed").fit(X, Y)
    assert fixed.modules_ == [f"{one}-1" for one in BEGUN]
    assert (fixed.n_births_, fixed.n_prunings_, fixed.n_events_) == (0, 0, 2)
    silent = growing(strategist="fixed", events=0, epochs=1).fit(X, Y)
    assert silent.n_events_ == 0
    assert silent.report().startswith("no event")


def test_the_log_rebuilds_the_zoo_and_every_newborn(grown: GrowingClassifier) -> None:
    found = grown.replay()
    assert found.modules == grown.zoo_.modules
    assert set(found.newborns) == {one for event in grown.history_["timeline"] for one in event["born"]}


@pytest.mark.slow
def test_what_grew_and_is_kept_answers_and_replays_the_same(grown: GrowingClassifier, tmp_path: Path) -> None:
    grown.save(tmp_path)
    again = GrowingClassifier.load(tmp_path)
    assert np.array_equal(again.predict_proba(X), grown.predict_proba(X))
    assert again.get_params() == grown.get_params()
    assert (again.history_, again.curve_, again.modules_) == (grown.history_, grown.curve_, grown.modules_)
    assert again.report() == grown.report()
    for name, tensors in grown.replay().newborns.items():
        theirs = again.replay().newborns[name]
        assert all(torch.equal(one, theirs[key]) for key, one in tensors.items())
    again.save(tmp_path)
    with pytest.raises(UnsafeFileError, match=r"growing_classifier/1.*zoo_classifier/1"):
        ZooClassifier.load(tmp_path)
    growing(strategist="fixed", events=0, epochs=1).fit(X, Y).save(tmp_path)
    assert not list(tmp_path.glob("?" * 64 + ".safetensors")), "weights of another fit would stay"


def test_a_log_that_does_not_match_is_refused(grown: GrowingClassifier, tmp_path: Path) -> None:
    grown.save(tmp_path)
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
def test_growth_sees_samples_of_its_own_and_says_how_it_goes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither trained on nor used to choose weights, and whole groups."""
    groups = np.arange(150) // 5
    parts = divided(Y, groups, 0.1, 0.2)
    assert sorted(np.concatenate(list(parts.values()))) == list(range(150))
    held = [set(groups[rows]) for rows in parts.values()]
    assert not held[0] & held[1] | held[0] & held[2] | held[1] & held[2]
    assert len(parts["architecture"]) == 30
    assert len(divided(Y[:19], None, 0.1, 0.2)["architecture"]) == 0
    two = divided(Y, np.arange(150) % 2, 0.1, 0.2)
    assert (len(two["architecture"]), len(two["validation"])) == (0, 75)
    sizes: list[int] = []

    def listening(before: FitnessHistory, seen: ModuleProbe, *given: Any) -> FitnessHistory:
        sizes.append(len(next(iter(seen.alone.values()))))
        return assess(before, seen, *given)

    assess = probing.assess
    monkeypatch.setattr(probing, "assess", listening)
    model = growing(verbose=1).fit(X, Y, groups=groups)
    assert set(sizes) == {30}
    out = capsys.readouterr().out
    assert "of the budget: loss " in out
    for event in model.history_["timeline"]:
        assert f"event {event['event']}: " in out
        assert all(one in out for one in (*event["born"], *event["gone"]))


@pytest.mark.slow
def test_patience_waits_for_the_last_event() -> None:
    events = {"count": 2, "first": 0.1, "last": 0.4, "warm": 0.1, "horizon": 0.05}
    model = growing(epochs=40, patience=1, learning_rate=3e-2, events=events, validation_fraction=0.2).fit(X, Y)
    assert model.n_events_ == 2
    whole = 40 * 3
    assert 0.5 * whole <= model.n_steps_ < whole
    assert model.best_step_ < model.n_steps_


@pytest.mark.slow
def test_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert growing(budget={"steps": 20}).fit(X, Y).n_steps_ == 20
    hasty = growing(budget={"seconds": 0.205}, events={"count": 1, "first": 0.995, "last": 0.999})
    clock = itertools.count()
    with monkeypatch.context() as patch:
        # It never shows a time between that of the event, 0.204, and the end of the budget.
        patch.setattr(time, "monotonic", lambda: next(clock) / 100)
        with pytest.warns(ConvergenceWarning, match="before the first event"):
            hasty.fit(X, Y)
    assert hasty.n_steps_ > 0
    assert hasty.n_events_ == 0
    last = growing(validation_fraction=0, strategist="fixed", events=0, epochs=2).fit(X, Y)
    assert (last.metric_, last.best_step_, last.curve_) == ("none", last.n_steps_, [])


@pytest.mark.slow
def test_a_budget_of_flops_pays_for_probes_and_can_be_repeated() -> None:
    counted = growing(budget={"flops": 12e6}).fit(X, Y)
    looking, blind = (growing(budget={"flops": 12e6}, strategist="fixed", events=count) for count in (2, 0))
    assert looking.fit(X, Y).n_steps_ < blind.fit(X, Y).n_steps_, "probes count, too"
    again = clone(counted).fit(X, Y)
    assert (again.n_steps_, again.history_["edits"]) == (counted.n_steps_, counted.history_["edits"])


def test_what_is_not_fitted_has_no_history() -> None:
    for ask in (lambda one: one.report(), lambda one: one.replay(), lambda one: one.n_births_, lambda one: one.zoo_):
        with pytest.raises(NotFittedError):
            ask(growing())


def test_by_default_one_module_has_little_around_it_and_network_changes_that() -> None:
    made = ZooClassifier(width=8, epochs=2, device="cpu", plain=False, random_state=0).fit(X, Y)
    structure = made.network_.structure
    assert made.modules_ == ["mlp-1"]
    assert structure.pool == "positions"
    found = structure.model_dump(mode="json")
    for name, value in PLAIN_SURROUNDINGS.items():
        assert found[name] == ({**found[name], **value} if isinstance(value, dict) else value)
    other = ZooClassifier(
        width=8, epochs=2, network={"pool": "mean", "extractor": {"blocks": 1}}, device="cpu", plain=False
    ).fit(X, Y)
    assert other.network_.structure.pool == "mean"
    extractor = other.network_.structure.extractor
    assert (extractor.blocks, extractor.activation) == (1, "relu"), "what is not named stays"


@pytest.mark.slow
def test_by_default_a_race_and_a_fork_decide(tmp_path: Path) -> None:
    values: dict[str, Any] = {"width": 8, "budget": {"flops": 6e7}, "learning_rate": 1e-2, "device": "cpu"}
    growth = {"race": {"least": 2, "samples": 8}, "forks": {"share": 0.3, "least": 2, "samples": 6}}
    growth |= {"fitness": {"samples": 8}}
    made, again = (
        GrowingClassifier(**values, growth=growth, network={"readout": 4}, plain=False, random_state=3).fit(X, Y)
        for _ in range(2)
    )
    race, forks = made.history_["race"], made.history_["forks"]
    assert "identity" in race["heats"][0]["arms"], "no module races, too"
    assert race["chosen"] == made.modules_ == again.modules_
    (fork,) = forks["tried"]
    assert fork["edits"] == ["map_positions"]
    assert (made.network_.structure.pool == "positions") == fork["kept"]
    np.testing.assert_array_equal(made.predict_proba(X), again.predict_proba(X))
    made.save(tmp_path / "kept")
    loaded = GrowingClassifier.load(tmp_path / "kept")
    assert loaded.network == {"readout": 4}
    np.testing.assert_array_equal(loaded.predict_proba(X), made.predict_proba(X))


def test_without_budget_and_epochs_a_growth_has_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("evodevo.estimators.growing.classifier.DEFAULT_SECONDS", 1.5)
    made = GrowingClassifier(width=8, device="cpu", plain=False, verbose=1).fit(X, Y)
    assert made.history_["forks"]["unit"] == "seconds"
    printed = capsys.readouterr().out.splitlines()
    race = made.history_["race"]  # a slow machine has no room for one
    assert race["instead"] or re.match(r"race, rung 1 of \d: .* leads", printed[0]), "within the race"
    begun = [line for line in printed if line.startswith("It begins with")]
    won = "" if race["instead"] else ", the winner of a race"
    assert begun[0].startswith(f"It begins with {race['chosen'][0]}{won}")
    assert any("100% of the budget" in line for line in printed), "of the training, not of the race"
    assert GrowingClassifier()._seconds() == 1.5
    assert GrowingClassifier(epochs=3)._seconds() is None
    assert made.n_steps_ > 0


def test_the_progress_of_short_trainings_in_a_race_is_not_that_of_the_fit(capsys: pytest.CaptureFixture[str]) -> None:
    tell = _Printer(races=True)
    tell({"step": 30, "share": 0.15, "loss": 0.7})
    assert not capsys.readouterr().out
    tell({"growth": {"told": "race, rung 1 of 1: mlp-1 leads 2 networks, loss 0.700"}})
    tell({"event": {"name": "race", "payload": {}}, "growth": {"told": "It begins with mlp-1."}})
    tell({"step": 90, "share": 0.2, "loss": 0.5})
    tell({"growth": {"event": 1, "born": [], "gone": [], "edited": [], "refused": ["map_positions"]}})
    assert capsys.readouterr().out.splitlines() == [
        "race, rung 1 of 1: mlp-1 leads 2 networks, loss 0.700",
        "It begins with mlp-1.",
        "step 90, 20% of the budget: loss 0.5000",
        "event 1: map_positions refused",
    ]
