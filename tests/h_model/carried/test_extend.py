"""The procedure ``extend`` with layers of a domain's own in a carried stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.h_model.carried.core import CarriedCore
from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.procedures import extend_procedure
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.saved import load_network
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.settings import merge, validate
from evodevo.storage.blobs import FolderPool
from evodevo.testing.small_networks import SETTINGS, h_model
from fixtures.answers import sizes_of_answers
from fixtures.evaluations import Told, assert_equal, evaluate

DOMAINS = ("digits", "shapes", "letters")
IMAGES: dict[str, Any] = {
    "task": "images",
    "task_settings": {
        "domains": [{"name": name, "builtin": name, "limit": 240} for name in DOMAINS],
        "size": [8, 8],
    },
    "training": merge(SETTINGS["training"], {"budget": {"steps": 18}}),
    "validation_samples": 60,
    "test_samples": None,
    "curve_points": 1,
    "trace_samples": 0,
}
OWN = {"first": ["digits"], "then": ["shapes", "letters"], "learn": "new", "add": [{"kind": "mlp"}] * 2, "own": True}


def arm() -> Any:
    structure = HModelStructure(
        stream="carried",
        width=16,
        hidden=(MLPLayer(),) * 2,
        iterations=2,
        regularisation=validate(HModelStructure, {"regularisation": {"balance": 0.1}}, what="it").regularisation,
    )
    return h_model(procedure="extend", options=OWN).model_copy(update={"network": HModelNetwork(structure=structure)})


def problem(pool: Path, **training: Any) -> NetworkProblem:
    given = merge({**SETTINGS, **IMAGES}, {"training": training})
    return NetworkProblem(lambda one: one, validate(NetworkEvaluationSettings, given, what="settings"), pool)


def test_each_domain_gets_layers_and_leaves_the_earlier_ones_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extend_procedure, "_measured", sizes_of_answers)
    outcome = evaluate(problem(tmp_path), arm())
    first, second, third = outcome.extra["accuracy"]
    assert second["digits"] == pytest.approx(first["digits"], rel=1e-5)
    assert third["digits"] == pytest.approx(first["digits"], rel=1e-5)
    assert third["shapes"] == pytest.approx(second["shapes"], rel=1e-5)
    assert abs(second["shapes"] - first["shapes"]) > 1e-2
    assert abs(third["letters"] - second["letters"]) > 1e-2
    network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    assert isinstance(network, HModel)
    assert [(one.output, one.layers) for one in network.structure.own] == [("shapes", (2, 3)), ("letters", (4, 5))]
    assert isinstance(network.core, CarriedCore)
    assert network.core.router is not None
    assert len(network.core.router.rows) == 4
    assert outcome.cost["parameters"] == sum(one.numel() for one in network.parameters())
    per_layer = sum(one.numel() for one in network.core.layers[4].parameters())
    head = sum(one.numel() for one in network.outputs.layers["letters"].parameters())
    assert outcome.extra["learning"] == 2 * (per_layer + 16 + 1) + head, "the layers, their rows and the output"


@pytest.mark.slow
def test_an_extension_goes_on_from_any_checkpoint_to_the_same_network(tmp_path: Path) -> None:
    given, told = problem(tmp_path, checkpoint_every=3), Told()
    whole = evaluate(given, arm(), report=told.append)
    assert len(told.checkpoints) >= 4
    for checkpoint in (told.checkpoints[0], told.checkpoints[2], told.checkpoints[-1]):
        assert_equal(evaluate(given, arm(), resume=checkpoint), whole, "accuracy")
