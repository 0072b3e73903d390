"""What growing is said to cost is what it computes: counted, operation by operation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.experiments.flop_counter import counting
from evodevo.growth.flops import Prices
from evodevo.growth.growable import GROWABLES, GrowingNetwork, TaskSizes
from evodevo.growth.spec import FitnessSettings
from evodevo.growth.strategists.learned import outer_gradient
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.spec import CarriedStructure, HModelStructure
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.networks.build import build_network
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.networks.spec import NetworkSpec
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.training.precision import decide

torch.set_num_threads(1)
SAMPLES = 3
INPUTS = (InputSpec("image", "image", height=8, width=8, channels=1),)
OUTPUTS = (OutputSpec("answer", "class", 3),)
MOST = 3.5
"""Who runs only some modules learns for less than it is said to; a probe runs them all."""


def zoo(**router: Any) -> NetworkSpec:
    structure = ZooStructure(width=16, modules=start_zoo(16)[:4], router=ZooRouterStructure(heads=2, **router))
    return ModuleZooNetwork(structure=structure)


def h_model(**more: Any) -> NetworkSpec:
    hidden = tuple(GenotypeLayer(module=one) for one in start_zoo(16)[:4])
    return HModelNetwork(
        structure=HModelStructure(
            width=16, hidden=hidden, iterations=2, input_blocks=0, output_blocks=0, **{"stream": "paper", **more}
        )
    )


def dense(network: NetworkSpec) -> bool:
    if isinstance(network, HModelNetwork):
        few = network.structure.stream == "carried" and network.structure.carried.most < 4
        return network.structure.inference.mode == "dense" and not few
    assert isinstance(network, ModuleZooNetwork)
    return network.structure.router.keys == "output"


def batch(number: int = 0) -> dict[str, Tensor]:
    drawn = torch.Generator().manual_seed(number)
    images = torch.randint(0, 255, (SAMPLES, 8, 8, 1), generator=drawn, dtype=torch.uint8)
    return {"image": images, "answer/target": torch.randint(0, 3, (SAMPLES,), generator=drawn)}


def grown(network: NetworkSpec, settings: FitnessSettings) -> tuple[GrowingNetwork, Prices]:
    pool = GROWABLES.get(network.kind).of(network.structure)
    growing = pool.grown(build_network(network, INPUTS, OUTPUTS, 0), lambda origins: None)
    return growing, growing.structure.prices(TaskSizes(INPUTS, OUTPUTS), settings)


NETWORKS = pytest.mark.parametrize(
    "network",
    [
        zoo(),
        zoo(keys="genotype", top_k=2),
        h_model(),
        h_model(inference=InferenceStructure(mode="source_topk", k=2)),
        h_model(stream="carried", carried=CarriedStructure(m=4)),
        h_model(stream="carried"),
    ],
    ids=["zoo", "zoo that runs two", "H-Model", "sparse H-Model", "carried, all run", "carried, one runs"],
)


@NETWORKS
@pytest.mark.parametrize("ablation", ["masked", "zero"])
def test_of_a_probe(network: NetworkSpec, ablation: Any) -> None:
    settings = FitnessSettings(ablation=ablation)
    one, price = grown(network, settings)
    with counting(one.network) as counter:
        one.probe([batch()], settings)
    few = isinstance(network, HModelNetwork) and network.structure.stream == "carried" and not dense(network)
    # Of few layers the most expensive ones are priced.
    assert 0.95 <= SAMPLES * price.probe / counter.flops <= (1.6 if few else 1.2)


@pytest.mark.slow
@NETWORKS
def test_of_distillation(network: NetworkSpec) -> None:
    steps = 12 if network == zoo() else 2  # the distance is taken on some batches only
    one, price = grown(network, FitnessSettings())
    with counting(one.network) as counter:
        done = one.distil(one.live[0], batch, steps, tolerance=0.0, batch_size=SAMPLES, seed=0, precision=decide())
    assert done.steps == steps
    assert 0.95 <= SAMPLES * price.distillation(steps, done.steps) / counter.flops <= (1.6 if dense(network) else MOST)


@pytest.mark.slow
@NETWORKS
def test_of_a_meta_gradient(network: NetworkSpec) -> None:
    steps = 2
    one, price = grown(network, FitnessSettings())
    learnt = torch.zeros(len(one.live), requires_grad=True)
    gates = dict(zip(one.live, torch.sigmoid(learnt), strict=True))
    with counting(one.network) as counter:
        outer_gradient(one.unroll(batch(), batch(1)), gates, [learnt], steps=steps, rate=0.05)
    assert 0.95 <= price.meta_gradient(steps, SAMPLES, SAMPLES) / counter.flops <= (1.7 if dense(network) else MOST)
