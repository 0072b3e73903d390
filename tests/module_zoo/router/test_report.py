"""Whom a zoo's router listens to: means by hand, and those of a real zoo on a real task."""

from __future__ import annotations

import numpy as np
import pytest

from evodevo.experiments.measure import places
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.router.report import MOST_VALUES, routing_table, zoo_routing
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.networks.build import build_network
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.tasks.reasoning.pointer import PointerSettings, PointerTask
from evodevo.training.precision import decide

WEIGHTS = np.array([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75], [0.0, 0.0]])
EXECUTED = np.array([[True, False], [True, True], [True, True], [False, False]])
MEMBERS = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]], dtype=bool)


def test_the_means_by_hand() -> None:
    found = routing_table(("a", "b"), WEIGHTS, EXECUTED, {"fact": MEMBERS}, {"fact": ("x", "y", "z")})
    assert found["ids"] == ["a", "b"]
    assert found["weights"] == pytest.approx([0.4375, 0.3125])
    assert found["executed"] == [0.75, 0.5]
    assert found["effective"] == pytest.approx((1 + 2 + 1 / 0.625) / 3, abs=1e-5), "silent samples have none"
    assert found["support"] == 1.25
    assert found["run"] == 1.25
    table = found["by"]["fact"]
    assert table["values"] == ["x", "y", "z"]
    assert table["counts"] == [2, 1, 0]
    assert table["weights"] == [[0.75, 0.25, None], [0.25, 0.75, None]]
    assert table["executed"] == [[1.0, 1.0, None], [0.5, 1.0, None]]
    both = np.ones((4, 2), bool)
    many = np.zeros((4, MOST_VALUES + 1), bool)
    names = {"labels": ("x", "y"), "many": ("v",) * (MOST_VALUES + 1), "one": ("v",)}
    found = routing_table(("a", "b"), WEIGHTS, EXECUTED, {"labels": both, "many": many, "one": both[:, :1]}, names)
    assert list(found["by"]) == ["labels"]
    assert found["by"]["labels"]["weights"][0] == pytest.approx([0.4375] * 2)


def task() -> PointerTask:
    return PointerTask.open(PointerSettings.model_validate_json('{"nodes": 4, "hops_max": 2}'))


def zoo(keys: str, top_k: int | None = 2) -> ModuleZoo:
    structure = ZooStructure(
        width=16,
        extractor=ExtractorStructure(blocks=0),
        modules=start_zoo(16)[:4],
        router=ZooRouterStructure(keys=keys, top_k=top_k),
    )
    read = task()
    return build_network(ModuleZooNetwork(structure=structure), read.inputs, read.outputs, seed=1)


@pytest.mark.parametrize(("keys", "run"), [("output", 4), ("genotype", 2), ("predictor", 3)])
def test_a_real_zoo_on_a_real_task(keys: str, run: int) -> None:
    network, read = zoo(keys).train(), task()
    chosen = places(read, "validation", 300)  # more than one batch
    found = zoo_routing(network, read, "validation", chosen, decide("cpu"))
    assert network.training, "as it was"
    assert found["ids"] == list(network.live)
    assert found["inputs"] == [spec.name for spec in read.inputs]
    assert found["contribution"] == [None] * 4
    assert sum(found["weights"]) == pytest.approx(1, abs=1e-4)
    assert found["support"] <= 2
    assert found["run"] <= run
    if keys != "genotype":
        assert found["run"] == run, "a gate may let fewer than K through"
    table = found["by"][read.outputs[0].name]
    assert sum(table["counts"]) == 300
    for place in range(4):
        mean = np.average([value or 0.0 for value in table["weights"][place]], weights=np.array(table["counts"], float))
        assert mean == pytest.approx(found["weights"][place], abs=1e-4)
    again = zoo_routing(network.eval(), read, "validation", chosen, decide("cpu"))
    assert again == found
