"""The others learn what a module says before it goes (docs/spec/architect_thyself.md#pruning)."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from evodevo.errors import UsageError
from evodevo.growth.training.module_distillation import distance, distil_module, taught, without
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.build import build_network
from evodevo.randomness import generator
from evodevo.settings import validate
from evodevo.testing.networks import CLASS, FACTS
from evodevo.training.loop import train
from evodevo.training.precision import Precision
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

CPU = Precision(torch.device("cpu"), None)
WIDTH, SIZE = 16, 32


def batch_at(step: int, *, split: str = "train") -> dict[str, NDArray[Any]]:
    """Which of three numbers is the largest."""
    facts = generator(7, step, split).normal(size=(SIZE, 3)).astype(np.float32)
    return {"facts": facts, "answer/target": facts.argmax(1)}


HELD_OUT = [batch_at(number, split="architecture") for number in range(4)]


def zoo(keys: str = "output") -> ModuleZoo:
    modules = [module.model_dump(mode="json") for module in start_zoo(WIDTH)][:3]
    twin = {**modules[0], "id": "twin"}  # the same genotype and seed: redundant
    values = {"width": WIDTH, "router": {"heads": 2, "keys": keys}, "modules": [*modules, twin]}
    structure = validate(ZooStructure, values, what="a small zoo")
    network = build_network(ModuleZooNetwork(structure=structure), (FACTS,), (CLASS,), 0)
    assert isinstance(network, ModuleZoo)
    return network


def settings(steps: int) -> TrainingSettings:
    return TrainingSettings(
        budget=Budget(steps=steps), optimizer=OptimizerSettings(learning_rate=1e-2), batch_size=SIZE, device="cpu"
    )


@pytest.fixture(scope="module")
def learned() -> ModuleZoo:
    torch.set_num_threads(1)
    network = zoo()
    result = train(network, settings(120), batch_at=batch_at, tokens_per_step=SIZE, seed=1, precision=CPU)
    assert result.state == "finished"
    return network.eval()


@torch.no_grad()
def task_loss(network: nn.Module) -> float:
    one: Any = network.eval()
    batches = [{name: torch.from_numpy(array) for name, array in batch.items()} for batch in HELD_OUT]
    return float(np.mean([float(one.answers_loss(one(batch), batch)) for batch in batches]))


def distilled(network: ModuleZoo, steps: int = 50, *, tolerance: float = 0.0, module: str = "twin") -> Any:
    return distil_module(network, module, batch_at, steps, tolerance=tolerance, batch_size=SIZE, seed=3, precision=CPU)


@pytest.mark.slow
def test_pruning_costs_less_after_it(learned: ModuleZoo) -> None:
    network = copy.deepcopy(learned)
    lessons = taught(network, HELD_OUT, CPU)
    full = task_loss(network)
    with without(network, "twin"):
        alone, pruned = distance(network, lessons, CPU), task_loss(network)
    result = distilled(network)
    with without(network, "twin"):
        after, softened = distance(network, lessons, CPU), task_loss(network)
    assert (result.state, result.steps) == ("finished", 50)
    assert after <= 0.5 * alone
    assert result.after <= 0.5 * result.before
    assert softened - full < pruned - full
    assert pruned > full, "otherwise there was nothing to soften"


def test_the_distance_is_eq_94(learned: ModuleZoo) -> None:
    network = copy.deepcopy(learned)
    lessons = taught(network, HELD_OUT, CPU)
    assert distance(network, lessons, CPU) == 0.0
    squares = []
    with torch.no_grad():
        for batch in HELD_OUT:
            facts = {"facts": torch.from_numpy(batch["facts"])}
            full = network.passage(facts).mixed
            network.active = [one for one in network.live if one != "twin"]
            ablated = network.passage(facts).mixed
            network.active = None
            squares += [
                sum((x - y) ** 2 for x, y in zip(*pair, strict=True)) for pair in zip(full, ablated, strict=True)
            ]
    with without(network, "twin"):
        assert distance(network, lessons, CPU) == pytest.approx(
            float(np.mean([float(one) for one in squares])), rel=1e-5
        )


def test_only_modules_and_the_router_learn_and_all_else_is_as_before(learned: ModuleZoo) -> None:
    network = copy.deepcopy(learned).train()
    frozen = network.pool.parts["twin"]
    next(network.router.parameters()).requires_grad_(False)
    network.set_progress(0.25)
    progress = network._progress
    before = {name: one.clone() for name, one in network.state_dict().items()}
    trainable = {name: one.requires_grad for name, one in network.named_parameters()}
    random_state = torch.get_rng_state()
    distilled(network, 5)
    changed = {name for name, one in network.state_dict().items() if not torch.equal(one, before[name])}
    assert changed
    assert all(name.startswith(("pool.", "router.")) for name in changed)
    assert not any(name.startswith("pool.parts.twin.") for name in changed)
    assert {name: one.requires_grad for name, one in network.named_parameters()} == trainable
    assert not {name for name, one in trainable.items() if not one} & changed
    assert all(one.grad is None for one in frozen.parameters())
    assert (network.active, network.training, network._progress) == (None, True, progress)
    assert torch.equal(random_state, torch.get_rng_state())


@pytest.mark.slow
def test_it_ends_early_where_the_others_have_learned(learned: ModuleZoo) -> None:
    whole = distilled(copy.deepcopy(learned))
    early = distilled(copy.deepcopy(learned), tolerance=whole.before / 2)
    assert early.state == "finished"
    assert 0 < early.steps < whole.steps
    assert early.after < whole.before / 2 * 1.2
    for steps, tolerance in ((50, whole.before * 1.01), (0, 0.0)):
        network = copy.deepcopy(learned)
        nothing = distilled(network, steps, tolerance=tolerance)
        assert nothing.steps == 0
        assert nothing.before == nothing.after > 0
        assert all(torch.equal(one, learned.state_dict()[name]) for name, one in network.state_dict().items())


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["genotype", "predictor"])
def test_any_keys(keys: str) -> None:
    torch.set_num_threads(1)
    network = zoo(keys)
    train(network, settings(8), batch_at=batch_at, tokens_per_step=SIZE, seed=1, precision=CPU)
    result = distilled(network, 15)
    assert result.after < result.before


@pytest.mark.slow
def test_equal_seeds_teach_equally(learned: ModuleZoo) -> None:
    one, other = copy.deepcopy(learned), copy.deepcopy(learned)
    assert distilled(one, 5) == distilled(other, 5)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_who_is_not_there_or_alone_cannot_be_left_out(learned: ModuleZoo) -> None:
    network = copy.deepcopy(learned)
    with pytest.raises(UsageError, match="unknown module 'twim'"):
        distilled(network, module="twim")
    network.active = ["twin"]
    with pytest.raises(UsageError, match="nobody is left"):
        distilled(network)
    assert network.live == ("twin",)
