"""The laws of every router over the modules of a zoo, as tests to inherit.

    class TestMine(ModuleRouterTests):
        @pytest.fixture
        def case(self) -> ModuleRouterCase:
            return ModuleRouterCase(ZooRouterStructure(gate="softmax"))

Legend: B samples, N modules, d width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from evodevo.module_zoo.router import losses as module_losses
from evodevo.module_zoo.router.base import ModuleRouter, RouterOutput
from evodevo.module_zoo.router.gates import SIMPLEX
from evodevo.module_zoo.router.others import build_router
from evodevo.module_zoo.spec import ZooRouterStructure
from evodevo.networks.routing.losses import z_loss
from evodevo.networks.routing.skipping import evened

IDS = ("transformer-1", "mlp-1", "lstm-1", "cnn-1", "cnn-2", "hybrid-7")
WIDTH, BATCH = 16, 5
TOLERANCE = 1e-9
GARBAGE = 1e3
HIDDEN = (1, 4)
"""Places of the modules that are illegal in some tests."""


@dataclass(frozen=True)
class ModuleRouterCase:
    """One router under test.

    Attributes:
        structure: structure of the router.
        name: name of the case, for reports.
    """

    structure: ZooRouterStructure
    name: str = ""

    @property
    def simplex(self) -> bool:
        """Whether the weights of each sample must sum to 1."""
        return self.structure.kind == "mean" or self.structure.gate in SIMPLEX

    def build(self, seed: int = 0, ids: Sequence[str] = IDS) -> ModuleRouter:
        """In float64 and evaluation mode, with every parameter moved from its start."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            router = build_router(WIDTH, self.structure, ids).double().eval()
        source = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            for parameter in router.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=source, dtype=parameter.dtype))
        return router

    def inputs(self, batch: int = BATCH, seed: int = 2) -> tuple[Tensor, Tensor]:
        """f (B, d) and u (B, N, d)."""
        source = torch.Generator().manual_seed(seed)
        query = torch.randn(batch, WIDTH, generator=source, dtype=torch.float64)
        return query, torch.randn(batch, len(IDS), WIDTH, generator=source, dtype=torch.float64)


