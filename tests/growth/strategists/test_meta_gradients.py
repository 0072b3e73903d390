"""Gradients through training steps (docs/spec/architect_thyself.md#strategists)."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from evodevo.growth.strategists.base import Unroll, create
from evodevo.growth.strategists.learned import LearnedStrategist, outer_gradient, unrolled_loss
from evodevo.growth.strategists.spec import MetaSettings, StrategistSettings
from evodevo.growth.strategists.state import Legal
from evodevo.testing.strategists import everything, some_zoo

torch.set_num_threads(1)
STATE = some_zoo(3)
LEGAL = everything(STATE)


def toy() -> Unroll:
    """Two parameters, each behind a gate, in a problem that is not quadratic."""
    model = nn.Linear(2, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.3, -0.7]]))
    source = torch.Generator().manual_seed(0)
    x, y = (
        torch.randn(2, 16, 2, generator=source, dtype=torch.float64),
        torch.randn(2, 16, 1, generator=source).double(),
    )

    def loss(parameters: dict[str, Tensor], gates: dict[str, Tensor], part: int) -> Tensor:
        gate = torch.stack([gates["a"], gates["b"]])
        answer: Tensor = functional_call(model, parameters, (x[part] * gate,))
        return ((answer.tanh() - y[part]) ** 2).mean()

    return Unroll(dict(model.named_parameters()), lambda p, g: loss(p, g, 0), lambda p, g: loss(p, g, 1))


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_the_gradient_is_that_of_finite_differences(steps: int) -> None:
    unroll, rate, small = toy(), 0.5, 1e-5

    def outer(a: float, b: float) -> Tensor:
        gates = {"a": torch.tensor(a, dtype=torch.float64), "b": torch.tensor(b, dtype=torch.float64)}
        return unrolled_loss(unroll, gates, steps=steps, rate=rate).detach()

    phi = torch.tensor([0.4, -0.2], dtype=torch.float64, requires_grad=True)
    w = phi.sigmoid()
    loss, (gradient,) = outer_gradient(unroll, {"a": w[0], "b": w[1]}, [phi], steps=steps, rate=rate)
    assert gradient is not None
    a, b = (float(one) for one in w.detach())
    assert loss == pytest.approx(float(outer(a, b)))
    slopes = [
        float(outer(a + small, b) - outer(a - small, b)) / (2 * small),
        float(outer(a, b + small) - outer(a, b - small)) / (2 * small),
    ]
    expected = torch.tensor(slopes, dtype=torch.float64) * (w * (1 - w)).detach()
    assert torch.allclose(gradient, expected, rtol=1e-3, atol=1e-6)


def test_the_steps_matter() -> None:
    """A gradient that skips the inner steps is another one."""
    unroll = toy()
    found = []
    for through in (True, False):
        phi = torch.tensor([0.4, -0.2], dtype=torch.float64, requires_grad=True)
        gates = {"a": phi[0].sigmoid(), "b": phi[1].sigmoid()}
        problem = unroll
        if not through:
            cut = {name: one.detach() for name, one in gates.items()}
            problem = Unroll(unroll.parameters, lambda p, _, cut=cut: unroll.inner_loss(p, cut), unroll.outer_loss)
        found.append(outer_gradient(problem, gates, [phi], steps=3, rate=0.5)[1][0])
    assert found[0] is not None
    assert found[1] is not None
    assert not torch.allclose(found[0], found[1], rtol=1e-2)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_steps_go_down_the_inner_loss(steps: int) -> None:
    """Of (w - g)^2 / 2 each step leaves 1 - rate of the way from w to g."""
    problem = Unroll({"w": torch.tensor(3.0)}, lambda p, g: (p["w"] - g["g"]) ** 2 / 2, lambda p, _: p["w"])
    found = unrolled_loss(problem, {"g": torch.tensor(1.0)}, steps=steps, rate=0.25)
    assert float(found.detach()) == pytest.approx(1 + 2 * 0.75**steps)


def harmful(culprit: str) -> Unroll:
    """A network that is better the less one gate is open."""

    def loss(parameters: dict[str, Tensor], gates: dict[str, Tensor]) -> Tensor:
        return (parameters["w"] + 2 * gates[culprit]).square().sum()

    return Unroll({"w": torch.tensor([0.5, 0.5])}, loss, loss)


def build(name: str = "meta_gradient") -> LearnedStrategist:
    settings = StrategistSettings(meta=MetaSettings(rate=0.02))
    strategist = create(name, settings=settings, actions=1)
    assert isinstance(strategist, LearnedStrategist)
    return strategist


@pytest.mark.parametrize("name", ["meta_gradient", "reinforce_meta"])
def test_a_module_that_harms_is_closed_and_its_prune_becomes_likelier(name: str) -> None:
    strategist = build(name)
    legal = Legal(prune=("m0", "m1"))
    (target, other) = legal.targets("prune")
    before = strategist.choice(STATE, legal)
    losses = [strategist.refine(STATE, legal, harmful("m0")) for _ in range(40)]
    after = strategist.choice(STATE, legal)
    assert losses[0] is not None
    assert losses[-1] is not None
    assert losses[-1] < losses[0]
    assert float(after.gates(STATE)["m0"].detach()) < float(before.gates(STATE)["m0"].detach()) - 0.1
    assert after.probability(target) > before.probability(target)
    assert after.probability(target) > after.probability(other)


@pytest.mark.slow
def test_the_meta_strategist_does_what_its_gates_say() -> None:
    strategist = build()
    legal = Legal(prune=("m0", "m1"))
    assert strategist.propose(STATE, legal, np.random.default_rng(0)) == ()
    for _ in range(200):
        strategist.refine(STATE, legal, harmful("m0"))
    (action,) = strategist.propose(STATE, legal, np.random.default_rng(0))
    assert (action.operation, action.modules) == ("prune", ("m0",))


def test_nothing_of_the_graph_outlives_the_call() -> None:
    seen: list[weakref.ref[Tensor]] = []
    weight = torch.tensor([0.5, 0.5])

    def loss(parameters: dict[str, Tensor], gates: dict[str, Tensor]) -> Tensor:
        value = (parameters["w"] + sum(gates.values())).square().sum()
        seen.extend(weakref.ref(one) for one in (value, parameters["w"], *gates.values()))
        return value

    strategist = build()
    enabled = gc.isenabled()
    gc.disable()  # a cycle would be a leak between collections
    try:
        strategist.refine(STATE, LEGAL, Unroll({"w": weight}, loss, loss))
        assert len(seen) > 6
        assert not [one for one in seen if one() is not None]
    finally:
        if enabled:
            gc.enable()
    assert weight.grad is None
    assert all(one.grad is None for one in strategist.policy.parameters())


def test_a_network_without_gates_teaches_nothing() -> None:
    strategist = build()
    before = {name: one.clone() for name, one in strategist.policy.state_dict().items()}
    unroll = Unroll({"w": torch.ones(2)}, lambda p, _: p["w"].square().sum(), lambda p, _: p["w"].square().sum())
    assert strategist.refine(STATE, LEGAL, unroll) is not None
    assert all(torch.equal(before[name], one) for name, one in strategist.policy.state_dict().items())


def test_when_a_gradient_is_wanted() -> None:
    assert [create("meta_gradient").wants_gradient(event) for event in (1, 2, 3)] == [True, True, True]
    assert [create("reinforce_meta").wants_gradient(event) for event in range(1, 7)] == [False, False, True] * 2
    assert not any(create(name).wants_gradient(3) for name in ("fixed", "random", "heuristic", "reinforce", "ppo"))
