"""Optimisers of a zoo whose modules come and go; of H-Models see ``tests/h_model/test_extension.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.zoo import sample, start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.build import build_network
from evodevo.settings import validate
from evodevo.testing.networks import CLASS, FACTS, small_batch
from evodevo.training import optimizers
from evodevo.training.settings import OptimizerSettings
from evodevo.training.surgery import Origin, operate, state_of

torch.set_num_threads(1)
WIDTH = 16
INPUTS = (FACTS,)
BATCH = small_batch(INPUTS, count=8)
RATE = 0.01


def zoo() -> ModuleZoo:
    modules = [module.model_dump(mode="json") for module in start_zoo(WIDTH)[:4]]
    structure = validate(ZooStructure, {"width": WIDTH, "router": {"heads": 2}, "modules": modules}, what="a zoo")
    network = build_network(ModuleZooNetwork(structure=structure), INPUTS, (CLASS,), 0)
    assert isinstance(network, ModuleZoo)
    return network.train()


def steps(network: nn.Module, optimizer: torch.optim.Optimizer, count: int) -> None:
    one: Any = network
    for _ in range(count):
        optimizer.zero_grad()
        one.loss(BATCH).backward()
        optimizer.step()


def newborn() -> ZooModule:
    genotype = sample("lstm", WIDTH, np.random.default_rng(2))
    return ZooModule(id="newborn", genotype=genotype, seed=4, birth_event=1)


def test_survivors_keep_their_moments_and_newborns_stand_where_they_are_put() -> None:
    network = zoo()
    decayed, plain = optimizers.decay_groups(network)
    groups = [
        {"params": list(decayed.values()), "weight_decay": 0.01},
        {"params": list(plain.values()), "weight_decay": 0.0},
        {"params": [], "weight_decay": 0.01, "lr": 0.1 * RATE},
    ]
    optimizer = torch.optim.RMSprop(groups, lr=RATE, momentum=0.5, centered=True)
    steps(network, optimizer, 2)
    before = dict(network.named_parameters())
    moments = {
        name: {key: one.clone() if isinstance(one, Tensor) else one for key, one in each.items()}
        for name, each in state_of(before, optimizer).items()
    }
    assert any(name.startswith("pool.parts.mlp-1.") for name in moments)
    network.births["newborn"] = 0.3
    network.insert(newborn())
    network.remove("mlp-1")
    after, slow = dict(network.named_parameters()), "pool.parts.newborn."
    origins = {name: Origin(name) for name in after if name in before}
    operate(
        optimizer, before, network, origins,
        group_of=lambda name, one: 2 if name.startswith(slow) else int(one.ndim < 2),
    )  # fmt: skip
    listed = [id(one) for group in optimizer.param_groups for one in group["params"]]
    assert sorted(listed) == sorted(map(id, after.values()))
    found = state_of(after, optimizer)
    for name in origins.keys() & moments.keys():
        assert found[name].keys() == moments[name].keys()
        for key, one in moments[name].items():
            assert torch.equal(found[name][key], one) if isinstance(one, Tensor) else found[name][key] == one, name
    gone = {id(one) for name, one in before.items() if name not in after}
    assert gone
    assert not gone & {id(one) for one in optimizer.state}
    young = {id(one) for name, one in after.items() if name.startswith(slow)}
    assert {id(one) for one in optimizer.param_groups[2]["params"]} == young != set()
    kept = {name: one.detach().clone() for name, one in after.items()}
    steps(network, optimizer, 1)
    moved = {name.startswith(slow) for name, one in after.items() if not torch.equal(one, kept[name])}
    assert moved == {True, False}
    assert all(one in optimizer.state for one in optimizer.param_groups[2]["params"])


def test_a_newborn_is_slower_until_it_is_grown_up() -> None:
    """The factor itself: one step of SGD-like size would be a tenth as far."""
    network = zoo()
    network.insert(newborn())
    settings = OptimizerSettings(learning_rate=RATE)
    for rates, factor in (({"newborn": 0.1}, 0.1), ({}, 1.0)):
        network.newborn_rates = dict(rates)
        optimizer = optimizers.build(network, settings)
        optimizers.set_learning_rate(optimizer, 0.5 * RATE)
        found = {id(one): group["lr"] for group in optimizer.param_groups for one in group["params"]}
        for name, one in network.named_parameters():
            own = factor if name.startswith("pool.parts.newborn.") else 1.0
            assert found[id(one)] == pytest.approx(0.5 * RATE * own), name
