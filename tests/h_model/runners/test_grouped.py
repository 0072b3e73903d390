"""Layers that run as one batched call say what each says by itself, and learn the same."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from evodevo.errors import UsageError
from evodevo.h_model.model import HModel
from evodevo.h_model.router import Router
from evodevo.h_model.router_group import RouterGroup
from evodevo.h_model.runners import choice as runner_choice
from evodevo.h_model.runners.choice import always, build_runner, by_shape
from evodevo.h_model.runners.grouped import GroupedRunner, partition
from evodevo.h_model.runners.loop import LoopRunner
from evodevo.operators.grouped import signature
from evodevo.testing.networks import CLASS, NEXT, TEXT, enliven, small_batch, small_model
from evodevo.training import optimizers
from evodevo.training.settings import OptimizerSettings

TRANSFORMER = {"kind": "transformer", "heads": 2, "feedforward": 12}
EQUAL: dict[str, list[dict[str, Any]]] = {
    "transformer": [TRANSFORMER] * 4,
    "mlp": [{"kind": "mlp", "hidden": 10}] * 4,
    "convolution": [{"kind": "convolution", "kernel": 5}] * 4,
    "adapted": [{**TRANSFORMER, "width": 6}] * 4,
}
MLP, LSTM = {"kind": "mlp"}, {"kind": "lstm"}
MIXED: list[dict[str, Any]] = [TRANSFORMER, MLP, LSTM, TRANSFORMER, MLP, LSTM, TRANSFORMER]
KINDS = {**EQUAL, "mixed": MIXED}


@pytest.fixture(autouse=True)
def _nothing_probed() -> Iterator[None]:
    runner_choice._PROBED.clear()
    yield
    runner_choice._PROBED.clear()


def model_of(hidden: list[dict[str, Any]], *, causal: bool = False, **changes: Any) -> HModel:
    return small_model(outputs=(NEXT,) if causal else (CLASS,), hidden=hidden, causal=causal, **changes)


def batch_of(*, causal: bool = False, **options: Any) -> dict[str, Tensor]:
    return small_batch(outputs=(NEXT,) if causal else (CLASS,), **options)


def learned(model: HModel, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients in training mode; the same random draws each time."""
    model.train()
    model.zero_grad(set_to_none=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        loss = model.loss(batch)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach(), {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


@pytest.mark.parametrize(
    ("kind", "causal", "padded"),
    [*((kind, False, True) for kind in KINDS), *((kind, True, False) for kind in KINDS), ("transformer", True, True)],
)
def test_groups_say_and_learn_what_the_loop_does(kind: str, causal: bool, padded: bool) -> None:
    model, batch = model_of(KINDS[kind], causal=causal), batch_of(causal=causal, padded=padded)
    model.runner = "loop"
    with torch.no_grad():
        expected = model(batch)
    loss, gradients = learned(model, batch)
    model.runner = "grouped"
    with torch.no_grad():
        found = model.eval()(batch)
    grouped_loss, grouped_gradients = learned(model, batch)

    for name, logits in expected.items():
        torch.testing.assert_close(found[name], logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grouped_loss, loss, rtol=1e-5, atol=1e-5)
    assert set(grouped_gradients) == set(gradients)
    assert any(name.startswith("core.layers.0.") and gradient.abs().sum() > 0 for name, gradient in gradients.items())
    for name, gradient in gradients.items():
        torch.testing.assert_close(grouped_gradients[name], gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", EQUAL)
def test_every_equal_layer_is_in_the_group_and_counted(kind: str) -> None:
    model, batch = model_of(EQUAL[kind]), batch_of()
    kinds = [signature(layer) for layer in model.core.layers]
    assert partition(kinds) == ([(0, 1, 2, 3)], ())
    model.runner = "grouped"
    for layer in model.core.layers:
        # Were a layer called by itself, this would be seen.
        cast(Any, layer).forward = None
    with torch.no_grad():
        model(batch)
    assert model.core.runner.calls == [3] * 4
    assert model.core.runner.rows == [12] * 4


def test_who_stays_in_the_loop() -> None:
    """Recurrent layers, layers that are alone of their size, and layers that others have changed."""
    kinds = [signature(layer) for layer in model_of([*MIXED, {"kind": "convolution"}]).core.layers]
    assert partition(kinds) == ([(0, 3, 6), (1, 4)], (2, 5, 7))
    unlike: list[dict[str, Any]] = [
        TRANSFORMER,
        {**TRANSFORMER, "heads": 4},
        {**TRANSFORMER, "feedforward": 13},
        {"kind": "convolution", "kernel": 3},
        {"kind": "convolution", "kernel": 5},
        {"kind": "mlp"},
    ]
    assert len({signature(layer) for layer in model_of(unlike).core.layers}) == len(unlike)
    noisy = [model_of([{**TRANSFORMER, "dropout": 0.5}]).train(mode).core.layers[0] for mode in (False, True)]
    assert signature(noisy[0]) != signature(noisy[1])
    layers = model_of([TRANSFORMER] * 4).core.layers
    layers[0].register_forward_hook(lambda *_: None)
    parametrizations.weight_norm(cast(nn.Linear, layers[1].get_submodule("feedforward.operator.inner")))
    layers[2].get_submodule("attention.norm").register_forward_pre_hook(lambda *_: None)
    assert [signature(layer) is None for layer in layers] == [True, True, True, False]


def test_dropout_in_a_group_is_dropout() -> None:
    hidden = [{"kind": "mlp", "hidden": 16, "dropout": 0.5}] * 4
    model, batch = model_of(hidden, lively=0.0), batch_of(count=8)
    model.runner = "grouped"
    with torch.no_grad():
        certain = model(batch)["answer"]
        assert torch.equal(model(batch)["answer"], certain)
        torch.manual_seed(0)
        first = model.train()(batch)["answer"]
        assert not torch.equal(model(batch)["answer"], first)
        torch.manual_seed(0)
        assert torch.equal(model(batch)["answer"], first)


@pytest.mark.slow
def test_what_is_kept_for_inference_follows_the_parameters() -> None:
    """Steps of every optimiser, loading, writing, other parameters, other layers, another type: never an old answer."""
    model, batch = model_of(EQUAL["transformer"]), batch_of()

    def same() -> None:
        model.eval()
        with torch.no_grad():
            model.runner = "loop"
            expected = model(batch)["answer"]
            model.core.runner = kept
            torch.testing.assert_close(model(batch)["answer"], expected, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(model(batch)["answer"], expected, rtol=1e-5, atol=1e-5)

    kept = GroupedRunner(always)
    same()
    first = kept._kept
    same()
    assert kept._kept is first is not None
    for optimizer in (  # fused, over lists, one by one
        optimizers.build(model, OptimizerSettings(learning_rate=0.1)),
        torch.optim.AdamW(model.parameters(), lr=0.1, foreach=True),
        torch.optim.SGD(model.parameters(), lr=0.1, foreach=False),
    ):
        same()
        learned(model, batch)
        with torch.no_grad():
            # So that only the step itself can tell.
            kept.prepare(model.core.layers, torch.zeros(1, 4, 2, 8))
        optimizer.step()
        same()
    other = model_of(EQUAL["transformer"], seed=5)

    def write() -> None:
        with torch.no_grad():
            model.core.layers[1].get_parameter("feedforward.operator.inner.weight")[0] += 3

    def exchange() -> None:
        model.core.layers[0], model.core.layers[3] = other.core.layers[3], other.core.layers[0]

    for change in (
        lambda: model.load_state_dict(other.state_dict()),
        lambda: model.load_state_dict(model_of(EQUAL["transformer"], seed=6).state_dict(), assign=True),
        write,
        lambda: setattr(model.core.layers[2].get_submodule("feedforward.operator"), "inner", nn.Linear(8, 12)),
        exchange,
        lambda: model.core.layers[1].register_forward_hook(lambda layer, given, output: output),
        model.double,
    ):
        change()
        same()
    assert model(batch)["answer"].dtype == torch.float64


def test_inference_keeps_nothing_that_gradients_need() -> None:
    model, batch = model_of(EQUAL["transformer"]), batch_of()
    model.runner = "grouped"
    with torch.inference_mode():
        expected = model(batch)["answer"]
    with torch.no_grad():
        torch.testing.assert_close(model(batch)["answer"], expected)
    model(batch)["answer"].sum().backward()
    assert model.core.layers[0].get_parameter("attention.operator.out.weight").grad is not None


def test_gradients_add_up_over_passes_and_through_checkpoints() -> None:
    for changes in ({}, {"checkpointing": True}, {"regularisation": {"backprop_last": 2}}):
        model, batch = model_of(EQUAL["transformer"], **cast(Any, changes)), batch_of()
        model.runner = "loop"
        _, expected = learned(model, batch)
        model.runner = "grouped"
        model.train().zero_grad(set_to_none=True)
        for _ in range(2):
            model.loss(batch).backward()  # type: ignore[no-untyped-call]
        for name, gradient in expected.items():
            found = model.get_parameter(name).grad
            torch.testing.assert_close(found, 2 * gradient, rtol=1e-4, atol=1e-5)


def test_a_copy_of_a_model_has_its_own_groups() -> None:
    model, batch = model_of(EQUAL["transformer"]), batch_of()
    model.runner = "grouped"
    with torch.no_grad():
        before = model(batch)["answer"]
        twin = copy.deepcopy(model)
        enliven(twin.core, 1.0)
        for parameter in twin.core.layers.parameters():
            parameter.mul_(2)
        assert not torch.allclose(twin(batch)["answer"], before)
        assert torch.equal(model(batch)["answer"], before)


@pytest.mark.parametrize(
    ("head", "pool", "padded"),
    [
        *(("feedforward", pool, True) for pool in ("attention", "mean", "max", "last", "token", "prefix_mean")),
        *((head, "mean", False) for head in ("feedforward", "linear", "channel", "independent")),
        ("linear", "token", False),
        ("channel", "attention", True),
        ("channel", "prefix_mean", False),
        ("independent", "max", True),
    ],
)
def test_equal_routers_decide_together_what_each_decides_alone(head: Any, pool: Any, padded: bool) -> None:
    model = small_model(hidden=[TRANSFORMER] * 4, router={"head": head, "pool": pool, "hidden": 6})
    routers = cast("list[Router]", list(model.core.routers))
    said = torch.randn(3, 4, 6, 8, dtype=torch.float64, requires_grad=True)
    masks = torch.rand(3, 4, 6) < 0.6 if padded else None
    if masks is not None:
        masks[0, 0] = False
    model.double()
    together = RouterGroup.of(routers)
    assert together is not None
    alone = [router(said[:, place], None if masks is None else masks[:, place]) for place, router in enumerate(routers)]
    expected = torch.stack(alone, 2)
    found = together(said, masks)
    torch.testing.assert_close(found, expected)
    push = torch.randn_like(expected)
    wanted = [said, *model.core.routers.parameters()]
    for one, other in zip(
        torch.autograd.grad((found * push).sum(), wanted, allow_unused=True),
        torch.autograd.grad((expected * push).sum(), wanted, allow_unused=True),
        strict=True,
    ):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


def test_unequal_constant_and_hooked_routers_decide_alone() -> None:
    def group(model: HModel) -> RouterGroup | None:
        return RouterGroup.of(cast("list[Router]", list(model.core.routers)))

    assert group(small_model(hidden=[TRANSFORMER, {**TRANSFORMER, "router": "linear"}])) is None
    assert group(small_model(hidden=[TRANSFORMER] * 2, router={"head": "constant"})) is None
    model = small_model(hidden=[TRANSFORMER] * 2)
    assert group(model) is not None
    model.core.routers[1].register_forward_hook(lambda *_: None)
    assert group(model) is None


def test_the_choice_by_shape_is_a_function_of_the_shape() -> None:
    runner, layers = GroupedRunner(by_shape), nn.ModuleList()
    assert by_shape(runner, layers, torch.empty(1, 8, 8, 64))
    assert not by_shape(runner, layers, torch.empty(16, 8, 64, 64))
    assert by_shape(runner, layers, torch.empty(16, 8, 64, 64, device="meta"))


def test_a_probe_takes_the_faster_one_and_asks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = model_of(EQUAL["transformer"]), batch_of()
    clock = iter(range(10_000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    model.runner = "probe"
    with torch.no_grad():
        model(batch)
        (answer,) = runner_choice._PROBED.values()
        assert answer is False, "a tie goes to the loop"
        assert isinstance(model.core.runner, GroupedRunner)
        asked = next(clock)
        model(batch)
        assert next(clock) == asked + 1, "the second pass asks nobody"
    learned(model, batch)
    assert len(runner_choice._PROBED) == 2, "learning is another question"

    def slow(self: LoopRunner, *arguments: Any) -> Tensor:
        next(clock), next(clock)
        return original(self, *arguments)

    original = LoopRunner.run
    monkeypatch.setattr(LoopRunner, "run", slow)
    runner_choice._PROBED.clear()
    with torch.no_grad():
        model.eval()(batch)
    assert list(runner_choice._PROBED.values()) == [True]


def test_a_probe_leaves_gradients_counts_and_random_numbers_alone() -> None:
    model = model_of([{"kind": "mlp", "hidden": 16, "dropout": 0.5}] * 4)
    runner = build_runner("probe")
    assert isinstance(runner, GroupedRunner)
    model.train()
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    heard = torch.randn(2, 4, 3, 8, generator=torch.Generator().manual_seed(0))
    runner.prepare(model.core.layers, heard)
    assert torch.equal(torch.rand(1), expected)
    assert runner.calls == []
    assert all(parameter.grad is None for parameter in model.parameters())


def test_an_unknown_runner_is_refused() -> None:
    model = small_model((TEXT,))
    with pytest.raises(UsageError, match="runner 'groups'"):
        model.runner = cast(Any, "groups")
    assert model.runner == "auto"
