"""Probes against brute force (docs/spec/architect_thyself.md#laws): modules really disabled, one network per module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from evodevo.errors import DataError, UsageError
from evodevo.growth.gated import unroll
from evodevo.growth.probes import ModuleProbe, probe
from evodevo.growth.spec import FitnessSettings
from evodevo.growth.strategists.learned import unrolled_loss
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.vector import genotype_distance
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.settings import merge
from evodevo.testing.networks import CLASS, LABELS, rows, small_batch
from fixtures.small_zoo import INPUTS, WIDTH, lively, small_zoo

SETTINGS = FitnessSettings()
NEAR = 1e-9


def probed(outputs: Any = (CLASS,), *, count: int = 4, router: Any = None, **changes: Any) -> ModuleZoo:
    """In float64; contributions are known, and routing differs between samples."""
    zoo = small_zoo(outputs, count=count, **merge({"router": {"top_k": 2}}, {"router": router or {}, **changes}))
    zoo = lively(zoo, 0.3)
    zoo.statistics.observe(zoo.live, torch.rand(len(zoo.live), generator=torch.Generator().manual_seed(0)))
    return zoo.double()


def loss_of(zoo: ModuleZoo, batch: dict[str, Tensor]) -> float:
    with torch.no_grad():
        return float(zoo.answers_loss(zoo(batch), batch))


def brute_force(zoo: ModuleZoo, batch: dict[str, Tensor]) -> dict[str, float]:
    """Impact by disabling modules; the zoo is one without top-K."""
    ids, whole, found = zoo.live, loss_of(zoo, batch), {}
    for one in ids:
        zoo.active = frozenset(ids) - {one}
        found[one] = loss_of(zoo, batch) - whole
    zoo.active = None
    return found


@pytest.mark.parametrize("synergy", range(3))
@pytest.mark.parametrize("gate", ["sparsemax", "softmax", "entmax15", "relu"])
def test_leaving_out_is_disabling(synergy: int, gate: str) -> None:
    keys = ("output", "genotype", "predictor")[(synergy + len(gate)) % 3]
    router = {"keys": keys, "gate": gate, "synergy": ("similar", "complement", "off")[synergy]}
    batch = small_batch(INPUTS, (CLASS, LABELS), count=9, padded=True)
    wanted = brute_force(probed((CLASS, LABELS), router={**router, "top_k": None}), batch)
    # The same with top-K, which a probe leaves out.
    zoo = probed((CLASS, LABELS), router=router)
    found = probe(zoo, [rows(batch, slice(0, 4)), rows(batch, slice(4, 9))], SETTINGS)
    assert found.impact == pytest.approx(wanted, abs=NEAR)
    assert any(abs(one) > 1e-4 for one in wanted.values())
    assert found.loss == pytest.approx(loss_of(zoo, batch), abs=NEAR)
    assert found.samples == 9


@pytest.mark.parametrize("kind", ["mean", "mlp_gate", "architecture"])
def test_every_router_can_be_probed(kind: str) -> None:
    zoo, batch = probed(router={"kind": kind, "top_k": None}), small_batch(INPUTS, count=6)
    assert probe(zoo, [batch], SETTINGS).impact == pytest.approx(brute_force(zoo, batch), abs=NEAR)


@pytest.mark.parametrize("residual", [True, False])
def test_a_zoo_of_one_without_it_hears_nobody(residual: bool) -> None:
    zoo, batch = probed(count=1, router={"residual": residual}), small_batch(INPUTS)
    with torch.no_grad():
        f = zoo.fuse(batch).fused.vector
        answers = zoo.answer(f if residual else torch.zeros_like(f))
        wanted = float(zoo.answers_loss(answers, batch)) - loss_of(zoo, batch)
    found = probe(zoo, [batch], SETTINGS)
    assert found.impact == pytest.approx({zoo.live[0]: wanted}, abs=NEAR)
    assert found.genotype_distance.mean_of_others() == {zoo.live[0]: 0}


def test_silence_is_not_absence() -> None:
    """Eq. 67 puts 0 for what a module says; its key still takes weight from the others."""
    zoo, batch = probed(router={"top_k": None}), small_batch(INPUTS, count=6)
    masked, zero = (probe(zoo, [batch], FitnessSettings(ablation=one)) for one in ("masked", "zero"))
    assert masked.impact != pytest.approx(zero.impact, abs=1e-6)
    place = 2

    def mute(_: Any, __: Any, outputs: Tensor) -> Tensor:
        return outputs.index_fill(1, torch.tensor([place]), 0.0)

    hook = zoo.pool.register_forward_hook(mute)
    wanted = loss_of(zoo, batch)
    hook.remove()
    assert zero.impact[zoo.live[place]] == pytest.approx(wanted - loss_of(zoo, batch), abs=NEAR)


def test_a_duplicate_has_hardly_an_impact() -> None:
    """Of two equal modules each can replace the other."""
    modules = [module.model_dump(mode="json") for module in start_zoo(WIDTH)[:3]]
    twin = modules[0] | {"id": "twin"}
    zoo = probed(modules=[*modules, twin], router={"synergy": "off", "gate": "sparsemax", "contribution": 0.0})
    zoo.pool.parts["twin"].load_state_dict(zoo.pool.parts[modules[0]["id"]].state_dict())
    batch = small_batch(INPUTS, count=16)
    both = probe(zoo, [batch], SETTINGS)
    zoo.active = frozenset(zoo.live) - {"twin"}
    alone = probe(zoo, [batch], SETTINGS)
    first = modules[0]["id"]
    assert abs(both.impact["twin"]) < 0.2 * abs(alone.impact[first])
    assert both.impact["twin"] == pytest.approx(both.impact[first], abs=NEAR)
    assert both.output_distance.of("twin", first) == pytest.approx(0, abs=NEAR)
    assert both.genotype_distance.of("twin", first) == 0
    np.testing.assert_array_equal(both.alone["twin"], both.alone[first])


def test_a_harmful_module_has_a_negative_impact() -> None:
    zoo, batch = probed(router={"top_k": None, "gate": "softmax"}), small_batch(INPUTS, count=16)
    bad = zoo.live[1]
    worst: list[Tensor] = []

    def harm(_: Any, __: Any, outputs: Tensor) -> Tensor:
        """Whatever raises the loss most, by its gradient."""
        return outputs if not worst else torch.cat([outputs[:, :1], worst[0], outputs[:, 2:]], 1)

    with torch.enable_grad():
        f = zoo.fuse(batch).fused.vector
        outputs = torch.zeros(16, len(zoo.live), WIDTH, dtype=torch.float64, requires_grad=True)
        decision = zoo.decide(f, outputs, zoo.live)
        loss = zoo.answers_loss(zoo.answer(zoo.router.mix(decision, outputs, f)), batch)
        (slope,) = torch.autograd.grad(loss, outputs)
    worst.append(1e3 * slope[:, 1:2] / slope[:, 1:2].norm(dim=-1, keepdim=True))
    hook = zoo.pool.register_forward_hook(harm)
    found = probe(zoo, [batch], SETTINGS)
    hook.remove()
    assert found.impact[bad] < 0


def test_usage_alone_advantage_and_distances_are_what_loops_find() -> None:
    zoo, batch = probed(), small_batch(INPUTS, count=7)
    found = probe(zoo, [batch], SETTINGS)
    route = zoo.route(batch)["weights"].double()
    target = batch["answer/target"]
    with torch.no_grad():
        passage = zoo.passage(batch)
        f, u = passage.inputs.fused.vector, passage.outputs
        dense = zoo.router.decide(
            f, u, ids=passage.ids, contribution=zoo.statistics.contribution(passage.ids), dense=True
        )
        even = zoo.router.structure.model_copy(update={"top_k": None})
        assert even.top_k is None
        alike = zoo.router.values(torch.full_like(dense.head_weights, 1 / 4), zoo.router.norm(u)) + f
        each = torch.nn.functional.cross_entropy(
            zoo.answer(zoo.router.mix(dense, u, f))["answer"], target, reduction="none"
        )
        uniform = torch.nn.functional.cross_entropy(zoo.answer(alike)["answer"], target, reduction="none")
        for place, one in enumerate(zoo.live):
            assert found.usage[one] == pytest.approx(float(route[:, place].mean()), abs=1e-6)
            advantage = float((dense.weights[:, place] * (uniform - each)).mean())
            assert found.advantage[one] == pytest.approx(advantage, abs=NEAR)
            zoo.active = frozenset({one})
            right = zoo(batch)["answer"].argmax(-1) == target
            zoo.active = None
            np.testing.assert_array_equal(found.alone[one], right.numpy())
            for other, name in enumerate(zoo.live):
                a, b = u[:, place], u[:, other]
                apart = (a - b).norm(dim=-1).mean() / (a.norm(dim=-1) + b.norm(dim=-1)).mean()
                assert found.output_distance.of(one, name) == pytest.approx(float(apart), abs=NEAR)
    assert found.uniform_loss == pytest.approx(float(uniform.mean()), abs=NEAR)
    assert found.dense_loss == pytest.approx(float(each.mean()), abs=NEAR)
    genotypes = {module.id: module.genotype for module in zoo.structure.modules}
    first, last = zoo.live[0], zoo.live[3]
    assert found.genotype_distance.of(first, last) == genotype_distance(genotypes[first], genotypes[last])
    weights = dense.weights
    assert found.entropy == pytest.approx(float(-torch.special.xlogy(weights, weights).sum(-1).mean()), abs=1e-9)
    assert found.accuracy == float((passage.answers["answer"].argmax(-1) == target).double().mean())


def by_id(found: ModuleProbe) -> dict[str, Any]:
    return {one: (found.usage[one], found.impact[one], found.advantage[one]) for one in sorted(found.ids)}


def test_the_order_of_modules_does_not_matter() -> None:
    zoo, batch = probed(), small_batch(INPUTS, count=8)
    turned = probed(modules=[one.model_dump(mode="json") for one in zoo.structure.modules[::-1]])
    turned.load_state_dict(zoo.state_dict())
    ours, theirs = probe(zoo, [batch], SETTINGS), probe(turned, [batch], SETTINGS)
    assert ours.ids == theirs.ids[::-1]
    for one, numbers in by_id(ours).items():
        assert by_id(theirs)[one] == pytest.approx(numbers, abs=NEAR)


def test_a_probe_leaves_no_trace() -> None:
    zoo, batch = probed(router={"gate": "gumbel"}), small_batch(INPUTS)
    zoo.train()
    before = {name: value.clone() for name, value in zoo.state_dict().items()}
    stream = torch.random.get_rng_state()
    first, again = probe(zoo, [batch], SETTINGS), probe(zoo, [batch], SETTINGS)
    assert zoo.training
    assert torch.equal(stream, torch.random.get_rng_state())
    assert first.impact == again.impact
    assert all(torch.equal(before[name], value) for name, value in zoo.state_dict().items())
    assert all(parameter.grad is None for parameter in zoo.parameters())


def test_samples_without_a_target_say_nothing() -> None:
    zoo, batch = probed((CLASS, LABELS)), small_batch(INPUTS, (CLASS, LABELS), count=6)
    batch["answer/target"][:3] = -1
    batch["tags/target"][0] = float("nan")
    batch["tags/target"][1, 0] = float("nan")
    found = probe(zoo, [rows(batch, slice(0, 2)), rows(batch, slice(2, 6))], SETTINGS)
    assert found.loss == pytest.approx(loss_of(zoo, batch), abs=NEAR)
    assert all(len(one) == 5 for one in found.alone.values())


def test_nothing_to_probe_is_said() -> None:
    zoo, batch = probed(), small_batch(INPUTS)
    with pytest.raises(DataError, match="at least one sample"):
        probe(zoo, [], SETTINGS)
    with pytest.raises(DataError, match="no sample has a target"):
        probe(zoo, [batch | {"answer/target": torch.full((4,), -1)}], SETTINGS)
    with pytest.raises(UsageError, match="no target of the output 'answer'"):
        probe(zoo, [{name: one for name, one in batch.items() if name != "answer/target"}], SETTINGS)


def test_a_newborn_that_is_not_heard_yet_is_not_missed() -> None:
    zoo, batch = probed(router={"top_k": None}), small_batch(INPUTS, count=8)
    newborn = zoo.live[-1]
    mature = zoo.live[:-1]
    zoo.active = mature
    before = probe(zoo, [batch], SETTINGS)
    zoo.active = None
    zoo.births[newborn] = 0.0
    found = probe(zoo, [batch], SETTINGS)
    assert found.impact[newborn] == pytest.approx(0, abs=NEAR)
    assert found.usage[newborn] == 0
    assert {one: found.impact[one] for one in mature} == pytest.approx(before.impact, abs=NEAR)
    assert found.alone[newborn].shape == (8,)
    zoo.births[newborn] = 0.5
    assert probe(zoo, [batch], SETTINGS).impact == pytest.approx(brute_force(zoo, batch), abs=NEAR)


def test_gates_and_their_slopes() -> None:
    """For meta-gradients: open ones change nothing, and slopes are those of finite differences."""
    zoo = small_zoo(count=3)
    zoo.double().train()
    batch = small_batch(INPUTS, count=6)
    before = {name: one.clone() for name, one in zoo.state_dict().items()}
    told = unroll(zoo, batch, small_batch(INPUTS, count=4))

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
