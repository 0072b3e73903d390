"""Birth is a no-op and then learns (docs/spec/architect_thyself.md#birth)."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.module_zoo.router.births import Births
from evodevo.module_zoo.router.others import build_router
from evodevo.module_zoo.spec import Gate, ZooRouterStructure
from evodevo.testing.module_routers import BATCH, IDS, WIDTH, ModuleRouterCase

OLD = len(IDS) - 1
"""The last module is the newborn."""


CASES = (
    *(ZooRouterStructure(gate=gate, synergy="bilinear") for gate in get_args(Gate)),
    ZooRouterStructure(synergy="similar", synergy_self=True),
    ZooRouterStructure(synergy="complement", gate="entmax15", top_k=2, train_top_k="gumbel", head_mix="learned"),
    ZooRouterStructure(gate="softmax", synergy="off", top_k=2, train_top_k="straight_through", head_mix="learned"),
    ZooRouterStructure(kind="mlp_gate", gate="softmax"),
    ZooRouterStructure(kind="architecture", gate="entmax15"),
    ZooRouterStructure(kind="mean"),
)
"""Each gate behind the synergy with parameters; all else, which makes the scores of gates, with one gate or another."""


@pytest.fixture(params=CASES, ids=lambda one: "-".join([one.kind, one.gate, one.synergy, one.train_top_k]))
def case(request: pytest.FixtureRequest) -> ModuleRouterCase:
    return ModuleRouterCase(request.param)


CONTRIBUTION = torch.tensor([0.3, 0.8, 0.9, 0.1, 0.5, 0.7], dtype=torch.float64)


def births(*last: float) -> Tensor:
    return torch.tensor([1.0] * (len(IDS) - len(last)) + list(last), dtype=torch.float64)


def decided(case: ModuleRouterCase, count: int = len(IDS), *, training: bool = False, **how: Any) -> Any:
    """Decision and mixture over the first modules."""
    router = case.build().train(training)
    query, outputs = case.inputs()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        decision = router.decide(query, outputs[:, :count], ids=IDS[:count], contribution=CONTRIBUTION[:count], **how)
    return decision, router.mix(decision, outputs[:, :count], query)


@pytest.mark.parametrize(("training", "dense"), [(False, False), (True, False), (False, True)])
def test_nothing_changes_at_birth(case: ModuleRouterCase, training: bool, dense: bool) -> None:
    before, mixed = decided(case, OLD, training=training, dense=dense)
    for legal in (None, torch.ones(BATCH, len(IDS), dtype=torch.bool)):
        after, now = decided(case, training=training, dense=dense, births=births(0.0), legal=legal)
        torch.testing.assert_close(after.head_weights[..., :OLD], before.head_weights, rtol=0, atol=1e-12)
        assert not after.weights[:, OLD].any()
        torch.testing.assert_close(now, mixed, rtol=0, atol=1e-12)


def test_a_mature_module_is_one_of_all(case: ModuleRouterCase) -> None:
    """Also bit for bit, noise included."""
    for training in (False, True):
        without, _ = decided(case, training=training)
        grown, _ = decided(case, training=training, births=births(1.0))
        assert torch.equal(without.weights, grown.weights)
        assert torch.equal(without.logits, grown.logits)


@pytest.mark.parametrize("factor", [1e-3, 0.2])
def test_a_newborn_learns_in_every_sample(case: ModuleRouterCase, factor: float) -> None:
    router = case.build().train()
    query, outputs = case.inputs()
    outputs.requires_grad_()
    direction = torch.randn(WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    decision = router.decide(query, outputs, births=births(factor))
    (router.mix(decision, outputs, query) @ direction).sum().backward()
    assert (outputs.grad[:, OLD].abs().amax(-1) > 1e-12).all()
    assert (decision.weights[:, OLD] > 0).all()
    if case.simplex:
        torch.testing.assert_close(decision.weights.sum(-1), torch.ones(BATCH, dtype=torch.float64))


def test_the_mixture_is_as_written() -> None:
    """Against the equation, from three separate routings."""
    for gate in ("softmax", "sparsemax", "entmax15", "relu"):
        case = ModuleRouterCase(ZooRouterStructure(gate=gate, top_k=None))
        b = 0.3
        bias = CONTRIBUTION.clone()
        bias[OLD] = torch.nan
        router, (query, outputs) = case.build(), case.inputs()
        mature = router.decide(query, outputs[:, :OLD], contribution=bias[:OLD]).head_weights
        everybody = router.decide(query, outputs, contribution=bias)
        expected = b * (b * everybody.head_weights + (1 - b) * everybody.logits.softmax(-1))
        expected[..., :OLD] += (1 - b) * mature
        got = router.decide(query, outputs, contribution=CONTRIBUTION, births=births(b))
        torch.testing.assert_close(got.head_weights, expected, rtol=0, atol=1e-12)


def test_the_younger_joins_after_the_older(case: ModuleRouterCase) -> None:
    """The second birth is a no-op, too, while the first newborn is still warming up."""
    first, mixed = decided(case, OLD, births=births(0.4)[1:])
    both, now = decided(case, births=births(0.4, 0.0))
    torch.testing.assert_close(both.head_weights[..., :OLD], first.head_weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(now, mixed, rtol=0, atol=1e-12)
    older, younger = decided(case, births=births(0.4, 0.1))[0].weights[:, OLD - 1 :].unbind(1)
    assert (older > 0).all()
    assert (younger > 0).all()


@torch.no_grad()
def test_weights_move_steadily_and_the_end_of_a_warm_up_is_no_event(case: ModuleRouterCase) -> None:
    """No jump anywhere, but where a sample's K are others."""
    router, (query, outputs) = case.build(), case.inputs()
    steps = torch.linspace(0, 0.999, 40).tolist()
    weights = [router.decide(query, outputs, births=births(b), dense=True).weights for b in steps]
    for one, other in itertools.pairwise(weights):
        assert (one - other).abs().max() < 0.06
    whole = router.decide(query, outputs, dense=True).weights
    torch.testing.assert_close(weights[-1], whole, rtol=0, atol=5e-3)
    # Top-K begins little by little to count newborns; at 1 nothing is left to change, also where others follow.
    router, (query, outputs) = case.build(), case.inputs()
    for twins in ({}, {OLD: 1}):
        for before, after in (((0.9999,), (1.0,)), ((0.9999, 0.3), (1.0, 0.3))):
            old, new = (
                router.decide(query, outputs, births=births(*one), twins=twins).weights for one in (before, after)
            )
            torch.testing.assert_close(old, new, rtol=0, atol=5e-3)


