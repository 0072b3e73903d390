"""The weights that were best are kept, a training that gets no better stops, and an interruption leaves no trace."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from evodevo.errors import UnsafeFileError
from evodevo.experiments.checkpoint_selection import BestWeights, settle
from evodevo.experiments.loss_terms import LossTerms
from evodevo.experiments.measure import NetworkMeasurement, measure, places
from evodevo.experiments.settings import PAPER_SELECTION, WeightSelection
from evodevo.networks.saved import load_network
from evodevo.storage.blobs import FolderPool
from evodevo.testing.small_networks import h_model, problem
from evodevo.training.precision import decide
from fixtures.evaluations import Told, assert_equal, evaluate

AUC = WeightSelection(metric="auc")


def measured(auc: float = math.nan, accuracy: float = 0.5, loss: float = 1.0) -> NetworkMeasurement:
    reasons = {"answer": {"auc": "the split has one class"}} if math.isnan(auc) else {}
    return NetworkMeasurement(loss, accuracy, {"answer": {"auc": auc, "accuracy": accuracy, "loss": loss}}, reasons)


def numbered(number: float) -> nn.Module:
    network = nn.Linear(1, 1)
    with torch.no_grad():
        network.weight.fill_(number)
    return network


@pytest.mark.parametrize(
    ("metric", "looks", "best"),
    [
        ("auc", [{"auc": 0.5}, {"auc": 0.9}, {"auc": 0.7}], 1),
        ("loss", [{"loss": 2.0}, {"loss": 1.0}, {"loss": 3.0}], 1),
        ("auc", [{"auc": 0.5}, {}, {"auc": 0.4}], 0),
        ("auc", [{"auc": 1.0}] * 3, 0),
        ("auc", [{"auc": 1.0, "loss": loss} for loss in (0.9, 0.5, 0.5, math.nan, 0.7)], 1),  # of equals the lower loss
    ],
)
def test_the_best_comes_back(metric: Any, looks: list[dict[str, float]], best: int) -> None:
    watch, network = BestWeights(WeightSelection(metric=metric)), numbered(9)
    for number, values in enumerate(looks):
        watch.look(measured(**values), numbered(number), number + 1, 0.5)
    watch.restore(network)
    assert network.weight.item() == best
    assert watch.state is not None
    since = len(looks) - best - 1
    assert (watch.state.best, watch.state.step) == (looks[best][metric], best + 1)
    assert watch.state.since == since


class Growing(nn.Linear):
    """With a newborn."""

    births: dict[str, float]


def test_who_is_being_born_is_not_chosen_and_costs_no_patience() -> None:
    """Weights come back alone, and without the birth factor they would answer otherwise."""
    watch = BestWeights(WeightSelection(metric="auc", patience=2, min_share=0.0))
    network = Growing(1, 1)
    for number, (value, factor) in enumerate([(0.5, 1.0), (0.9, 0.4), (0.4, 0.0), (0.3, 0.9), (0.6, 1.0), (0.2, 1.0)]):
        with torch.no_grad():
            network.weight.fill_(number)
        network.births = {"newborn": factor} if factor < 1 else {}
        assert watch.look(measured(auc=value), network, number + 1, 0.5) == value
        assert not watch.enough
    watch.restore(network)
    assert network.weight.item() == 4
    assert (watch.state.best, watch.state.step) == (0.6, 5)


def test_what_is_not_defined_is_replaced_and_said_and_a_selection_changes_what_a_score_means() -> None:
    assert settle(measured(0.7), "auc") == ("auc", "")
    metric, why = settle(measured(), "auc")
    assert metric == "accuracy"
    assert "auc is not defined (answer: the split has one class)" in why
    assert settle(measured(accuracy=math.nan), "auc")[0] == "loss"
    plain, selected = problem(), problem(SELECT)
    assert plain.fidelity != selected.fidelity
    assert problem({**SELECT, "curve_samples": 10}).fidelity != selected.fidelity
    assert problem({"curve_samples": 10}).fidelity == plain.fidelity


def test_patience_counts_measurements_without_a_better_one() -> None:
    watch = BestWeights(WeightSelection(metric="auc", patience=2, min_share=0.5))
    enough = []
    for step, value in enumerate([0.5, 0.4, 0.3, 0.6, 0.6, 0.5]):
        watch.look(measured(value), numbered(step), step, 0.1 if step < 3 else 0.8)
        enough.append(watch.enough)
    assert enough == [False] * 5 + [True], "not before half of the budget; an equal one is no better one"
    assert BestWeights(PAPER_SELECTION).enough is False


def test_frozen_parameters_are_not_copied() -> None:
    network = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    network[0].requires_grad_(False)
    watch = BestWeights(AUC)
    watch.look(measured(0.5), network, 1, 0.5)
    assert watch._weights is not None
    assert not any(name.startswith("0.") for name in watch._weights)
    assert "1.running_mean" in watch._weights


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    pool, watch = FolderPool(tmp_path), BestWeights(AUC)
    watch.look(measured(0.5), numbered(1), 1, 0.5)
    digest = watch.keep(pool)
    assert digest == watch.keep(pool)
    again = BestWeights(AUC, watch.state, pool)
    network = numbered(2)
    again.restore(network)
    assert network.weight.item() == 1
    with pytest.raises(UnsafeFileError, match="does not fit"):
        again.restore(nn.Linear(2, 1))
    broken = watch.state.model_copy(update={"weights": pool.put_bytes(b"nonsense")})  # type: ignore[union-attr]
    with pytest.raises(UnsafeFileError, match="best weights is not a safetensors file"):
        BestWeights(AUC, broken, pool)


def test_terms_are_means_and_go_on_where_they_were() -> None:
    whole, part = LossTerms({}), LossTerms({})
    values = [0.1, 0.7, 0.35]
    for value in values:
        whole.add({"task": torch.tensor(value)})
    part.add({"task": torch.tensor(values[0])})
    part = LossTerms(part.to_json())
    for value in values[1:]:
        part.add({"task": torch.tensor(value)})
    means = whole.take_means()
    assert means == part.take_means(), "to the last bit"
    assert means["task"] == pytest.approx(sum(values) / 3)
    assert whole.take_means() == {}


SELECT: dict[str, Any] = {"select": {"metric": "accuracy"}, "training": {"checkpoint_every": 3}, "curve_points": 8}


@pytest.mark.slow
def test_the_network_that_is_kept_is_the_best_one(tmp_path: Path) -> None:
    given = problem({**SELECT, "training": {"budget": {"steps": 12}}, "curve_points": 12}, tmp_path)
    outcome = evaluate(given, h_model(learning_rate=5e-2))
    curve = outcome.series["validation_accuracy"]
    (selection,) = outcome.extra["selection"]
    values = [value for _, value in curve]
    assert selection["best"] == max(values) > values[-1], "else this test shows nothing"
    assert selection["step"] == curve[values.index(max(values))][0]
    assert selection["stopped"] is None
    network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    chosen = places(given.task, "validation", given.settings.curve_samples)
    again = measure(network, given.task, "validation", chosen, batch_size=32, precision=decide("cpu"))
    assert again.accuracy == pytest.approx(selection["best"])


@pytest.mark.slow
def test_a_training_that_gets_no_better_stops_and_has_finished() -> None:
    changes = {"select": {"metric": "loss", "patience": 2, "min_share": 0.5}, "curve_points": 40}
    outcome = evaluate(problem({**changes, "training": {"budget": {"steps": 40}}}), h_model(learning_rate=0.3))
    (selection,) = outcome.extra["selection"]
    assert 20 <= selection["stopped"] == outcome.extra["steps"] < 40
    assert outcome.extra["epochs"] == outcome.extra["samples"] / 400
    assert [step for step, _ in outcome.series["validation_loss"]][-1] == selection["stopped"]


@pytest.mark.slow
@pytest.mark.parametrize("patience", [None, 1])
def test_a_selection_goes_on_from_any_checkpoint_to_the_same_network(
    tmp_path: Path, patience: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evodevo.experiments.evaluate.look_inside", lambda *_: {})
    changes = {**SELECT, "select": {"metric": "accuracy", "patience": patience, "min_share": 0.4}}
    given = problem({**changes, "training": {"checkpoint_every": 3, "budget": {"steps": 12}}}, tmp_path)
    arm, told = h_model(learning_rate=5e-2), Told()
    whole = evaluate(given, arm, report=told.append)
    assert all(FolderPool(tmp_path).get(digest) for message in told for digest in message.get("blobs", ()))
    found = told.checkpoints
    assert len(found) == 4 or patience is not None, "it may stop before its last checkpoint"
    for checkpoint in {found[0], found[-2 % len(found)]}:
        resumed = evaluate(given, arm, resume=checkpoint)
        assert_equal(resumed, whole, "selection", "steps", "validation_loss", "validation_accuracy")
