"""Gates of a zoo for meta-gradients: open ones change nothing, and slopes are those of finite differences."""

from __future__ import annotations

import torch
from torch import Tensor

from evodevo.growth.gated import unroll
from evodevo.growth.strategists.unrolling import unrolled_loss
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.build import build_network
from evodevo.settings import validate
from evodevo.testing.networks import CLASS, IMAGE, TEXT, small_batch

torch.set_num_threads(1)


def test_gates_and_their_slopes() -> None:
    values = {
        "width": 16,
        "extractor": {"blocks": 1},
        "statistics": {"rank": 2},
        "fusion": {"heads": 2},
        "router": {"heads": 2},
        "modules": [module.model_dump(mode="json") for module in start_zoo(16)[:3]],
    }
    structure = validate(ZooStructure, values, what="a small zoo")
    zoo = build_network(ModuleZooNetwork(structure=structure), (IMAGE, TEXT), (CLASS,), 0)
    assert isinstance(zoo, ModuleZoo)
    zoo.double().train()
    batch = small_batch((IMAGE, TEXT), count=6)
    before = {name: one.clone() for name, one in zoo.state_dict().items()}
    told = unroll(zoo, batch, small_batch((IMAGE, TEXT), count=4))

    def after(*gates: float) -> Tensor:
        opened = {one: torch.tensor(gate, dtype=torch.float64) for one, gate in zip(zoo.live, gates, strict=True)}
        for one in opened.values():
            one.requires_grad_()
        return unrolled_loss(told, opened, steps=2, rate=0.1)

    zoo.eval()
    whole = zoo.answers_loss(zoo(batch), batch)
    zoo.train()
    open_gates = {one: torch.ones((), dtype=torch.float64) for one in zoo.live}
    torch.testing.assert_close(told.inner_loss(dict(told.parameters), open_gates), whole)
    # Weights are shared out anew: gates that are all half open change nothing, either.
    half = {one: gate / 2 for one, gate in open_gates.items()}
    torch.testing.assert_close(told.inner_loss(dict(told.parameters), half), whole)
    first = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    rest = {one: torch.ones((), dtype=torch.float64) for one in zoo.live[1:]}
    (slope,) = torch.autograd.grad(unrolled_loss(told, {zoo.live[0]: first, **rest}, steps=2, rate=0.1), [first])
    near = float((after(0.7 + 1e-5, 1, 1) - after(0.7 - 1e-5, 1, 1)).detach()) / 2e-5
    assert abs(float(slope) - near) < 1e-6 * max(1.0, abs(near))
    assert abs(near) > 1e-7
    assert zoo.training
    assert all(parameter.grad is None for parameter in zoo.parameters())
    assert all(torch.equal(one, before[name]) for name, one in zoo.state_dict().items())
