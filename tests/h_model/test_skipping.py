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
from evodevo.testing.networks import CLASS, LABELS, NEXT, small_batch, small_model

LAYER = {"kind": "transformer", "heads": 2, "feedforward": 12}
MODES: dict[str, dict[str, Any]] = {
    "source_topk": {"mode": "source_topk", "k": 1},
    "source_topk with outputs": {"mode": "source_topk", "k": 2, "outputs_count": True},
    "target_topm": {"mode": "target_topm", "m": 2},
    "threshold": {"mode": "threshold", "threshold": 0.55},
    "budget": {"mode": "budget", "flops": 9.0},
}
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


KINDS = {"hidden": [LAYER, {"kind": "mlp"}, {"kind": "lstm"}, {"kind": "convolution"}, LAYER, {"kind": "mlp"}]}
CAUSAL = {"causal": True, "count": 6}


@pytest.mark.parametrize(
    ("mode", "changes"),
    [
        *((mode, {"aggregation": "attention"}) for mode in MODES),
        *((mode, KINDS) for mode in MODES),
        ("source_topk", {"router": {"gate": "softmax_out"}}),
        ("target_topm", {"router": {"gate": "softmax_in"}, "aggregation": "attention"}),
        ("threshold", {"router": {"gate": "softmax_out"}, "inference": {"threshold": 0.3}}),
        ("threshold", {"router": {"gate": "sparsemax_in"}, "inference": {"threshold": 0.75}}),
        ("source_topk with outputs", {"router": {"gate": "gumbel"}}),
        ("budget", {"router": {"gate": "sparsemax_in"}}),
        ("source_topk", {"normaliser": "count"}),
        ("target_topm", {"normaliser": "softmax"}),
        ("budget", {"normaliser": "count"}),
        ("threshold", {"normaliser": "softmax"}),
        ("source_topk", CAUSAL),
        ("target_topm", {**CAUSAL, "inference": {"m": 1}}),
        ("threshold", {**CAUSAL, "inference": {"threshold": 0.8}}),
        ("target_topm", {"window": 1}),
        ("target_topm", {"self_routing": False}),
    ],
    ids=str,
)
def test_skipping_is_lossless(mode: str, changes: dict[str, Any]) -> None:
    given = dict(changes)
    chosen = {**MODES[mode], **given.pop("inference", {})}
    causal = bool(given.get("causal"))
    assert_lossless(model_of(chosen, **given), batch_of(causal=causal, padded=not causal, count=3, length=5))


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


def test_training_skips_nothing() -> None:
    model, batch = model_of({"mode": "target_topm", "m": 1}), batch_of()
    model.train()
    assert not model.core.hard
    model.loss(batch)
    assert min(model.core.runner.rows) > 0
