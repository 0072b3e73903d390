"""The graph attention router against the printed equations, written as loops over samples, heads and modules.

Numbers in brackets are equations of the paper; see docs/spec/architect_thyself.md#router.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evodevo.module_zoo.router.base import RouterOutput
from evodevo.module_zoo.router.graph_attention import LONGEST, GraphAttentionRouter, standardised
from evodevo.module_zoo.spec import ZooRouterStructure

WIDTH, BATCH = 12, 3
Vector = np.ndarray


def built(seed: int = 0, **settings_: Any) -> GraphAttentionRouter:
    """In float64 and evaluation mode, with every parameter moved from its start."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        router = GraphAttentionRouter(WIDTH, ZooRouterStructure(**settings_)).double().eval()
        with torch.no_grad():
            for parameter in router.parameters():
                parameter.add_(0.4 * torch.randn_like(parameter))
    return router


def drawn(seed: int, count: int, batch: int = BATCH) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(seed)
    query = torch.randn(batch, WIDTH, generator=source, dtype=torch.float64)
    return query, 2 * torch.randn(batch, count, WIDTH, generator=source, dtype=torch.float64) + 0.5


# The reference


def softmax(values: Vector) -> Vector:
    exponents = np.exp(values - values.max())
    return exponents / exponents.sum()


def projected(point: Vector) -> Vector:
    """Sparsemax by trying every size of support."""
    for size in range(len(point), 0, -1):
        largest = np.sort(point)[::-1][:size]
        shift = (largest.sum() - 1) / size
        if largest[-1] > shift:
            return np.maximum(point - shift, 0)
    raise AssertionError