def test_twins_share(case: ModuleRouterCase) -> None:
    """A copy takes half of its parent's weight, and the answer stays the same."""
    for training in (False, True):
        router, (query, outputs) = case.build().train(training), case.inputs()
        with torch.no_grad():
            outputs[:, OLD] = outputs[:, 1]
        answers = []
        for count, how in ((OLD, {}), (len(IDS), {"births": births(0.0), "twins": {OLD: 1}})):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(3)
                decision = router.decide(query, outputs[:, :count], ids=IDS[:count], **how)
            answers.append((decision, router.mix(decision, outputs[:, :count], query)))
        (before, mixed), (after, now) = answers
        torch.testing.assert_close(now, mixed, rtol=0, atol=1e-12)
        torch.testing.assert_close(after.weights[:, OLD], before.weights[:, 1] / 2, rtol=0, atol=1e-12)
        torch.testing.assert_close(after.weights[:, 1], before.weights[:, 1] / 2, rtol=0, atol=1e-12)


def test_newborns_that_are_illegal_say_nothing(case: ModuleRouterCase) -> None:
    legal = torch.ones(BATCH, len(IDS), dtype=torch.bool)
    legal[::2, OLD] = False
    decision, _ = decided(case, legal=legal, births=births(0.5))
    assert not decision.weights[::2, OLD].any()
    assert (decision.weights[1::2, OLD] > 0).all()


@pytest.mark.parametrize("kind", ["graph_attention", "mlp_gate", "architecture", "mean"])
def test_everything_stays_on_its_device(kind: Any) -> None:
    """The meta device refuses tensors of any other, as an accelerator does; birth factors stay on the CPU."""
    case = ModuleRouterCase(ZooRouterStructure(kind=kind, gate="sparsemax", synergy="bilinear"))
    router = case.build().to("meta")
    query, outputs, contribution = (one.to("meta") for one in (*case.inputs(), CONTRIBUTION))
    legal = torch.ones(BATCH, len(IDS), dtype=torch.bool, device="meta")
    for training, allowed in ((False, None), (True, legal)):
        decision = router.train(training).decide(
            query, outputs, legal=allowed, contribution=contribution, births=births(0.3, 0.1), twins={OLD: 1}
        )
        assert decision.weights.is_meta
        assert router.mix(decision, outputs, query).is_meta


@pytest.mark.parametrize(
    ("factors", "twins"), [((1.0, 1.2), {}), ((-0.1, 1.0), {}), ((float("nan"), 1.0), {}), ((0.2, 0.2), {0: 1})]
)
def test_nonsense_is_refused(factors: tuple[float, ...], twins: dict[int, int]) -> None:
    with pytest.raises(UsageError):
        Births(factors, twins)


@pytest.mark.parametrize("kind", ["mlp_gate", "architecture", "graph_attention", "mean"])
def test_rows_come_and_go(kind: Any) -> None:
    router = build_router(WIDTH, ZooRouterStructure(kind=kind), IDS[:OLD]).double()
    before = {name: value.clone() for name, value in router.state_dict().items()}
    router.insert(IDS[OLD])
    assert len({parameter.dtype for parameter in router.parameters()}) <= 1
    query, outputs = ModuleRouterCase(ZooRouterStructure(kind=kind)).inputs()
    assert router.decide(query, outputs, ids=IDS).weights.shape == (BATCH, len(IDS))
    router.remove(IDS[OLD])
    after = router.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
