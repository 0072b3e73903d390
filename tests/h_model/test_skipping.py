"""Layers that nobody addresses are not called, and nothing is lost by it (docs/spec/h_model.md#skipping)."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evodevo.h_model.core import HCore
from evodevo.h_model.model import HModel
from evodevo.h_model.runners import grouped as grouped_runner
from evodevo.h_model.runners import loop as h_runner
from evodevo.h_model.runners.choice import RunnerName
from evodevo.h_model.runners.loop import LoopRunner, PassCache, States
from evodevo.networks.routing.skipping import harden, straight_through
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.settings import validate
from evodevo.testing.networks import CLASS, LABELS, NEXT, small_batch, small_model

LAYER = {"kind": "transformer", "heads": 2, "feedforward": 12}
MODES: dict[str, dict[str, Any]] = {
    "source_topk": {"mode": "source_topk", "k": 1},
    "source_topk with outputs": {"mode": "source_topk", "k": 2, "outputs_count": True},
    "target_topm": {"mode": "target_topm", "m": 2},
    "threshold": {"mode": "threshold", "threshold": 0.55},
    "budget": {"mode": "budget", "flops": 9.0},
}
GATES = ("sigmoid", "softmax_out", "softmax_in", "sparsemax_in", "gumbel")
RUNNERS: tuple[RunnerName, ...] = ("loop", "grouped")


class Everybody(LoopRunner):
    """The dense computation: every layer on every sample, whoever addresses it."""

    def run(
        self,
        layers: Any,
        x: Tensor,
        masks: Tensor | None,
        active: Tensor | None,
        states: States | None,
        cache: PassCache | None = None,
    ) -> Tensor:
        return super().run(layers, x, masks, None, states)


def model_of(mode: dict[str, Any], *, count: int = 4, causal: bool = False, **changes: Any) -> HModel:
    outputs = (NEXT,) if causal else (CLASS, LABELS)
    changes.setdefault("hidden", [LAYER] * count)
    return small_model(outputs=outputs, lively=1.5, causal=causal, inference=mode, **changes)


def batch_of(*, causal: bool = False, **options: Any) -> dict[str, Tensor]:
    return small_batch(outputs=(NEXT,) if causal else (CLASS, LABELS), **options)


def answers(model: HModel, batch: dict[str, Tensor]) -> list[Tensor]:
    with torch.no_grad():
        return list(model(batch).values())


def assert_lossless(model: HModel, batch: dict[str, Tensor], *, runners: tuple[RunnerName, ...] = RUNNERS) -> None:
    """In both precisions, and something was skipped."""
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        model.to(dtype)
        model.core.runner = Everybody()
        dense = answers(model, batch)
        everything = model.core.runner.rows
        for name in runners:
            model.runner = name
            for found, expected in zip(answers(model, batch), dense, strict=True):
                torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
            assert sum(model.core.runner.rows) < sum(everything)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("aggregation", ["sum", "attention"])
def test_skipping_is_lossless(mode: str, gate: str, aggregation: str) -> None:
    chosen = dict(MODES[mode])
    if mode == "threshold" and gate.startswith(("soft", "sparse")):
        chosen["threshold"] = 0.6 if gate.endswith("in") else 0.3
    model = model_of(chosen, router={"gate": gate}, aggregation=aggregation)
    assert_lossless(model, batch_of(padded=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("normaliser", ["count", "softmax", "sinkhorn", "rms"])
def test_skipping_is_lossless_under_every_normaliser(mode: str, normaliser: str) -> None:
    assert_lossless(model_of(MODES[mode], normaliser=normaliser), batch_of())


@pytest.mark.parametrize("mode", ["source_topk", "target_topm", "threshold"])
def test_skipping_is_lossless_in_causal_models(mode: str) -> None:
    chosen = {**MODES[mode], "m": 1, "threshold": 0.8}
    assert_lossless(model_of(chosen, causal=True, count=6), batch_of(causal=True, count=3, length=3))


@pytest.mark.parametrize("mode", MODES)
def test_skipping_is_lossless_with_layers_of_many_kinds(mode: str) -> None:
    hidden = [LAYER, {"kind": "mlp"}, {"kind": "lstm"}, {"kind": "convolution"}, LAYER, {"kind": "mlp"}]
    assert_lossless(model_of(MODES[mode], hidden=hidden), batch_of(padded=True))


@pytest.mark.parametrize("window", [{"window": 1}, {"window": 1, "ring": True}, {"self_routing": False}])
def test_skipping_is_lossless_in_a_window(window: dict[str, Any]) -> None:
    assert_lossless(model_of(MODES["target_topm"], **window), batch_of())


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 1000),
    m=st.integers(1, 3),
    count=st.integers(1, 5),
    iterations=st.integers(1, 4),
    name=st.sampled_from(RUNNERS),
)
def test_what_is_called_is_what_is_addressed(seed: int, m: int, count: int, iterations: int, name: RunnerName) -> None:
    model = model_of({"mode": "target_topm", "m": m}, seed=seed, iterations=iterations)
    model.runner = name
    trace = model.trace(batch_of(count=count, seed=seed))
    called = trace.called
    assert (called == (trace.inflow[:, :-1, : model.core.hidden_count] > 0)).all()
    assert (called.sum(-1) <= m).all()
    assert model.core.runner.rows == called.sum((0, 1)).tolist()
    assert model.core.runner.calls == called.any(0).sum(0).tolist()


def test_counters_tell_what_the_layers_see() -> None:
    """Counted at the layers themselves, by hooks; hooked layers are never grouped."""
    model, batch = model_of(MODES["target_topm"]), batch_of(count=5)
    seen = [0] * 4
    for place, layer in enumerate(model.core.layers):

        def count(_: Any, given_: tuple[Tensor, ...], place: int = place) -> None:
            seen[place] += len(given_[0])

        layer.register_forward_pre_hook(count)
    for name in RUNNERS:
        model.runner = name
        answers(model, batch)
        assert seen == model.core.runner.rows
        assert sum(seen) == 5 * 3 * 2
        seen[:] = [0] * 4


@pytest.mark.parametrize("name", RUNNERS)
def test_layers_that_are_never_chosen_are_never_called(name: RunnerName) -> None:
    model, batch = model_of({"mode": "target_topm", "m": 2}), batch_of(count=6)
    with torch.no_grad():
        for router in itertools.chain(model.core.routers, model.core.input_routers):
            router.get_parameter("outer.weight").zero_()
            router.get_parameter("outer.bias").copy_(torch.tensor([-9.0, 3, -9, 3, 0, 0]))
    model.runner = name
    for place in (0, 2):
        cast(Any, model.core.layers[place]).forward = None
    answers(model, batch)
    assert model.core.runner.calls == [0, 3, 0, 3]
    assert model.core.runner.rows == [0, 18, 0, 18]


@pytest.mark.parametrize("gate", [True, False])
def test_without_the_inflow_gate_a_skipped_layer_would_have_spoken(gate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As printed, a layer that nobody addresses says L(0), and its own connections carry that on."""
    model, batch = model_of(MODES["target_topm"], inflow_gate=gate), batch_of()
    model.double()
    skipped = answers(model, batch)
    monkeypatch.setattr(HCore, "may_be_silent", property(lambda core: False))
    spoken = answers(model, batch)
    assert model.core.runner.rows[0] > 0
    difference = max(float((one - other).abs().max()) for one, other in zip(skipped, spoken, strict=True))
    assert difference < 1e-10 if gate else difference > 1e-3