class Printed:
    """One sample at a time, as the equations are printed, with each switch of the structure where it belongs."""

    def __init__(self, router: GraphAttentionRouter) -> None:
        self.s = router.structure
        self.weights = {name: p.detach().numpy() for name, p in router.named_parameters()}
        self.size = WIDTH // self.s.heads

    def norm(self, u: Vector) -> Vector:
        if not self.s.norm:
            return u
        centred = u - u.mean()
        return centred / math.sqrt((centred**2).mean() + 1e-5) * self.weights["norm.weight"] + self.weights["norm.bias"]

    def part(self, name: str, x: Vector, head: int) -> Vector:
        """W^(h) x of query and key (53)."""
        whole = x if self.s.identity else self.weights[f"{name}.weight"] @ x
        return whole[head * self.size : (head + 1) * self.size]

    def synergy(self, keys: list[Vector], head: int, m: int, legal: list[bool]) -> float:
        """(55), (56)."""
        others = [j for j in range(len(keys)) if legal[j] and (self.s.synergy_self or j != m)]
        if not others:
            return 0.0
        asked = keys[m] if self.s.synergy != "bilinear" else keys[m] @ self.weights["form"][head]
        agreement = np.array([asked @ keys[j] for j in others]) / math.sqrt(self.size)
        q_int = {"identity": lambda x: x, "relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}
        total = float(softmax(agreement) @ q_int[self.s.synergy_activation](agreement))
        return -total if self.s.synergy == "complement" else total

    def logits(self, f: Vector, u: list[Vector], legal: list[bool], bias: list[float]) -> Vector:
        """(54), (57), (10), joined in the logits of each head."""
        rows = np.zeros((self.s.heads, len(u)))
        for head, m in np.ndindex(rows.shape):
            keys = [self.part("key", self.norm(one), head) for one in u]
            rows[head, m] = self.part("query", f, head) @ keys[m] / math.sqrt(self.size)
            if self.s.temperature == "learned":
                rows[head, m] /= math.exp(float(self.weights["log_temperature"]))
            if self.s.synergy != "off":
                gamma = math.log1p(math.exp(float(self.weights["raw_gamma"][head])))
                rows[head, m] += gamma * self.synergy(keys, head, m, legal)
            rows[head, m] += self.s.contribution * bias[m]
        if self.s.head_mix == "learned":  # (59), one number per head
            rows[:] = self.weights["head_mix"] @ rows
        return rows

    def alphas(self, rows: Vector, legal: list[bool]) -> Vector:
        """(58)."""
        answers = np.zeros_like(rows)
        for row, answer in zip(rows, answers, strict=True):
            answer[legal] = (projected if self.s.gate == "sparsemax" else softmax)(row[legal])
        return answers

    def mix(self, f: Vector, u: list[Vector], alphas: Vector) -> Vector:
        """(60), or heads side by side."""
        heads, total = self.s.heads, []
        for head in range(heads):
            z: Vector = np.zeros(WIDTH if self.s.values == "paper" else self.size)
            for m, one in enumerate(u):
                if self.s.values == "paper":
                    alpha, value = alphas[:, m].mean(), self.norm(one)
                    if not self.s.identity:
                        value = self.weights["values.value.weight"][head * WIDTH : (head + 1) * WIDTH] @ value
                else:
                    alpha, value = alphas[head, m], self.part("values.value", self.norm(one), head)
                z = z + alpha * value
            total.append(z)
        answer = np.mean(total, 0)
        if self.s.values != "paper":
            answer = self.weights["values.output.weight"] @ np.concatenate(total)
        return answer + f if self.s.residual else answer


SWITCHES = st.fixed_dictionaries(
    {
        "heads": st.sampled_from([1, 2, 3, 4]),
        "gate": st.sampled_from(["softmax", "sparsemax"]),
        "synergy": st.sampled_from(["off", "similar", "complement", "bilinear"]),
        "synergy_self": st.booleans(),
        "synergy_activation": st.sampled_from(["identity", "relu", "tanh"]),
        "contribution": st.sampled_from([0.0, 0.1, 2.0]),
        "temperature": st.sampled_from(["learned", "one"]),
        "head_mix": st.sampled_from(["average", "learned"]),
        "values": st.sampled_from(["concat", "paper"]),
        "residual": st.booleans(),
        "norm": st.booleans(),
        "identity": st.booleans(),
        "top_k": st.sampled_from([None, 1, 2, 3]),
    }
)


@settings(max_examples=30, deadline=None)
@given(switches=SWITCHES, count=st.integers(1, 6), seed=st.integers(0, 1000), hidden=st.booleans())
def test_every_switch_does_what_is_printed(switches: dict[str, Any], count: int, seed: int, hidden: bool) -> None:
    router, (query, outputs) = built(seed, **switches), drawn(seed, count)
    known = [math.nan, 0.9, 0.2, 0.5, math.nan, 0.1][:count]
    legal = [not (hidden and place == 1) for place in range(count)]
    decision = router.decide(query, outputs, legal=torch.tensor(legal), contribution=torch.tensor(known))
    mixed = router.mix(decision, outputs, query)

    real = [one for one in known if not math.isnan(one)]
    mean, spread = (float(np.mean(real)), float(np.std(real))) if real else (0.0, 0.0)
    bias = [0.0 if math.isnan(one) else (one - mean) / (spread + 1e-6) for one in known]
    printed = Printed(router)
    for sample in range(BATCH):
        f, u = query[sample].numpy(), [one.numpy() for one in outputs[sample]]
        rows = printed.logits(f, u, legal, bias)
        there = decision.logits[sample].detach().numpy()
        np.testing.assert_allclose(there[:, legal], rows[:, legal], atol=1e-5)
        alphas = printed.alphas(rows, legal)
        if router.structure.top_k is not None:  # (61)
            alpha = np.mean(alphas, 0)
            order = sorted(range(count), key=lambda m: (-round(float(alpha[m]) * 2**18), m))
            kept = np.isin(range(count), order[: router.structure.top_k])
            alphas = alphas * kept / alpha[kept].sum()
        np.testing.assert_allclose(decision.head_weights[sample].detach().numpy(), alphas, atol=1e-5)
        np.testing.assert_allclose(decision.weights[sample].detach().numpy(), np.mean(alphas, 0), atol=1e-5)
        np.testing.assert_allclose(mixed[sample].detach().numpy(), printed.mix(f, u, alphas), atol=1e-5)


# What the equations mean


def keyed(outputs: list[list[float]], **switches: Any) -> RouterOutput:
    """Weights where keys are the outputs themselves and the query says nothing."""
    size = len(outputs[0])
    structure = ZooRouterStructure(heads=1, gate="softmax", identity=True, norm=False, top_k=None, **switches)
    router = GraphAttentionRouter(size, structure).eval()
    with torch.no_grad():
        return router.decide(torch.zeros(1, size), torch.tensor([outputs]))


def test_synergy_as_printed_favours_copies_and_complement_the_one_that_differs() -> None:
    """Two identical modules and a different one."""
    zoo = [[2.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    printed, negative = (keyed(zoo, synergy=one).weights[0].tolist() for one in ("similar", "complement"))
    assert printed[0] == pytest.approx(printed[1])
    assert printed[0] > printed[2]
    assert negative[2] > negative[0]
    assert keyed(zoo, synergy="off").weights[0].tolist() == pytest.approx([1 / 3] * 3)
    for seed in range(5):  # whatever the maps are
        torch.manual_seed(seed)
        same, other = torch.randn(2, BATCH, WIDTH)
        structure = ZooRouterStructure(synergy="complement", gate="softmax", top_k=None)
        decision = (
            GraphAttentionRouter(WIDTH, structure)
            .eval()
            .decide(torch.zeros(BATCH, WIDTH), torch.stack([same, same, other], 1))
        )
        weights = decision.weights.mean(0)
        assert weights[2] > weights[0]
    # With the self term a long key raises itself, with nobody else there to agree.
    long_and_alone = [[3.0, 0.0], [0.0, 0.1], [0.0, 0.1]]
    with_self = keyed(long_and_alone, synergy="similar", synergy_self=True).weights[0]
    without = keyed(long_and_alone, synergy="similar").weights[0]
    assert with_self[0] > with_self[1]
    assert without[0] < without[1] + 1e-6


def test_a_module_that_is_alone_counts_wholly_and_heads_that_want_another_are_silent() -> None:
    for synergy in ("similar", "complement", "bilinear", "off"):
        router, (query, outputs) = built(1, synergy=synergy), drawn(1, 1)
        decision = router.decide(query, outputs)
        assert (decision.weights == 1).all()
        alone = router.decide(query, drawn(1, 3)[1], legal=torch.tensor([True, False, False]))
        assert alone.logits.isfinite().all()
        assert (alone.weights == torch.tensor([1.0, 0.0, 0.0])).all()
    structure = ZooRouterStructure(heads=2, identity=True, norm=False, synergy="off", temperature="one", top_k=1)
    router = GraphAttentionRouter(4, structure).eval()
    query = torch.tensor([[9.0, 0.0, 9.0, 0.0]])
    outputs = torch.tensor([[[9.0, 0.0, -9.0, 0.0], [-9.0, 0.0, 9.0, 0.0]]])  # each head wants another module
    decision = router.decide(query, outputs)
    assert decision.weights[0].tolist() == [1.0, 0.0]
    assert decision.head_weights[0].tolist() == [[2.0, 0.0], [0.0, 0.0]]
    assert router.mix(decision, outputs, query).isfinite().all()


def test_synergy_starts_at_a_tenth_and_temperature_at_one_and_finds_back_from_anywhere() -> None:
    start = GraphAttentionRouter(WIDTH, ZooRouterStructure())
    torch.testing.assert_close(start.gamma, torch.full((4,), 0.1))
    assert start.temperature.item() == 1
    assert GraphAttentionRouter(WIDTH, ZooRouterStructure(temperature="one")).temperature.item() == 1
    router, (query, outputs) = built(2, synergy="off"), drawn(2, 4)
    for far in (-1e6, -6.0, 6.0, 1e6):
        router.log_temperature.data.fill_(far)
        assert router.temperature.item() == pytest.approx(math.exp(math.copysign(LONGEST, far)))
        logits = router.decide(query, outputs).logits
        assert logits.isfinite().all()
        (gradient,) = torch.autograd.grad(logits.square().sum(), router.log_temperature)
        assert gradient < 0, "it falls as the temperature rises"


def test_a_bilinear_form_starts_as_similarity_and_keys_of_one_row_are_those_of_every_sample() -> None:
    query, outputs = drawn(3, 5)
    answers = []
    for synergy in ("similar", "bilinear"):
        torch.manual_seed(0)
        router = GraphAttentionRouter(WIDTH, ZooRouterStructure(synergy=synergy)).double().eval()
        answers.append(router.decide(query, outputs).logits)
    torch.testing.assert_close(*answers)
    router, (query, outputs) = built(8), drawn(8, 5)
    shared = outputs[:1]
    one, many = router.decide(query, shared), router.decide(query, shared.expand(BATCH, -1, -1))
    torch.testing.assert_close(one.logits, many.logits)
    torch.testing.assert_close(one.weights, many.weights)
    assert one.legal.shape == (BATCH, 5)


# Contributions (10)


def test_contributions_are_standardised_and_raise_who_helped() -> None:
    given_ = torch.tensor([1.0, math.nan, 3.0], requires_grad=True)
    bias = standardised(given_)
    torch.testing.assert_close(bias, torch.tensor([-1.0, 0.0, 1.0]), atol=1e-5, rtol=0)
    assert not bias.requires_grad
    for quiet in ([math.nan] * 3, [0.7] * 3, [math.nan, 5.0, math.nan], [math.inf, 1.0, 1.0]):
        assert standardised(torch.tensor(quiet)).abs().max() < 1e-3
    query, outputs = drawn(4, 3)
    told = torch.tensor([0.0, 0.5, 1.0])
    with_, without = built(4, contribution=1.0), built(4, contribution=0.0)
    difference = with_.decide(query, outputs, contribution=told).logits - with_.decide(query, outputs).logits
    torch.testing.assert_close(difference[0, 0].float(), standardised(told))
    quiet = without.decide(query, outputs, contribution=told).logits
    assert torch.equal(quiet, without.decide(query, outputs).logits)


# Top-K (61)


def test_ties_go_to_the_first_modules_also_where_rounding_would_choose() -> None:
    decision = keyed([[1.0, 0.0]] * 4, synergy="off")
    router = GraphAttentionRouter(2, ZooRouterStructure(heads=1, gate="softmax", synergy="off", top_k=2)).eval()
    kept = router.decide(torch.zeros(1, 2), torch.ones(1, 4, 2))
    assert decision.weights[0].tolist() == pytest.approx([0.25] * 4)
    assert kept.weights[0].tolist() == pytest.approx([0.5, 0.5, 0.0, 0.0])
    assert router.decide(torch.zeros(1, 2), torch.ones(1, 4, 2), dense=True).weights[0].tolist() == [0.25] * 4
    # What differs in the ninth digit alone counts as equal, as another device would round it otherwise.
    router, (query, outputs) = built(1, gate="softmax", synergy="off", top_k=1), drawn(1, 1, batch=16)
    noise = 1e-9 * torch.randn(16, 1, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    both = torch.cat([outputs, outputs + noise], 1)
    weights = router.decide(query, both, dense=True).weights
    assert (weights[:, 1] > weights[:, 0]).any()
    assert router.decide(query, both).chosen.tolist() == [[True, False]] * 16


def test_while_training_everybody_is_heard_unless_told_otherwise() -> None:
    query, outputs = drawn(5, 6)
    for mode, most in (("off", 6), ("straight_through", 2), ("gumbel", 2)):
        router = built(5, gate="softmax", top_k=2, train_top_k=mode).train()
        assert (router.decide(query, outputs).chosen.sum(-1) == most).all()
        assert (router.eval().decide(query, outputs).chosen.sum(-1) == 2).all()


def test_straight_through_has_the_gradient_of_the_soft_choice() -> None:
    query, outputs = drawn(6, 6)
    gradients = []
    for mode, dense in (("straight_through", False), ("off", False)):
        router = built(6, gate="softmax", top_k=2, train_top_k=mode).train()
        asked = query.clone().requires_grad_()
        weights = router.decide(asked, outputs, dense=dense).weights
        (weights * torch.arange(6.0)).sum().backward()
        gradients.append(asked.grad)
    torch.testing.assert_close(gradients[0], gradients[1])


def test_noise_lets_others_in_now_and_then_and_never_who_has_no_weight() -> None:
    torch.manual_seed(0)
    router = built(7, gate="sparsemax", top_k=1, train_top_k="gumbel").train()
    query, outputs = drawn(7, 6, batch=1)
    soft = router.decide(query, outputs, dense=True).weights[0]
    assert 1 < (soft > 0).sum() < 6
    picks = router.decide(query.expand(300, -1), outputs.expand(300, -1, -1)).weights
    torch.testing.assert_close((picks > 0).double().sum(-1), torch.ones(300, dtype=torch.float64))
    torch.testing.assert_close(picks.mean(0), soft, atol=0.1, rtol=0)