class ModuleRouterTests:
    """Inherit, and give the fixture ``case``."""

    @pytest.fixture
    def case(self) -> ModuleRouterCase:
        """The router under test; a subclass overrides it, with ``params`` for a table of them."""
        raise NotImplementedError

    # Weights

    @pytest.mark.parametrize("training", [False, True])
    def test_weights_are_a_simplex(self, case: ModuleRouterCase, training: bool) -> None:
        router = case.build().train(training)
        query, outputs = case.inputs()
        for legal in (None, _legal(), _legal().expand(BATCH, -1)):
            decision = router.decide(query, outputs, legal=legal, contribution=_contribution())
            _check(decision, case)
            if legal is not None:
                assert (decision.weights[:, list(HIDDEN)] == 0).all()
                assert torch.equal(decision.legal, legal.expand(BATCH, -1))

    def test_bfloat16_is_decided_in_float32(self, case: ModuleRouterCase) -> None:
        router = case.build().bfloat16()
        query, outputs = (tensor.bfloat16() for tensor in case.inputs())
        decision = router.decide(query, outputs)
        assert decision.weights.dtype == torch.float32
        _check(decision, case)
        assert router.mix(decision, outputs, query).dtype == torch.bfloat16
        with torch.autocast("cpu", torch.bfloat16):
            wide = case.build().float()
            mixed = wide.decide(query.float(), outputs.float())
            _check(mixed, case)
            assert wide.mix(mixed, outputs.float(), query.float()).isfinite().all()

    def test_at_most_k_count(self, case: ModuleRouterCase) -> None:
        router, (query, outputs) = case.build(), case.inputs()
        limit = case.structure.top_k
        if limit is not None and case.structure.kind != "mean":
            assert (router.decide(query, outputs).chosen.sum(-1) <= limit).all()
        free = router.decide(query, outputs, dense=True)
        assert (free.chosen.sum(-1) >= router.decide(query, outputs).chosen.sum(-1)).all()

    def test_nobody_legal_is_silence(self, case: ModuleRouterCase) -> None:
        router, (query, outputs) = case.build(), case.inputs()
        outputs.requires_grad_()
        legal = torch.ones(BATCH, len(IDS), dtype=torch.bool)
        legal[2] = False
        decision = router.decide(query, outputs, legal=legal)
        mixed = router.mix(decision, outputs, query)
        assert (decision.weights[2] == 0).all()
        assert bool(decision.unrouted[2])
        expected = query[2] if case.structure.residual else torch.zeros_like(query[2])
        torch.testing.assert_close(mixed[2], expected)
        terms = _losses(decision, outputs)
        assert terms.isfinite()
        (mixed.square().sum() + terms).backward()  # type: ignore[no-untyped-call]
        _finite(outputs.grad, *(p.grad for p in router.parameters()))

    # Who has an influence

    def test_the_order_of_modules_does_not_matter(self, case: ModuleRouterCase) -> None:
        router, (query, outputs) = case.build(), case.inputs()
        order = [3, 0, 5, 1, 4, 2]
        ids = [IDS[place] for place in order]
        for dense in (True, False):
            straight = router.decide(query, outputs, ids=IDS, contribution=_contribution(), dense=dense)
            permuted = router.decide(
                query, outputs[:, order], ids=ids, contribution=_contribution()[order], dense=dense
            )
            # Of equal weights the first modules are kept: there order decides, and nowhere else.
            free = router.decide(query, outputs, contribution=_contribution(), dense=True)
            rows = _untied(free) | (dense or case.structure.kind == "mean")
            assert rows.any()
            _close(permuted.weights[rows], straight.weights[rows][:, order])
            _close(permuted.head_weights[rows], straight.head_weights[rows][..., order])
            mixed = router.mix(permuted, outputs[:, order], query), router.mix(straight, outputs, query)
            _close(mixed[0][rows], mixed[1][rows])

    def test_samples_do_not_see_each_other(self, case: ModuleRouterCase) -> None:
        router, (query, outputs) = case.build(), case.inputs()
        together = router.decide(query, outputs, contribution=_contribution())
        mixed = router.mix(together, outputs, query)
        for sample in range(BATCH):
            rows = slice(sample, sample + 1)
            alone = router.decide(query[rows], outputs[rows], contribution=_contribution())
            _close(alone.weights, together.weights[rows])
            _close(router.mix(alone, outputs[rows], query[rows]), mixed[rows])

    def test_illegal_modules_are_as_if_they_were_not_there(self, case: ModuleRouterCase) -> None:
        router, (query, outputs) = case.build(), case.inputs()
        there = [place for place in range(len(IDS)) if place not in HIDDEN]
        without = router.decide(query, outputs[:, there], ids=[IDS[place] for place in there])
        spoilt = outputs.clone()
        spoilt[:, list(HIDDEN)] = GARBAGE
        masked = router.decide(query, spoilt, ids=IDS, legal=_legal())
        _close(masked.weights[:, there], without.weights)
        _close(router.mix(masked, spoilt, query), router.mix(without, outputs[:, there], query))

    def test_outputs_without_weight_have_no_influence(self, case: ModuleRouterCase) -> None:
        router, (query, outputs) = case.build(), case.inputs()
        decision = router.decide(query, outputs)
        spoilt = outputs.masked_fill(~decision.chosen.unsqueeze(-1), GARBAGE)
        _close(router.mix(decision, spoilt, query), router.mix(decision, outputs, query))

    def test_a_part_of_the_zoo_is_a_zoo(self, case: ModuleRouterCase) -> None:
        router, (query, outputs) = case.build(), case.inputs()
        for count in range(1, len(IDS) + 1):
            decision = router.decide(query, outputs[:, :count], ids=IDS[:count])
            assert decision.weights.shape == (BATCH, count)
            _check(decision, case)

    def test_everything_stays_on_its_device(self, case: ModuleRouterCase) -> None:
        """The meta device refuses tensors of any other, as an accelerator does."""
        router = case.build().to("meta")
        query, outputs, contribution, legal = (one.to("meta") for one in (*case.inputs(), _contribution(), _legal()))
        for training, allowed in ((False, legal), (True, None)):
            decision = router.train(training).decide(query, outputs, legal=allowed, contribution=contribution)
            for one in (decision.weights, decision.legal, router.mix(decision, outputs, query)):
                assert one.is_meta
            assert _losses(decision, outputs).is_meta

    # Learning

    @pytest.mark.parametrize("count", [1, len(IDS)])
    def test_gradients_are_finite(self, case: ModuleRouterCase, count: int) -> None:
        router = case.build(ids=IDS[:count]).train()
        query, outputs = case.inputs()
        query, outputs = query.requires_grad_(), outputs[:, :count].clone().requires_grad_()
        decision = router.decide(query, outputs, contribution=_contribution()[:count])
        mixed = router.mix(decision, outputs, query)
        (mixed.square().sum() + _losses(decision, outputs)).backward()  # type: ignore[no-untyped-call]
        _finite(outputs.grad, *(p.grad for p in router.parameters()))
        if count > 1:
            for name, parameter in router.named_parameters():
                assert parameter.grad is not None, name
                assert bool(parameter.grad.any()), name

    def test_equal_streams_give_equal_answers(self, case: ModuleRouterCase) -> None:
        query, outputs = case.inputs()
        answers = []
        for _ in range(2):
            router = case.build().train()
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(5)
                answers.append(router.mix(router.decide(query, outputs), outputs, query))
        assert torch.equal(*answers)

    def test_weights_come_back_from_their_state(self, case: ModuleRouterCase) -> None:
        router, other, (query, outputs) = case.build(), case.build(seed=9), case.inputs()
        other.load_state_dict(router.state_dict())
        assert torch.equal(other.decide(query, outputs).weights, router.decide(query, outputs).weights)


