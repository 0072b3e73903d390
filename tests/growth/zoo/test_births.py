"""Modules that come are not noticed at first and learn then; modules that go leave nothing behind."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.growth.spec import BirthSettings
from evodevo.growth.zoo.birth import ModuleParent, inherit, same_nodes
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.build import build_module
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.zoo import PAPER, archetype, sample
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import Gate
from evodevo.networks.build import build_network
from evodevo.settings import merge
from evodevo.testing.networks import CLASS, small_batch
from fixtures.small_zoo import INPUTS, WIDTH, lively, small_zoo

torch.set_num_threads(1)

KINDS = ("graph_attention", "mlp_gate", "architecture", "mean")
KEYS = ("output", "genotype", "predictor")


def zoo(**router: Any) -> ModuleZoo:
    """In float64, with a router whose choices differ between samples."""
    network = small_zoo(router=merge({"top_k": 2}, router), dropout=0.0)
    return lively(network, 0.7, only=("router.", "predictor.", "genotype_keys.")).double()


def newborn(name: str = "newborn-1", family: str = "mlp", seed: int = 5) -> ZooModule:
    return ZooModule(id=name, genotype=sample(family, WIDTH, np.random.default_rng(seed)), seed=seed, birth_event=1)


BATCH = small_batch(INPUTS, count=12)


@torch.no_grad()
def answer(network: ModuleZoo, batch: dict[str, Tensor] = BATCH) -> Tensor:
    return torch.cat(list(network(batch).values()), 1)


def born(network: ModuleZoo, module: ZooModule, factor: float = 0.0) -> None:
    network.births[module.id] = factor
    network.insert(module)


ROUTERS: list[dict[str, Any]] = [
    *({"gate": gate} for gate in get_args(Gate)),
    *({"kind": kind, "gate": "sparsemax"} for kind in KINDS[1:]),
    *({"keys": keys, "top_k": top_k} for keys in KEYS for top_k in (1, 2, 3, 4, None)),
]


BESIDE = pytest.mark.parametrize("beside", [False, True], ids=["in the gate", "beside the gate"])


@BESIDE
@pytest.mark.parametrize(("router", "family"), [(one, PAPER[place % 6]) for place, one in enumerate(ROUTERS)], ids=str)
def test_birth_is_no_event(router: dict[str, Any], family: str, beside: bool) -> None:
    network = zoo(**router)
    network.beside = beside
    before = answer(network)
    born(network, newborn(family=family))
    torch.testing.assert_close(answer(network), before, rtol=0, atol=1e-10)
    network.births["newborn-1"] = 0.3
    assert (answer(network) - before).abs().max() > 1e-8


@BESIDE
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("kind", ["graph_attention", "mlp_gate"])
def test_a_newborn_learns_from_its_first_step(keys: str, kind: str, beside: bool) -> None:
    network = zoo(keys=keys, kind=kind)
    network.beside = beside
    born(network, newborn(), 1e-3)
    network.train()
    for number in range(3):
        network.zero_grad()
        network.loss({name: value[number : number + 1] for name, value in BATCH.items()}).backward()  # type: ignore[no-untyped-call]
        gradients = [one.grad for one in network.pool.parts["newborn-1"].parameters()]
        assert any(one is not None and bool(one.any()) for one in gradients)
    network.observe()
    assert network.statistics.usage(["newborn-1"]).isfinite().all()


@pytest.mark.parametrize(
    ("kind", "keys"), [*(("graph_attention", keys) for keys in KEYS), *((kind, "output") for kind in KINDS[1:])]
)
def test_who_came_and_went_leaves_nothing(keys: str, kind: str) -> None:
    network = zoo(keys=keys, kind=kind)
    state = {name: value.clone() for name, value in network.state_dict().items()}
    structure, before = network.structure, answer(network)
    network.active = network.live[:3]
    stream = torch.get_rng_state()
    born(network, newborn())
    network.newborn_rates["newborn-1"] = 0.1
    assert torch.equal(torch.get_rng_state(), stream)
    assert "newborn-1" in network.live
    assert {one.dtype for one in network.parameters()} == {torch.float64}
    network.train().loss(BATCH).backward()  # type: ignore[no-untyped-call]
    network.eval().remove("newborn-1")
    network.observe()
    network.active = None
    after = network.state_dict()
    assert after.keys() == state.keys()
    assert all(torch.equal(after[name], state[name]) for name in state)
    assert network.structure == structure
    assert not network.births
    assert not network.newborn_rates
    assert torch.equal(answer(network), before)


@pytest.mark.parametrize("keys", KEYS)
def test_a_grown_zoo_is_the_zoo_of_its_structure(keys: str) -> None:
    """It has the parameters that a fresh one of that structure has, and takes its weights."""
    grown = zoo(keys=keys)
    born(grown, newborn(), 1.0)
    grown.remove("lstm-1")
    fresh = build_network(ModuleZooNetwork(structure=grown.structure), INPUTS, (CLASS,), 1).double().eval()
    assert isinstance(fresh, ModuleZoo)
    fresh.load_state_dict(grown.state_dict())
    assert torch.equal(answer(fresh), answer(grown))


@BESIDE
def test_a_twin_shares_and_inherits(beside: bool) -> None:
    network = zoo(gate="sparsemax")
    network.beside = beside
    network.statistics.observe(network.live, torch.tensor([0.1, 0.4, 0.2, 0.3], dtype=torch.float64))
    parent = next(one for one in network.structure.modules if one.id == "mlp-1")
    before = network.passage(BATCH)
    network.births["twin"] = 0.0
    network.insert(ZooModule(id="twin", genotype=parent.genotype, parents=("mlp-1",)), twin_of="mlp-1")
    network.pool.parts["twin"].load_state_dict(network.pool.parts["mlp-1"].state_dict())
    after = network.passage(BATCH)
    torch.testing.assert_close(after.mixed, before.mixed, rtol=0, atol=1e-10)
    place = after.ids.index("mlp-1")
    assert before.decision.weights[:, place].any()
    torch.testing.assert_close(after.decision.weights[:, -1], before.decision.weights[:, place] / 2)
    assert torch.equal(network.statistics.contribution(["twin"]), network.statistics.contribution(["mlp-1"]))
    network.remove("mlp-1")
    assert not network.twins


def test_a_newborn_brings_its_weights() -> None:
    """From the zoo to its parent's weights to the zoo: alone in the place of its parent it answers alike."""
    network = zoo(kind="mean")
    parent = next(one for one in network.structure.modules if one.id == "mlp-1")
    child = archetype("mlp", WIDTH, **{**parent.genotype.attributes, "hidden_factor": 3.0})
    module = build_module(child, 5)
    state = {name: one.float() for name, one in network.pool.parts["mlp-1"].state_dict().items()}
    origins = same_nodes(child, parent.genotype, "mlp-1")
    inherit(module, child, {"mlp-1": ModuleParent(parent.genotype, state)}, BirthSettings(), origins, 5)
    network.insert(ZooModule(id="wider", genotype=child, seed=5, parents=("mlp-1",)), state=module.state_dict())
    outputs = network.passage(BATCH).outputs
    ids = network.live
    torch.testing.assert_close(outputs[:, ids.index("wider")], outputs[:, ids.index("mlp-1")], rtol=0, atol=1e-5)
    with pytest.raises(RuntimeError):
        network.insert(newborn(family="lstm"), state=module.state_dict())
    assert "newborn-1" not in network.pool.parts
    assert network.live == ids


