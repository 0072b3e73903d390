"""The cost of zoos, stated and counted: parameters of the built network, products of a real pass, calls that happen."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.errors import UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.module_zoo.cost import executed_share, zoo_cost, zoo_parameters, zoo_work
from evodevo.module_zoo.modules.cost import genotype_work
from evodevo.module_zoo.modules.zoo import random_zoo, start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import FusionStructure, ZooLosses, ZooRouterStructure, ZooStructure
from evodevo.networks.build import build_network
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.randomness import generator
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

WIDTH = 16
TEXT = InputSpec("text", "tokens", length=5, vocabulary=20)
IMAGE = InputSpec("image", "image", height=8, width=8, channels=1)
NUMBERS = InputSpec("numbers", "vector", size=6)
CLASS = OutputSpec("answer", "class", 3)
LABELS = OutputSpec("tags", "labels", 4)
SAMPLES = {
    "text": torch.zeros(1, 5, dtype=torch.long),
    "image": torch.zeros(1, 8, 8, 1, dtype=torch.uint8),
    "numbers": torch.zeros(1, 6),
}
TASKS = {
    "both": ((IMAGE, TEXT), (CLASS,)),
    "three": ((TEXT, IMAGE, NUMBERS), (CLASS, LABELS)),
    "text": ((TEXT,), (CLASS,)),
    "numbers": ((NUMBERS,), (LABELS,)),
}


def counted(network: torch.nn.Module, inputs: tuple[InputSpec, ...]) -> float:
    with torch.no_grad(), counting(network) as counter:
        network.eval()({spec.name: SAMPLES[spec.name] for spec in inputs})
    return counter.flops


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**20),
    count=st.integers(1, 4),
    task=st.sampled_from(sorted(TASKS)),
    fusion=st.sampled_from(["asym_residual", "symmetric", "concat", "gmu", "bilinear", "paper"]),
    kind=st.sampled_from(["graph_attention", "mean", "mlp_gate", "architecture"]),
    keys=st.sampled_from(["output", "genotype", "predictor"]),
    mode=st.sampled_from(["sequence", "vector"]),
    pool=st.sampled_from(["mean", "attention", "positions"]),
    readout=st.sampled_from([0, 12]),
    align=st.sampled_from([0.0, 0.1]),
)
@settings(max_examples=10, deadline=None)
def test_stated_zoos_are_built_and_run(
    seed: int,
    count: int,
    task: str,
    fusion: Any,
    kind: Any,
    keys: Any,
    mode: Any,
    pool: Any,
    readout: int,
    align: float,
) -> None:
    inputs, outputs = TASKS[task]
    modules = random_zoo(WIDTH, count, generator(seed))
    structure = ZooStructure(
        width=WIDTH,
        extractor=ExtractorStructure(blocks=1),
        fusion=FusionStructure(kind=fusion),
        modules=modules,
        disabled=(modules[0].id,) if count > 2 else (),
        mode=mode,
        chunks=4,
        pool=pool,
        readout=readout,
        router=ZooRouterStructure(kind=kind, keys=keys, top_k=None, gate="softmax"),
        losses=ZooLosses(align=align),
    )
    spec = ModuleZooNetwork(structure=structure)
    network, cost = build_network(spec, inputs, outputs, seed=0), spec.cost(inputs=inputs, outputs=outputs)
    assert cost == zoo_cost(structure, inputs=inputs, outputs=outputs)
    assert cost.parameters + cost.embedding_parameters == sum(p.numel() for p in network.parameters())
    products = sum(work.products for work in zoo_work(structure, inputs, outputs).values())
    assert products == counted(network, inputs)
    assert cost.flops == cost.executed_flops >= products
    parts = zoo_parameters(structure, inputs, outputs)
    assert cost.embedding_parameters == parts["embeddings"] + parts["heads"]


@pytest.mark.parametrize("mode", ["sequence", "vector"])
@pytest.mark.parametrize("task", sorted(TASKS))
@pytest.mark.parametrize("changes", [{"pool": "mean"}, {"pool": "attention"}, {"pool": "positions"}, {"readout": 12}])
def test_pools_and_readouts_have_the_stated_cost(changes: dict[str, Any], task: str, mode: Any) -> None:
    inputs, outputs = TASKS[task]
    structure = chosen_zoo("output", None).model_copy(update={"mode": mode, "chunks": 4, **changes})
    network = build_network(ModuleZooNetwork(structure=structure), inputs, outputs, seed=0)
    parts = zoo_parameters(structure, inputs, outputs)
    assert sum(parts.values()) == sum(one.numel() for one in network.parameters())
    assert sum(work.products for work in zoo_work(structure, inputs, outputs).values()) == counted(network, inputs)


def chosen_zoo(keys: Any, top_k: int | None, kind: Any = "graph_attention") -> ZooStructure:
    """Six modules of one genotype: whichever are chosen, the work is the same."""
    mlp = start_zoo(WIDTH)[1]
    return ZooStructure(
        width=WIDTH,
        extractor=ExtractorStructure(blocks=0),
        modules=tuple(mlp.model_copy(update={"id": f"mlp-{number}", "seed": number}) for number in range(6)),
        router=ZooRouterStructure(kind=kind, keys=keys, top_k=top_k, gate="softmax"),
    )


@pytest.mark.parametrize(("keys", "calls"), [("output", 6), ("genotype", 2), ("predictor", 3)])
def test_executed_flops_are_those_of_the_calls_that_happen(keys: str, calls: int) -> None:
    inputs, outputs = TASKS["both"]
    structure = chosen_zoo(keys, 2)
    network = build_network(ModuleZooNetwork(structure=structure), inputs, outputs, seed=0)
    real = counted(network, inputs)
    assert sum(network.pool.calls.values()) == calls
    cost = zoo_cost(structure, inputs=inputs, outputs=outputs)
    assert executed_share(structure) == Fraction(calls, 6)
    other = cost.executed_flops - real
    assert other == sum(work.other for work in zoo_work(structure, inputs, outputs).values())
    one = genotype_work(structure.modules[0].genotype, 16).total
    assert cost.flops - cost.executed_flops == (6 - calls) * one


def test_a_limit_saves_something_below_the_number_of_modules_and_nothing_while_training() -> None:
    for top_k in (None, 5, 6, 9):
        assert executed_share(chosen_zoo("predictor", top_k)) == 1
    assert executed_share(chosen_zoo("predictor", 2, "mean")) == 1
    ends: dict[str, Any] = {"inputs": TASKS["both"][0], "outputs": TASKS["both"][1]}
    structure = chosen_zoo("genotype", 1)
    once, many = zoo_cost(structure, **ends), zoo_cost(structure, **ends, batch=8)
    train = zoo_cost(structure, **ends, mode="train")
    assert many.flops == 8 * once.flops
    assert train.executed_flops == train.flops == 3 * once.flops
    assert once.bytes_read < train.bytes_read <= 4 * (train.parameters + train.embedding_parameters)


def test_a_zoo_without_inputs_has_a_length() -> None:
    structure = chosen_zoo("output", None)
    parts = zoo_parameters(structure)
    assert parts["modules"] > 0
    assert parts["embeddings"] == parts["fusion"] == parts["alignment"] == 0
    assert zoo_cost(structure, length=8).flops < zoo_cost(structure, length=9).flops
    for given_to in ({}, {"length": 0}, {"length": 8, "inputs": (TEXT,)}, {"length": 8, "mode": "decode"}):
        with pytest.raises(UsageError):
            zoo_cost(structure, **given_to)
