"""Stacks of mixtures and mixtures in a loop, against plain loops over passes, samples, tokens and experts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.networks.build import build_network
from evodevo.networks.mixtures.mixture import MixtureNetwork
from evodevo.networks.mixtures.mixture_model import MixtureStack, MixtureStep
from evodevo.networks.mixtures.spec import MixtureStructure
from evodevo.operators.liv import NORM_EPSILON
from evodevo.operators.transformer import TransformerBlock
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import TEXT

FACTS = InputSpec("facts", "vector", size=5)
ANSWER = OutputSpec("answer", "class", 3)


def network(**changes: Any) -> MixtureStack:
    structure = MixtureStructure.model_validate({"width": 8, "hidden": 6, "experts": 3, **changes})
    built = build_network(MixtureNetwork(structure=structure), (FACTS,), (ANSWER,), seed=0)
    assert isinstance(built, MixtureStack)
    return built.double().eval()


def expert(step: MixtureStep, number: int, x: Tensor) -> Tensor:
    experts = step.mixture.experts
    return (
        experts.outer[number] @ F.gelu(experts.inner[number] @ x + experts.inner_bias[number])
        + experts.outer_bias[number]
    )


def normed(step: MixtureStep, x: Tensor) -> Tensor:
    return x / (x.square().mean() + NORM_EPSILON).sqrt() * step.norm.weight


def top(step: MixtureStep, x: Tensor, count: int) -> Tensor:
    """One token: the update by its best experts."""
    seen = normed(step, x)
    shares = torch.stack([gate @ seen for gate in step.mixture.gates]).softmax(0)
    best = shares.argsort(descending=True)[:count].tolist()
    whole = sum(shares[one] for one in best) if count > 1 else 1.0
    return sum((shares[one] / whole * expert(step, one, seen) for one in best), torch.zeros_like(x))


def soft(step: MixtureStep, tokens: Tensor, slots: int) -> Tensor:
    """All tokens of one sample: the updates by all experts."""
    seen = torch.stack([normed(step, token) for token in tokens])
    logits = torch.stack(
        [
            torch.stack([step.mixture.scale * F.cosine_similarity(token, gate, 0) for gate in step.mixture.gates])
            for token in seen
        ]
    )
    into, back = logits.softmax(0), logits.softmax(1)
    made = [expert(step, number // slots, into[:, number] @ seen) for number in range(logits.shape[1])]
    return torch.stack([sum(row[n] * made[n] for n in range(len(made))) for row in back])


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("style", ["switch", "st_moe", "soft_moe"])
def test_a_stack_and_a_loop_are_the_loop_over_tokens(style: str, tied: bool) -> None:
    model = network(style=style, tied=tied, depth=3, iteration_embedding=True, slots=2)
    assert len(model.layers) == (1 if tied else 3)
    x = torch.randn(3, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = x.clone()
    with torch.no_grad():
        for t in range(3):
            step = model.layers[0 if tied else t]
            assert isinstance(step, MixtureStep)
            for sample in range(3):
                tokens = expected[sample] + model.embedding.vector(t)
                if style == "soft_moe":
                    expected[sample] = tokens + soft(step, tokens, 2)
                else:
                    count = 1 if style == "switch" else 2
                    expected[sample] = torch.stack([token + top(step, token, count) for token in tokens])
        y, extra = model.update(x, None)
    assert not extra
    torch.testing.assert_close(y, expected, atol=1e-10, rtol=1e-10)


def test_a_router_of_each_pass_is_read_in_it_alone() -> None:
    """A loop with routers of its own is the stack whose experts are equal, and costs what it states."""
    loop = network(tied=True, pass_routers=True, depth=3)
    stack = network(depth=3)
    (one,) = loop.layers
    with torch.no_grad():
        for t, step in enumerate(stack.layers):
            state = {**one.state_dict(), "mixture.gates": one.mixture.gates[3 * t : 3 * t + 3]}
            assert len(one.mixture.gates) == 9
            step.load_state_dict(state)
        x = torch.randn(4, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        expected = stack.update(x, None)[0]
        torch.testing.assert_close(loop.update(x, None)[0], expected, atol=0, rtol=0)
        one.mixture.gates[3:6] = one.mixture.gates[0:3].flip(0)
        assert not torch.equal(loop.update(x, None)[0], expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_attention_before_a_mixture_of_equal_experts_makes_it_a_transformer_layer(tied: bool, causal: bool) -> None:
    model = network(style="st_moe", heads=2, depth=2, tied=tied, causal=causal)
    x = torch.randn(3, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mask = torch.arange(5) < torch.tensor([5, 3, 1])[:, None]
    expected = x
    with torch.no_grad():
        for t in range(2):
            step = model.layers[0 if tied else t]
            assert isinstance(step, MixtureStep)
            assert step.attention is not None
            experts = step.mixture.experts
            for parameter in (experts.inner, experts.inner_bias, experts.outer, experts.outer_bias):
                parameter[1:] = parameter[:1]
            layer = TransformerBlock(8, 2, 6, causal=causal).double()
            layer.attention.load_state_dict(step.attention.state_dict())
            given = (experts.inner, experts.inner_bias, experts.outer, experts.outer_bias, step.norm.weight)
            for parameter, value in zip(
                (*layer.feedforward.operator.parameters(), layer.feedforward.norm.weight), given, strict=True
            ):
                parameter.copy_(value if value is step.norm.weight else value[0])
            expected = layer(expected, mask=mask).y
        y = model.update(x, mask)[0]
    torch.testing.assert_close(y[mask], expected[mask], atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("changes", [{}, {"tied": True, "style": "soft_moe"}, {"tied": True, "style": "dyn_moe"}])
def test_routers_of_passes_are_of_a_loop_with_a_fixed_number_of_experts(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="pass_routers are of one mixture in a loop"):
        MixtureStructure(pass_routers=True, **changes)


def two_ways(*, tied: bool) -> MixtureStack:
    """Two experts that do nothing; the first pass sends all tokens to one of them, the second to the other."""
    model = network(experts=2, depth=2, tied=tied, iteration_embedding=True, balance=1.0).train()
    with torch.no_grad():
        for step in model.layers:
            step.mixture.experts.outer.zero_()
            step.mixture.experts.outer_bias.zero_()
            step.mixture.gates[0], step.mixture.gates[1] = 20.0, -20.0
        model.embedding.learned[0], model.embedding.learned[1] = 5.0, -10.0
    return model


def test_a_loop_may_have_an_expert_for_each_pass() -> None:
    """Its load is pooled over passes: even. Of a stack each mixture is unbalanced, and the losses add up."""
    x = torch.zeros(6, 1, 8, dtype=torch.float64)
    loop, stack = two_ways(tied=True), two_ways(tied=False)
    assert set(loop.update(x, None)[1]) == {"balance"}, "a loss without a weight is none"
    assert float(loop.update(x, None)[1]["balance"].detach()) == pytest.approx(1.0)
    assert float(stack.update(x, None)[1]["balance"].detach()) == pytest.approx(4.0)


def test_every_expert_of_a_loop_learns_and_its_loss_falls() -> None:
    model = network(tied=True, depth=2, experts=4, z=1e-3).train().float()
    facts = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
    batch = {"facts": facts, "answer/target": (facts[:, 0] > 0).long() + (facts[:, 1] > 0)}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        optimizer.step()
        losses.append(float(model.terms["task"]))
    assert losses[-1] < 0.3 * losses[0]
    assert set(model.terms) == {"task", "balance", "z"}


def test_what_a_mixture_cannot_be() -> None:
    with pytest.raises(ValidationError, match="slots of soft_moe"):
        MixtureStructure(style="soft_moe", causal=True)
    with pytest.raises(ValidationError, match="3 attention heads do not divide the width 8"):
        MixtureStructure(width=8, heads=3)
    with pytest.raises(ValidationError, match="canvas segments"):
        MixtureStructure(causal=True, canvas="latents")
    with pytest.raises(UsageError, match="set causal = true"):
        build_network(MixtureNetwork(), (TEXT,), (OutputSpec("next", "tokens", 5, of="text"),), 0)