def test_newborns_have_rates_of_their_own() -> None:
    network = zoo()
    born(network, newborn("mlp-1x"))
    network.newborn_rates["mlp-1x"] = 0.1
    rates = network.learning_rates()
    slow = {name for name, _ in network.named_parameters() if any(name.startswith(one) for one in rates)}
    assert slow == {name for name, _ in network.named_parameters() if name.startswith("pool.parts.mlp-1x.")}
    assert slow


def test_nonsense_is_refused_and_nothing_happens() -> None:
    network = zoo(keys="genotype")
    names = list(network.state_dict())
    wide = ZooModule(id="wide", genotype=archetype("mlp", 2 * WIDTH))
    for wrong in (newborn("mlp-1"), newborn("pop"), newborn("copy"), newborn("type"), wide):
        with pytest.raises(UsageError):
            network.insert(wrong)
    with pytest.raises(UsageError):
        network.insert(newborn(), twin_of="nobody")
    with pytest.raises(UsageError):
        network.remove("nobody")
    assert list(network.state_dict()) == names
    for one in network.live[1:]:
        network.remove(one)
    with pytest.raises(UsageError):
        network.remove(network.live[0])


# Beside the gate


@torch.no_grad()
def weights(network: ModuleZoo) -> Tensor:
    return network.passage(BATCH).decision.head_weights


