"""Recursion by a router: sample by sample in a plain loop, and what it runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.networks.build import build_network
from evodevo.networks.stacks.recursion import RecursionNetwork
from evodevo.networks.stacks.recursion_model import Recursion
from evodevo.networks.stacks.spec import RecursionStructure
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.operators.liv import NORM_EPSILON
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import NEXT, TEXT

FACTS = InputSpec("facts", "vector", size=5)
ANSWER = OutputSpec("answer", "class", 3)
LAYERS = (TransformerLayer(heads=2), MLPLayer(hidden=6))


def network(**changes: Any) -> Recursion:
    values = {"width": 8, "layers": LAYERS, "most": 4, "iteration_embedding": True, "input_blocks": 0, **changes}
    structure = RecursionStructure.model_validate({**values, "output_blocks": 0})
    built = build_network(RecursionNetwork(structure=structure), (FACTS,), (ANSWER,), seed=0)
    assert isinstance(built, Recursion)
    with torch.no_grad():
        built.router.weight.mul_(50)  # so that samples decide differently
    return built.double().eval()


def stream(count: int = 12, length: int = 3) -> Tensor:
    return torch.randn(count, length, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def decision(model: Recursion, x: Tensor, mask: Tensor) -> tuple[int, float]:
    """Passes of one sample (S, d), and the probability of that decision."""
    mean = x[mask].mean(0)
    seen = mean / (mean.square().mean() + NORM_EPSILON).sqrt()
    shares = (model.router.weight @ seen + model.router.bias).softmax(0)
    return int(shares.argmax()) + 1, float(shares.max().detach())


@torch.no_grad()
def test_each_sample_passes_as_often_as_its_router_says() -> None:
    model, x = network(), stream()
    mask = torch.arange(3) < torch.tensor([3, 2, 1] * 4)[:, None]
    passes = set()
    y, extra = model.update(x, mask)
    assert not extra
    for sample in range(len(x)):
        count, gate = decision(model, x[sample], mask[sample])
        passes.add(count)
        alone = x[sample : sample + 1]
        for t in range(count):
            before = alone + model.embedding.vector(t)
            after = before
            for layer in model.layers:
                after = layer(after, mask=mask[sample : sample + 1]).y
            alone = before + gate * (after - before)
        torch.testing.assert_close(y[sample][mask[sample]], alone[0][mask[sample]], atol=1e-11, rtol=1e-11)
    assert len(passes) >= 3, "the test sees samples of different depths"


def test_only_samples_that_go_on_are_computed() -> None:
    model = network(layers=(MLPLayer(hidden=6),))
    facts = torch.randn(20, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), counting(model) as counter:
        model({"facts": facts})
    x = model.inputs({"facts": facts}).values[:, 0]
    total = sum(decision(model, one, torch.ones(1, dtype=torch.bool))[0] for one in x)
    ends = 20 * (2 * 5 * 8 + 2 * 8 * 3 + 2 * 8 * 4)  # input, head, router
    assert counter.flops == ends + total * 4 * 8 * 6
    most = RecursionNetwork(structure=model.structure).cost(inputs=(FACTS,), outputs=(ANSWER,), batch=20)
    assert counter.flops < most.executed_flops == ends + 20 * 4 * 4 * 8 * 6


def test_it_learns_when_to_stop_with_its_gate() -> None:
    """The loss falls, and the router has a gradient of the task's own."""
    model = network(balance=0.0).train().float()
    facts = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
    batch = {"facts": facts, "answer/target": (facts[:, 0] > 0).long() + (facts[:, 1] > 0)}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        assert model.router.weight.grad.abs().sum() > 0
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]


def test_balance_is_one_where_depths_are_even_and_more_after_a_collapse() -> None:
    model = network(balance=1.0, most=2).train()
    with torch.no_grad():
        model.router.weight.zero_()
        model.router.weight[0, 0], model.router.weight[1, 0] = 9.0, -9.0
    both = torch.zeros(2, 1, 8, dtype=torch.float64)
    both[0, 0, 0], both[1, 0, 0] = 1.0, -1.0
    assert float(model.update(both, None)[1]["balance"].detach()) == pytest.approx(1.0)
    assert float(model.update(both[:1], None)[1]["balance"].detach()) == pytest.approx(2.0)


def test_it_predicts_no_tokens() -> None:
    with pytest.raises(UsageError, match="whole samples"):
        build_network(RecursionNetwork(), (TEXT,), (NEXT,), 0)
