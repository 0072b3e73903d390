"""Domains one after another: who learns, what is kept, and that an interruption leaves no trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.procedures import extend_procedure
from evodevo.h_model.procedures.extend_procedure import ExtendSettings, forgetting
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.saved import load_network
from evodevo.runs.recipe import RECIPES, Changes
from evodevo.settings import merge, validate
from evodevo.storage.blobs import FolderPool
from evodevo.testing.small_networks import SETTINGS, h_model, problem, transformer
from fixtures.answers import sizes_of_answers
from fixtures.evaluations import Told, assert_equal, evaluate

LAYER = {"kind": "transformer", "heads": 2}
HOPS: dict[str, Any] = {"group": "hops", "first": ["1"], "then": ["2"]}
LITTLE: dict[str, Any] = {"training": {"budget": {"steps": 2}}, "curve_points": 1}
NEW: dict[str, Any] = {**HOPS, "learn": "new", "add": [LAYER, {"kind": "mlp"}]}
IMAGES: dict[str, Any] = {
    "task": "images",
    "task_settings": {
        "domains": [{"name": name, "builtin": name, "limit": 240} for name in ("digits", "shapes", "letters")],
        "size": [8, 8],
    },
    "training": merge(SETTINGS["training"], {"budget": {"steps": 12}}),
    "validation_samples": 60,
    "test_samples": None,
    "curve_points": 1,
    "trace_samples": 0,
}


def extended(options: dict[str, Any], maker: Any = h_model, **more: Any) -> Any:
    return maker(procedure="extend", options=options, **more)


@pytest.mark.slow
def test_an_extended_network_is_kept_with_its_new_layers(tmp_path: Path) -> None:
    outcome = evaluate(problem(blobs=tmp_path), extended(NEW))
    network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    assert isinstance(network, HModel)
    assert [layer.kind for layer in network.structure.hidden] == ["transformer", "transformer", "transformer", "mlp"]
    facts = outcome.extra
    assert facts["steps"] == 8
    assert len(facts["accuracy"]) == 2
    assert set(facts["accuracy"][0]) == {"1", "2"}
    assert facts["learned"] == facts["accuracy"][1]["2"]
    assert facts["forgetting"] == pytest.approx(facts["accuracy"][0]["1"] - facts["accuracy"][1]["1"])
    assert 0 < facts["learning"] < outcome.cost["parameters"]
    assert outcome.cost["parameters"] == sum(one.numel() for one in network.parameters())
    without = evaluate(problem(LITTLE), extended({**NEW, "routers": False}))
    assert without.extra["learning"] < facts["learning"], "frozen routers learn less"


@pytest.mark.parametrize(("learn", "maker"), [("output", h_model), ("output", transformer), ("all", h_model)])
def test_who_learns(learn: str, maker: Any) -> None:
    outcome = evaluate(problem(LITTLE), extended({**HOPS, "learn": learn}, maker))
    whole = outcome.cost["parameters"]
    learning = outcome.extra["learning"]
    assert learning == whole if learn == "all" else learning < 0.1 * whole


@pytest.mark.parametrize(("later", "steps"), [(1.0, 8), (2.5, 14), (0.5, 6)])
def test_later_domains_may_have_more_steps(later: float, steps: int) -> None:
    """The first stage is the same to the bit."""
    outcome = evaluate(problem(), extended({**HOPS, "learn": "output", "later": later}))
    usual = evaluate(problem(), extended({**HOPS, "learn": "output"}))
    assert (outcome.extra["steps"], usual.extra["steps"]) == (steps, 8)
    assert outcome.extra["accuracy"][0] == usual.extra["accuracy"][0]
    assert outcome.extra["apart"]["1"] == usual.extra["apart"]["1"]


def test_layers_of_its_own_leave_the_other_domains_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extend_procedure, "_measured", sizes_of_answers)
    options = {"first": ["digits", "shapes"], "then": ["letters"], "learn": "new", "add": [{"kind": "mlp"}]}
    moved = {}
    for own in (False, True):
        given = validate(NetworkEvaluationSettings, {**SETTINGS, **IMAGES}, what="settings")
        outcome = evaluate(NetworkProblem(lambda arm: arm, given, tmp_path), extended({**options, "own": own}))
        before, after = outcome.extra["accuracy"]
        moved[own] = {name: abs(after[name] - before[name]) / before[name] for name in before}
        assert set(outcome.extra["apart"]) == {"digits", "shapes", "letters"}
    assert moved[True]["digits"] < 1e-5 < 1e-4 < moved[False]["digits"]
    assert moved[True]["shapes"] < 1e-5 < 1e-4 < moved[False]["shapes"]
    assert moved[True]["letters"] > 1e-2
    network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    assert isinstance(network, HModel)
    assert [(one.output, one.layers) for one in network.structure.own] == [("letters", (2,))]


def carried_h_model(**more: Any) -> Any:
    """The small H-Model with a carried stream."""
    trial = h_model(**more)
    structure = {**trial.network.structure.model_dump(mode="json"), "stream": "carried", "router": {}}
    return trial.model_copy(update={"network": HModelNetwork(structure=validate(HModelStructure, structure, what="x"))})


def test_a_carried_stream_is_extended_too(tmp_path: Path) -> None:
    outcome = evaluate(problem(LITTLE, blobs=tmp_path), extended(NEW, carried_h_model))
    network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    assert isinstance(network, HModel)
    assert network.structure.stream == "carried"
    assert len(network.structure.hidden) == 4
    assert 0 < outcome.extra["learning"] < outcome.cost["parameters"]


@pytest.mark.parametrize(
    ("changes", "words"), [({"routers": False}, "share one router"), ({"own": True}, "the model has no output '2'")]
)
def test_what_a_carried_stream_cannot_learn_is_refused_before_anything_is_trained(
    changes: dict[str, Any], words: str
) -> None:
    told: list[dict[str, Any]] = []
    with pytest.raises(UsageError, match=words):
        evaluate(problem(), extended({**NEW, **changes}, carried_h_model), report=told.append)
    assert told == []


def test_layers_of_its_own_that_cannot_be_are_refused_before_anything_is_trained() -> None:
    """The pointer task has one output for all of its domains."""
    told: list[dict[str, Any]] = []
    with pytest.raises(UsageError, match="the model has no output '2'; it has answer"):
        evaluate(problem(), extended({**NEW, "own": True}), report=told.append)
    assert told == []


@pytest.mark.parametrize("maker", [h_model, transformer])
def test_adapters_learn_and_are_folded_into_the_maps(tmp_path: Path, maker: Any) -> None:
    outcome = evaluate(problem(LITTLE, blobs=tmp_path), extended({**HOPS, "learn": "adapters", "rank": 2}, maker))
    network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    plain = evaluate(problem(LITTLE), extended({**HOPS, "learn": "output"}, maker))
    assert outcome.cost["parameters"] == plain.cost["parameters"] == sum(one.numel() for one in network.parameters())
    assert plain.extra["learning"] < outcome.extra["learning"] < outcome.cost["parameters"]


@pytest.mark.slow
def test_an_extension_goes_on_from_any_checkpoint_to_the_same_network(tmp_path: Path) -> None:
    given, told = problem({"training": {"checkpoint_every": 2}}, tmp_path), Told()
    whole = evaluate(given, extended(NEW), report=told.append)
    assert len(told.checkpoints) >= 4
    for checkpoint in (told.checkpoints[0], told.checkpoints[2]):  # in each stage
        assert_equal(evaluate(given, extended(NEW), resume=checkpoint), whole, "accuracy")


def test_forgetting_is_what_was_known_and_is_lost() -> None:
    stages: list[tuple[str, ...]] = [("a", "b"), ("c",), ("d",)]
    accuracy = [
        {"a": 0.9, "b": 0.8, "c": 0.1, "d": 0.1},
        {"a": 0.5, "b": 0.8, "c": 0.7, "d": 0.1},
        {"a": 0.6, "b": 0.7, "c": 0.4, "d": 1.0},
    ]
    assert forgetting(stages, accuracy) == pytest.approx((0.3 + 0.1 + 0.3) / 3)


def test_options_that_mean_nothing() -> None:
    for options, words in (
        ({**HOPS, "then": ["1"]}, "occurs twice"),
        ({**HOPS, "learn": "new"}, "no layer is added"),
        ({**HOPS, "learn": "some"}, "learn"),
        ({**HOPS, "own": True}, "leave own out"),
    ):
        with pytest.raises(UsageError, match=words):
            validate(ExtendSettings, options, what="options")


@pytest.mark.parametrize(
    ("options", "maker", "training", "words"),
    [
        (NEW, transformer, {}, "LayerStack cannot be extended"),
        ({**HOPS, "then": ["9"]}, h_model, {}, "unknown hops '9'"),
        ({**HOPS, "group": "domains"}, h_model, {}, "unknown fact about samples 'domains'"),
        (HOPS, h_model, {"budget": {"tokens": 64}}, "give it in steps"),
    ],
)
def test_what_cannot_be_extended(options: dict[str, Any], maker: Any, training: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        evaluate(problem(), extended(options, maker, training=training))


@pytest.mark.parametrize("size", ["quick", "full"])
def test_the_recipe_says_what_it_means(size: Any) -> None:
    settings = RECIPES.get("h_model.extend").settings(size, "train", Changes("h_model.extend"))
    assert isinstance(settings, ExperimentSettings)
    for arm in settings.experiment.trainings():
        assert arm.procedure == "extend"
        options = validate(ExtendSettings, arm.options, what=arm.name)
        assert [*options.first, *options.then] == ["digits", "shapes", "textures", "letters"]