@pytest.mark.parametrize("router", ROUTERS, ids=str)
def test_who_is_beside_the_gate_takes_no_weight_until_it_is_warm(router: dict[str, Any]) -> None:
    network = zoo(**router)
    network.beside = True
    before = weights(network)
    born(network, newborn())
    places = before.shape[-1]
    own = []
    for factor in (0.1, 0.4, 0.75):
        network.births["newborn-1"] = factor
        now = weights(network)
        if network.predictor is None:  # which chooses K + 1 of the mature ones, and at 1 of all
            torch.testing.assert_close(now[..., :places], before, rtol=0, atol=1e-12)
        own.append(now[..., places:])
        assert (own[-1] > 0).all(), "a sparse gate has no say yet"
    torch.testing.assert_close(own[1], 4 * own[0])
    network.births["newborn-1"] = 1.0
    grown = weights(network)
    network.births["newborn-1"] = 1 - 1e-9
    if network.predictor is None:
        torch.testing.assert_close(weights(network), grown, rtol=0, atol=1e-6)


def test_newborns_of_different_age_join_one_after_the_other() -> None:
    network = zoo(gate="sparsemax")
    network.beside = True
    born(network, newborn("older"), 0.9)
    before = answer(network)
    born(network, newborn("younger", "cnn"), 0.0)
    torch.testing.assert_close(answer(network), before, rtol=0, atol=1e-10)


def test_who_is_half_born_beside_the_gate_is_so_in_a_copy() -> None:
    network = zoo()
    network.beside = True
    assert not network.state_extras(), "without newborns nothing is kept"
    born(network, newborn(), 0.4)
    copy = build_network(ModuleZooNetwork(structure=network.structure), INPUTS, (CLASS,), 1).double().eval()
    copy.load_state_dict(network.state_dict())
    assert isinstance(copy, ModuleZoo)
    assert not torch.equal(answer(copy), answer(network))
    copy.take_state_extras(network.state_extras())
    assert torch.equal(answer(copy), answer(network))


@pytest.mark.parametrize("gate", ["sparsemax", "softmax"])
def test_beside_the_gate_the_least_wanted_learns(gate: str) -> None:
    """Its logit is so far below the others' that neither gate nor softmax lets it through."""
    network = zoo(gate=gate, kind="architecture")
    born(network, newborn(), 0.5)
    row = network.state_dict()["router.rows.of.newborn-1"]
    row.fill_(-600.0)
    assert float(weights(network)[..., -1].max()) < 1e-12
    network.beside = True
    assert float(weights(network)[..., -1].min()) >= 0.5 / 2 / len(network.live)
    network.train()
    network.loss(BATCH).backward()  # type: ignore[no-untyped-call]
    gradients = [one.grad for one in network.pool.parts["newborn-1"].parameters()]
    assert any(one is not None and bool(one.any()) for one in gradients)
