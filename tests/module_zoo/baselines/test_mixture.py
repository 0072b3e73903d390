"""Mixtures of experts against a plain loop over tokens and experts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.module_zoo.baselines.mixture import Mixture, MixtureTrunk
from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.encoders.model import EncodedModality

STYLES = ("switch", "st_moe", "soft_moe", "dyn_moe")


def mixture(style: str, **more: Any) -> Mixture:
    torch.manual_seed(0)
    values = {"style": style, "width": 8, "heads": 2, "hidden": 12, "experts": 3, "slots": 2, "dropout": 0.0, **more}
    built = Mixture(BaselineStructure.model_validate(values)).double().eval()
    if built.thresholds is not None:
        with torch.no_grad():
            built.thresholds.uniform_(-0.4, 0.4)
    return built


def expert(layer: Mixture, number: int, x: Tensor) -> Tensor:
    experts = layer.experts
    hidden = F.gelu(experts.inner[number] @ x + experts.inner_bias[number])
    return experts.outer[number] @ hidden + experts.outer_bias[number]


def by_loop(layer: Mixture, x: Tensor, real: Tensor) -> Tensor:
    """Token by token, sample by sample."""
    style, y = layer.structure.style, torch.zeros_like(x)
    for sample in range(len(x)):
        places = real[sample].nonzero().flatten().tolist()
        if style == "soft_moe" and places:
            y[sample, places] = _soft(layer, x[sample, places])
            continue
        for place in places:
            token = x[sample, place]
            if style == "dyn_moe":
                assert layer.thresholds is not None
                scores = torch.stack([F.cosine_similarity(token, gate, 0) for gate in layer.gates])
                open_ones = (scores > layer.thresholds).nonzero().flatten().tolist() or [int(scores.argmax())]
                y[sample, place] = torch.stack([expert(layer, one, token) for one in open_ones]).mean(0)
                continue
            shares = (layer.gates @ token).softmax(0)
            best = shares.argsort(descending=True)[: 1 if style == "switch" else 2].tolist()
            whole = sum(shares[one] for one in best) if style == "st_moe" else 1.0
            for one in best:
                y[sample, place] += shares[one] / whole * expert(layer, one, token)
    return y


def _soft(layer: Mixture, x: Tensor) -> Tensor:
    assert layer.scale is not None
    logits = F.normalize(x, dim=-1) @ (layer.scale * F.normalize(layer.gates, dim=-1)).T
    slots = logits.softmax(0).T @ x
    said = torch.stack([expert(layer, number // layer.structure.slots, one) for number, one in enumerate(slots)])
    return logits.softmax(1) @ said


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("style", STYLES)
def test_a_mixture_is_the_loop(style: str, padded: bool) -> None:
    layer = mixture(style)
    x = torch.randn(4, 7, 8, dtype=torch.float64)
    real = torch.arange(7) < torch.tensor([7, 3, 1, 0])[:, None] if padded else torch.ones(4, 7, dtype=torch.bool)
    with torch.no_grad():
        y, terms = layer(x, real if padded else None)
        torch.testing.assert_close(y, by_loop(layer, x, real), atol=1e-12, rtol=1e-9)
    assert all(term.isfinite() for term in terms.values())


@pytest.mark.parametrize("style", STYLES)
def test_nobody_to_route_is_no_error(style: str) -> None:
    layer = mixture(style).train()
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    y, terms = layer(x, torch.zeros(2, 5, dtype=torch.bool))
    assert not y.any()
    total = y.sum() + sum(terms.values())
    assert total.isfinite()
    total.backward()


@pytest.mark.parametrize("style", ["switch", "st_moe"])
def test_padding_takes_no_room(style: str) -> None:
    """With capacity for an even share, real tokens are treated alike, however much padding stands beside them."""
    layer = mixture(style, capacity=1.0).train()
    x = torch.randn(3, 6, 8, dtype=torch.float64)
    wide = torch.cat([x, torch.randn(3, 9, 8, dtype=torch.float64)], 1)
    mask = torch.arange(15).expand(3, -1) < 6
    with torch.no_grad():
        torch.testing.assert_close(layer(wide, mask)[0][:, :6], layer(x, None)[0])


def test_who_finds_no_room_passes_by() -> None:
    """Capacity for one token of an expert that all want: the first is seen, the others are left as they are."""
    layer = mixture("switch", experts=4, capacity=1.0).train()
    with torch.no_grad():
        layer.gates.zero_()[2] = 5.0
        x = torch.rand(1, 4, 8, dtype=torch.float64) + 0.5
        y, terms = layer(x, None)
        assert y[0, 0].any()
        assert not y[0, 1:].any()
        assert float(terms["balance"]) == pytest.approx(0.01 * 4, rel=1e-3)
        assert layer.eval()(x, None)[0].any(-1).all()


@pytest.mark.parametrize("style", STYLES)
def test_an_expert_that_nobody_wants_does_not_run(style: str) -> None:
    """But for soft slots, where all experts run always."""
    layer = mixture(style, experts=4)
    with torch.no_grad():
        layer.gates.zero_()[0], layer.gates[1] = 5.0, 4.0
        layer.experts.inner[2:] = float("nan")
        if layer.thresholds is not None:
            layer.thresholds[:] = torch.tensor([0.5, 0.5, 5.0, 5.0])
        y, _ = layer(torch.rand(1, 4, 8, dtype=torch.float64) + 0.5, None)
    assert bool(y.isnan().any()) == (style == "soft_moe")


def test_losses_of_all_blocks_add_up() -> None:
    structure = BaselineStructure(style="switch", width=8, heads=2, hidden=12, experts=3, layers=3, dropout=0.0)
    trunk = MixtureTrunk(structure, 2).train()
    sense = EncodedModality(torch.randn(2, 5, 8), None, torch.zeros(2, 8))
    seen: list[float] = []
    for block in trunk.blocks:
        block.register_forward_hook(lambda _, __, output: seen.append(float(output[1]["balance"].detach())))
    thought = trunk([sense, sense])
    assert len(seen) == 3
    assert float(thought.terms["balance"].detach()) == pytest.approx(sum(seen))
    assert thought.tokens.shape == (2, 10, 8)