def _legal() -> Tensor:
    legal = torch.ones(len(IDS), dtype=torch.bool)
    legal[list(HIDDEN)] = False
    return legal


def _contribution() -> Tensor:
    return torch.tensor([0.3, float("nan"), 0.9, 0.1, 0.5, float("nan")], dtype=torch.float64)


def _untied(decision: RouterOutput) -> Tensor:
    """(B,), true where no two modules count equally much."""
    weights = evened(decision.weights).sort(-1).values
    return (weights.diff(dim=-1) > 0).logical_or(weights[:, 1:] == 0).all(-1)


def _losses(decision: RouterOutput, outputs: Tensor) -> Tensor:
    """Everything that may be added to a task's loss."""
    logits, legal = decision.logits, decision.legal
    parameters = torch.arange(1, outputs.shape[1] + 1) * 100
    return (
        module_losses.load(logits, legal)
        - module_losses.entropy(logits, legal)
        + module_losses.budget(decision.weights, 2)
        + module_losses.orthogonality(outputs, per_sample=True)
        + module_losses.orthogonality(outputs, per_sample=False)
        + module_losses.complexity(decision.weights, parameters)
        + z_loss(logits, legal.unsqueeze(1))
    )


def _check(decision: RouterOutput, case: ModuleRouterCase) -> None:
    weights = decision.weights
    assert bool((weights >= 0).all())
    assert bool((weights[~decision.legal] == 0).all())
    torch.testing.assert_close(decision.head_weights.mean(1), weights)
    if case.simplex:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[:, 0]), atol=1e-5, rtol=0)
    else:
        assert bool((weights.sum(-1) <= 1 + 1e-5).all())


def _finite(*gradients: Tensor | None) -> None:
    for gradient in gradients:
        assert gradient is None or bool(gradient.isfinite().all())


def _close(got: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(got, wanted, atol=TOLERANCE, rtol=0)