def test_the_device_is_asked_once_per_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = model_of(MODES["target_topm"], iterations=4), batch_of()
    model.runner = "loop"
    asked, allowed = 0, False
    original, tolist = h_runner.rows_of, torch.Tensor.tolist

    def counted(active: Tensor) -> list[Any]:
        nonlocal asked, allowed
        asked, allowed = asked + 1, True  # the rest of it works on what it has fetched
        found = original(active)
        allowed = False
        return found

    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("waits for the device")

    def listed(tensor: Tensor) -> Any:
        return tolist(tensor) if allowed else forbidden()

    messages = model.inputs(batch)
    with torch.no_grad():
        flow = model.core.begin(messages.values, messages.masks, 4)
        for module in (h_runner, grouped_runner):
            monkeypatch.setattr(module, "rows_of", counted)
        monkeypatch.setattr(torch.Tensor, "tolist", listed)
        for method in ("item", "__bool__", "__float__", "__int__", "numpy"):
            monkeypatch.setattr(torch.Tensor, method, forbidden)
        for _ in range(4):
            flow = model.core.iterate(flow)
        monkeypatch.undo()
    assert asked == 4


def test_training_skips_nothing_unless_it_sharpens() -> None:
    model, batch = model_of({"mode": "target_topm", "m": 1}), batch_of()
    model.train()
    assert not model.core.hard
    model.loss(batch)
    assert min(model.core.runner.rows) > 0


def test_sharpening_tells_routers_of_layers_that_were_not_chosen() -> None:
    """An unaddressed layer says nothing, so that its own router learns nothing; those that could address it do."""
    model, batch = model_of({"mode": "target_topm", "m": 1}), batch_of(count=1)
    model.core.sharpening = True
    model.train()
    model.loss(batch).backward()  # type: ignore[no-untyped-call]
    gradient = model.core.input_routers[0].get_parameter("outer.bias").grad
    assert gradient is not None
    assert (gradient[:4] != 0).sum() > 1


