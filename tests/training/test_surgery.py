"""Optimisers of networks whose parts come and go; of H-Models, row by row, see ``tests/h_model/test_extension.py``."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.build import build_network
from evodevo.testing.networks import CLASS, FACTS
from evodevo.training import optimizers
from evodevo.training.settings import OptimizerSettings
from evodevo.training.surgery import Origin, operate, state_of


def step(network: nn.ModuleDict, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    torch.stack([part(torch.ones(2, 3)).square().sum() for part in network.values()]).sum().backward()
    optimizer.step()


def test_survivors_keep_their_moments_and_newborns_stand_where_they_are_put() -> None:
    network = nn.ModuleDict({"stays": nn.Linear(3, 3), "goes": nn.Linear(3, 3)})
    decayed, plain = optimizers.decay_groups(network)
    groups = [
        {"params": list(decayed.values()), "weight_decay": 0.01},
        {"params": list(plain.values())},
        {"params": [], "lr": 0.001},
    ]
    optimizer = torch.optim.RMSprop(groups, lr=0.01, momentum=0.5, centered=True)
    step(network, optimizer)
    before = dict(network.named_parameters())
    moments = {
        name: {key: one.clone() if isinstance(one, Tensor) else one for key, one in each.items()}
        for name, each in state_of(before, optimizer).items()
    }
    del network["goes"]
    network["comes"] = nn.Linear(3, 3)
    origins = {f"stays.{name}": Origin(f"stays.{name}") for name in ("weight", "bias")}
    operate(optimizer, before, network, origins, group_of=lambda name, one: 2)
    after = dict(network.named_parameters())
    listed = [[id(one) for one in group["params"]] for group in optimizer.param_groups]
    wanted = (["stays.weight"], ["stays.bias"], ["comes.weight", "comes.bias"])
    assert listed == [[id(after[name]) for name in names] for names in wanted]
    assert {id(one) for one in optimizer.state} <= {id(one) for one in after.values()}, "nothing is kept of who is gone"
    found = state_of(after, optimizer)
    for name in origins:
        assert found[name].keys() == moments[name].keys()
        for key, one in moments[name].items():
            assert torch.equal(found[name][key], one) if isinstance(one, Tensor) else found[name][key] == one, name
    kept = {name: one.detach().clone() for name, one in after.items()}
    step(network, optimizer)
    assert not any(torch.equal(one, kept[name]) for name, one in after.items())
    assert all(one in optimizer.state for one in after.values())


def test_a_newborn_is_slower_until_it_is_grown_up() -> None:
    structure = ZooStructure(width=16, modules=start_zoo(16)[:4])
    network = build_network(ModuleZooNetwork(structure=structure), (FACTS,), (CLASS,), 0)
    assert isinstance(network, ModuleZoo)
    newborn = network.live[1]
    for rates, factor in (({newborn: 0.1}, 0.1), ({}, 1.0)):
        network.newborn_rates = dict(rates)
        optimizer = optimizers.build(network, OptimizerSettings(learning_rate=0.01))
        optimizers.set_learning_rate(optimizer, 0.005)
        found = {id(one): group["lr"] for group in optimizer.param_groups for one in group["params"]}
        for name, one in network.named_parameters():
            own = factor if name.startswith(f"pool.parts.{newborn}.") else 1.0
            assert found[id(one)] == pytest.approx(0.005 * own), name