def test_sharpening_computes_forward_what_inference_will() -> None:
    model, batch = model_of(MODES["target_topm"]), batch_of()
    expected = answers(model, batch)
    model.core.sharpening = True
    model.train()
    for found, wanted in zip(answers(model, batch), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


# The choice of connections itself


def chosen(weights: Tensor, hidden: int, costs: list[float] | None = None, steps: int = 1, **mode: Any) -> Tensor:
    inference = validate(InferenceStructure, mode, what="inference")
    return harden(weights, hidden, inference, costs or [1.0] * hidden, steps)


def weights_of(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.01


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), hidden=st.integers(1, 5), outputs=st.integers(1, 2), k=st.integers(1, 4))
def test_top_k_by_source_keeps_the_strongest(seed: int, hidden: int, outputs: int, k: int) -> None:
    weights = weights_of(2, 3, 4, hidden + outputs, seed=seed)
    free = chosen(weights, hidden, mode="source_topk", k=k)
    counted = chosen(weights, hidden, mode="source_topk", k=k, outputs_count=True)
    assert torch.equal(free[..., hidden:], weights[..., hidden:]), "outputs are served in any case"
    for row, kept, all_kept in zip(
        weights.flatten(0, 2).tolist(), free.flatten(0, 2).tolist(), counted.flatten(0, 2).tolist(), strict=True
    ):
        best = sorted(row[:hidden], reverse=True)[:k]
        assert [value if value in best else 0.0 for value in row[:hidden]] == kept[:hidden]
        best = sorted(row, reverse=True)[:k]
        assert [value if value in best else 0.0 for value in row] == all_kept


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), hidden=st.integers(1, 5), m=st.integers(1, 5))
def test_top_m_by_target_keeps_those_with_most_inflow(seed: int, hidden: int, m: int) -> None:
    weights = weights_of(2, 1, 4, hidden + 1, seed=seed)
    kept = chosen(weights, hidden, mode="target_topm", m=m)
    for before, after in zip(weights[:, 0], kept[:, 0], strict=True):
        inflow = before[:, :hidden].sum(0)
        best = set(inflow.argsort(descending=True)[:m].tolist())
        for target in range(hidden):
            expected = before[:, target] if target in best else torch.zeros(4, dtype=torch.float64)
            assert torch.equal(after[:, target], expected)
        assert torch.equal(after[:, hidden:], before[:, hidden:])


def test_of_equals_the_first_are_kept() -> None:
    kept = chosen(torch.full((1, 1, 2, 5), 0.5), 4, mode="target_topm", m=2)
    assert (kept[0, 0, 0] > 0).tolist() == [True, True, False, False, True]


def test_a_threshold_spares_the_outputs() -> None:
    weights = torch.tensor([0.2, 0.4, 0.6, 0.1]).view(1, 1, 1, 4)
    assert chosen(weights, 3, mode="threshold", threshold=0.4)[0, 0, 0].tolist() == pytest.approx([0, 0.4, 0.6, 0.1])


@pytest.mark.parametrize(
    ("budget", "steps", "kept"), [(0, 1, ""), (2.9, 1, ""), (3, 1, "b"), (4, 1, "ab"), (8, 2, "ab"), (9, 1, "abc")]
)
def test_a_budget_is_spent_on_the_largest_inflow_first(budget: float, steps: int, kept: str) -> None:
    weights = torch.tensor([0.5, 0.9, 0.1, 0.3]).view(1, 1, 1, 4)
    found = chosen(weights, 3, [1.0, 3.0, 5.0], steps, mode="budget", flops=budget)[0, 0, 0]
    assert "".join(letter for letter, weight in zip("abc", found[:3].tolist(), strict=True) if weight > 0) == kept
    assert found[3] == weights[..., 3]


def test_hard_forward_soft_backward() -> None:
    soft = weights_of(1, 1, 2, 3).requires_grad_()
    hard = chosen(soft, 2, mode="target_topm", m=1)
    mixed = straight_through(soft, hard)
    assert torch.equal(mixed, hard)
    (gradient,) = torch.autograd.grad(mixed.sum(), [soft])
    assert torch.equal(gradient, torch.ones_like(soft))


def test_dense_and_outputs_alone_are_left_as_they_are() -> None:
    weights = weights_of(2, 1, 3, 2)
    assert chosen(weights, 1, mode="dense") is weights
    assert chosen(weights, 0, mode="target_topm", m=1) is weights
