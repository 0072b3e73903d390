"""Layers that come and go: nothing is forgotten, nothing else moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.h_model.extension import SHUT, Change, disable, freeze_old, usage
from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.build import build_network
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.networks.spec import NetworkEnvelope
from evodevo.operators.layers.convolution import ConvolutionLayer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.settings import validate
from evodevo.storage.blobs import FolderPool
from evodevo.testing.networks import CLASS, IMAGE, LABELS, NEXT, TEXT, small_batch, small_model
from evodevo.training import checkpoints, optimizers
from evodevo.training.loop import Cursor, TrainingSnapshot, train
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings
from evodevo.training.surgery import Origin, carry_state, operate, state_of

NEW = TransformerLayer(heads=4, feedforward=10)
OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01, amsgrad=True),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, momentum=0.5, centered=True),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.01, initial_accumulator_value=0.1),
}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"aggregation": "attention"},
    {"inflow_gate": False},
    {"disabled": [1]},
    {"router": {"head": "linear", "pool": "max"}},
    {"router": {"head": "channel"}},
    {"router": {"head": "independent"}},
    {"router": {"head": "constant"}},
    {"router": {"gate": "softmax_in"}},
    {"router": {"gate": "softmax_out"}},
    {"router": {"gate": "sparsemax_in"}},
    {"window": 1, "normaliser": "count"},
    {"inference": {"mode": "target_topm", "m": 2}},
    {"inference": {"mode": "source_topk", "k": 2}},
    {"halting": {"rule": "output_mass", "threshold": 0.6}},
]
CARRIED: list[dict[str, Any]] = [
    {"stream": "carried", "router": {"hidden": None}, **changes}
    for changes in (
        {},
        {"carried": {"m": 2, "cap": 3, "source_bias": True, "iteration_bias": True}},
        {"carried": {"m": 3, "source_bias": True, "iteration_router": True}},
        {"carried": {"m": 2}, "disabled": [1], "self_routing": False},
        {"carried": {"m": 2}, "window": 1, "iterations": 4},
        {"halting": {"rule": "output_mass", "threshold": 0.6}},
    )
]
VARIANTS += CARRIED


def of(model: HModel, batch: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return torch.cat([one.flatten(1) for one in model(batch).values()], 1)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_a_layer_that_is_not_enabled_changes_nothing_and_goes_without_a_trace(changes: dict[str, Any]) -> None:
    model = small_model((TEXT, IMAGE), (CLASS, LABELS), **changes).double()
    batch = small_batch((TEXT, IMAGE), (CLASS, LABELS), padded=True)
    before, state = of(model, batch), {name: one.clone() for name, one in model.state_dict().items()}
    places: list[Any] = ["edge"]
    if changes.get("window"):
        with pytest.raises(UsageError, match="at the edge"):
            model.add_node(NEW, at=0)
        assert torch.equal(of(model, batch), before)
    else:
        places.append(VARIANTS.index(changes) % 3)
    for at in places:
        change = model.add_node(NEW, at=at, seed=5)
        model.core.runner.reset()
        torch.testing.assert_close(of(model, batch), before, rtol=0, atol=1e-12)
        assert model.core.runner.calls[change.place] == 0
        assert model.core.hidden_count == 4
        model.remove_node(change.place)
        torch.testing.assert_close(of(model, batch), before, rtol=0, atol=1e-12)
    after = model.state_dict()
    assert after.keys() == state.keys()
    assert all(torch.equal(after[name], one) for name, one in state.items())


@pytest.mark.parametrize("stream", [{}, {**CARRIED[0], "carried": {"m": 3}}], ids=["paper", "carried"])
def test_a_causal_model_grows_and_stays_causal(stream: dict[str, Any]) -> None:
    model = small_model((TEXT,), (NEXT,), causal=True, **stream).double()
    batch = small_batch((TEXT,), (NEXT,))
    before = of(model, batch)
    place = model.add_node(ConvolutionLayer()).place
    dumped = model.structure.model_dump(mode="json")
    assert validate(HModelStructure, dumped, what="it") == model.structure
    assert [layer["kind"] for layer in dumped["hidden"]] == [*["transformer"] * 3, "convolution"]
    torch.testing.assert_close(of(model, batch), before, rtol=0, atol=1e-12)
    model.enable(place)
    whole = model(batch)["next"]
    prefix = model({"text": batch["text"][:, :4]})["next"]
    torch.testing.assert_close(prefix, whole[:, :4])
    assert not torch.allclose(whole.flatten(1), before, atol=1e-9)


@pytest.mark.parametrize("changes", [VARIANTS[place] for place in (0, 1, 2, 3, 5)], ids=str)
def test_an_enabled_layer_begins_softly_and_learns(changes: dict[str, Any]) -> None:
    model, batch = small_model(lively=0.2, **changes), small_batch()
    before, twins = of(model, batch), [small_model(**changes) for _ in range(3)]
    for seed, twin in zip((3, 3, 4), twins, strict=True):
        torch.rand(1)
        twin.add_node(NEW, at=1, seed=seed)
    drawn = [torch.cat([one.flatten() for one in twin.core.layers[1].parameters()]) for twin in twins]
    assert [torch.equal(one, drawn[0]) for one in drawn] == [True, True, False], "a function of the seed alone"
    place = model.add_node(NEW, at=1).place
    model.enable(place)
    moved = (of(model, batch) - before).abs().max()
    assert 0 < moved < 0.05
    model.train().loss(batch).backward()  # type: ignore[no-untyped-call]
    grown = [name for name, one in model.named_parameters() if one.grad is None or not one.grad.abs().sum()]
    assert not [name for name in grown if name.startswith(f"core.layers.{place}.")]
    router = model.core.routers[0]
    if getattr(router, "outer", None) is not None:
        assert router.get_parameter("outer.weight").grad[place].any()  # type: ignore[index]


def test_routers_address_it_with_a_shut_bias_and_without_the_gate_it_says_little() -> None:
    model = small_model(lively=0.0, alpha=2.0)
    model.add_node(NEW, at=1, enabled=True)
    assert model.structure.disabled == ()
    for number, router in enumerate([*model.core.routers, *model.core.input_routers]):
        bias, weight = router.get_parameter("outer.bias"), router.get_parameter("outer.weight")
        assert bias[1].item() == pytest.approx(-SHUT * 2.0), number
        assert not weight[1].any()
    model = small_model(lively=0.0, inflow_gate=False)
    model.add_node(NEW, enabled=True)
    assert model.trace(small_batch()).connections[:, :, 3].max() < 0.02


def test_places_of_disabled_layers_follow() -> None:
    model, batch = small_model(disabled=[0, 2]), small_batch()
    before = of(model, batch)
    model.add_node(NEW, at=1)
    assert list(model.structure.disabled) == [0, 1, 3]
    torch.testing.assert_close(of(model, batch), before, rtol=0, atol=1e-6)
    model.remove_node(0)
    assert list(model.structure.disabled) == [0, 2]
    torch.testing.assert_close(of(model, batch), before, rtol=0, atol=1e-6)


def test_a_channel_follows_its_target() -> None:
    model, batch = small_model(router={"head": "channel"}).double(), small_batch()
    disable(model, 0)
    before = of(model, batch)
    model.remove_node(0)
    torch.testing.assert_close(of(model, batch), before, rtol=0, atol=1e-12)
    assert model.core.get_buffer("routers.0.channels").tolist() == [1, 2, 3]
    model.add_node(NEW, at=0)
    assert model.core.get_buffer("routers.0.channels").tolist() == [0, 1, 2, 3]
    full = small_model(hidden=[{"kind": "mlp"}] * 7, router={"head": "channel"})
    structure = full.structure
    with pytest.raises(UsageError, match="no channel left"):
        full.add_node(MLPLayer())
    assert full.structure is structure
    assert full.core.hidden_count == 7


@pytest.mark.parametrize("changes", [*(VARIANTS[place] for place in (1, 3, 5, 6, 7, 11, 14)), *CARRIED[:3]], ids=str)
def test_a_grown_model_goes_through_a_checkpoint(changes: dict[str, Any], tmp_path: Path) -> None:
    store = FolderPool(tmp_path)
    model, batch = small_model((TEXT, IMAGE), **changes), small_batch((TEXT, IMAGE))
    model.add_node(MLPLayer(width=4))
    model.add_node(NEW, enabled=True)
    model.remove_node(2)
    spec = NetworkEnvelope(network=HModelNetwork(structure=model.structure)).model_dump(mode="json")
    kept = checkpoints.load(store, checkpoints.save(store, model, genome=spec))
    envelope = validate(NetworkEnvelope, kept.manifest.genome or {}, what="the network")
    again = build_network(envelope.network, model.input_specs, model.output_specs, seed=99)
    kept.restore(again)
    assert isinstance(again, HModel)
    assert again.structure == model.structure
    assert torch.equal(of(again.eval(), batch), of(model, batch))


# What a model may not do


def test_a_layer_or_place_that_does_not_fit_leaves_the_model_as_it_was() -> None:
    model, batch = small_model(), small_batch()
    before, structure = of(model, batch), model.structure
    with pytest.raises(UsageError, match="heads"):
        model.add_node(TransformerLayer(heads=3))
    for place in (-1, 5):
        with pytest.raises(UsageError, match="places are 0 to 3, or 'edge'"):
            model.add_node(NEW, at=place)
        for act in (model.remove_node, model.enable):
            with pytest.raises(UsageError, match="places are 0 to 2"):
                act(place)
    assert model.structure is structure
    assert model.core.structure is structure
    assert torch.equal(of(model, batch), before)


def test_the_last_layer_stays() -> None:
    model = small_model(disabled=[0])
    model.remove_node(1)
    with pytest.raises(UsageError, match="the last hidden layer stays"):
        model.remove_node(1)
    model.remove_node(0)
    with pytest.raises(UsageError, match="the last hidden layer stays"):
        model.remove_node(0)
    with pytest.raises(UsageError, match="leave one"):
        disable(model, 0)
    assert model.core.hidden_count == 1


def test_the_inference_mode_shrinks_with_the_model() -> None:
    model = small_model(inference={"mode": "target_topm", "m": 3})
    model.remove_node(0)
    assert model.inference.m == model.structure.inference.m == 2
    model.inference = InferenceStructure(mode="target_topm", m=1)
    model.add_node(NEW)
    assert model.inference.m == 1


# Learning with the old part frozen


def test_only_the_new_layer_and_the_routers_learn() -> None:
    model, batch = small_model((TEXT, IMAGE), (CLASS, LABELS)), small_batch((TEXT, IMAGE), (CLASS, LABELS))
    place = model.add_node(NEW, enabled=True).place
    learning = freeze_old(model, [place], outputs=["tags"])
    before = {name: one.detach().clone() for name, one in model.named_parameters()}
    settings = TrainingSettings(budget=Budget(steps=3), device="cpu")
    train(model, settings, batch_at=lambda _: {k: v.numpy() for k, v in batch.items()}, tokens_per_step=4, seed=0)
    moved = {name for name, one in model.named_parameters() if not torch.equal(one, before[name])}
    assert moved == set(learning)
    assert all(
        name.startswith(("core.layers.3.", "core.routers.", "core.input_routers.", "outputs.layers.tags"))
        for name in moved
    )
    assert any(name.startswith("core.routers.0.") for name in moved)
    without_routers = freeze_old(model, [place], routers=False)
    assert all(name.startswith((f"core.layers.{place}.", f"core.routers.{place}.")) for name in without_routers)
    with pytest.raises(UsageError, match="no output 'nothing'; it has answer, tags"):
        freeze_old(model, [place], outputs=["nothing"])


# Usage


def test_usage_finds_who_is_not_heard() -> None:
    model = small_model(lively=0.1, disabled=[1])
    found = usage(model, [small_batch(seed=seed) for seed in range(2)])
    assert found.least() == 1
    assert found.calls.tolist() == [1.0, 0.0, 1.0]
    assert found.inflow[1] == 0
    assert (found.inflow[[0, 2]] > 0.5).all()
    trace = model.trace(small_batch(seed=0))
    alone = usage(model, [small_batch(seed=0)])
    assert alone.outflow[0] == pytest.approx(trace.connections[:, :, 0].sum(-1).mean(), rel=1e-5)
    with pytest.raises(UsageError, match="at least one sample"):
        usage(model, [])


# Optimisers


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int) -> None:
    model.train()
    for seed in range(count):
        optimizer.zero_grad()
        model.loss(small_batch(seed=seed)).backward()  # type: ignore[operator]
        optimizer.step()


def assert_in_one_group_each(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    listed = [id(one) for group in optimizer.param_groups for one in group["params"]]
    assert len(listed) == len(set(listed))
    assert set(listed) == {id(one) for one in model.parameters() if one.requires_grad}
    assert {id(one) for one in optimizer.state} <= set(listed)


def assert_survivors_keep_their_state(
    before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]], change: Change, model: nn.Module
) -> int:
    """How many rows were compared."""
    compared = 0
    shapes = {name: one.shape for name, one in model.named_parameters()}
    for name, origin in change.origins.items():
        old = before.get(origin.name)
        if old is None:
            continue
        new = after[name]
        assert set(new) == set(old)
        for key, value in old.items():
            if not isinstance(value, Tensor) or value.ndim == 0:
                assert new[key] == value
                continue
            assert new[key].shape == shapes[name]
            if origin.axes is not None:
                down, across = ([-1 if at is None else at for at in axis] for axis in origin.axes)
                padded = torch.zeros(len(value) + 1, value.shape[1] + 1)
                padded[:-1, :-1] = value
                assert torch.equal(new[key], padded[down][:, across])
                compared += len(down)
                continue
            rows = range(len(value)) if origin.rows is None else origin.rows
            for place, row in enumerate(rows):
                expected = torch.zeros_like(value[0]) if row is None else value[row]
                assert torch.equal(new[key][place], expected)
                compared += 1
    return compared


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("SGD", {}),
        ("Adam", {"aggregation": "attention"}),
        ("AdamW", {}),
        ("RMSprop", {}),
        ("Adagrad", {}),
        ("Adam", CARRIED[1]),
        ("AdamW", CARRIED[2]),
    ],
)
def test_moments_survive_growing_and_shrinking(kind: str, changes: dict[str, Any]) -> None:
    model = small_model(**changes)
    decayed, plain = optimizers.decay_groups(model)
    groups = [{"params": list(decayed.values()), "weight_decay": 0.1}, {"params": list(plain.values())}]
    optimizer = OPTIMIZERS[kind](groups)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    steps(model, optimizer, 2)
    scheduler.step()

    def change_by(act: Any) -> None:
        parameters = dict(model.named_parameters())
        # Copies: an optimiser steps in place.
        state = {
            name: {key: value.clone() if isinstance(value, Tensor) else value for key, value in one.items()}
            for name, one in state_of(parameters, optimizer).items()
        }
        change = act()
        operate(optimizer, parameters, model, change.origins)
        assert_in_one_group_each(model, optimizer)
        found = state_of(dict(model.named_parameters()), optimizer)
        assert assert_survivors_keep_their_state(state, found, change, model) > 100
        rate = optimizer.param_groups[0]["lr"]
        steps(model, optimizer, 1)
        scheduler.step()
        assert optimizer.param_groups[0]["lr"] == pytest.approx(rate / 2)

    change_by(lambda: model.add_node(NEW, at=1, enabled=True))
    new = [one for name, one in model.named_parameters() if name.startswith("core.layers.1.")]
    if "stream" not in changes:  # where few layers run, a shut one does not run yet
        assert all(one in optimizer.state for one in new)
    decays = {id(one): group["weight_decay"] for group in optimizer.param_groups for one in group["params"]}
    if kind != "AdamW":  # whose groups both decay
        assert all((decays[id(one)] > 0) == (one.ndim >= 2) for one in new)
    change_by(lambda: model.remove_node(0))


def test_a_stored_state_follows_too() -> None:
    """A checkpoint's state, by name, becomes one of the grown model, and its training goes on."""
    model = small_model()
    data = {key: value.numpy() for key, value in small_batch().items()}
    settings = TrainingSettings(budget=Budget(steps=4), optimizer=OptimizerSettings(learning_rate=0.01), device="cpu")
    result = train(model, settings, batch_at=lambda _: data, tokens_per_step=4, seed=0)
    shapes = {name: one.shape for name, one in model.named_parameters()}
    change = model.add_node(NEW, enabled=True)
    state = carry_state(result.snapshot.optimizer, shapes, change.origins)
    longer = settings.model_copy(update={"budget": Budget(steps=8)})
    cursor = Cursor.model_validate(result.snapshot.cursor.model_dump())
    again = train(
        model, longer, batch_at=lambda _: data, tokens_per_step=4, seed=0, resume=TrainingSnapshot(cursor, state)
    )
    assert again.state == "finished"
    assert again.snapshot.optimizer["core.layers.0.attention.norm.weight"]["step"] == 8
    assert again.snapshot.optimizer["core.layers.3.attention.norm.weight"]["step"] == 4


def test_frozen_parameters_stand_in_no_group() -> None:
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    steps(model, optimizer, 2)
    parameters = dict(model.named_parameters())
    change = model.add_node(NEW, enabled=True)
    freeze_old(model, [change.place])
    operate(optimizer, parameters, model, change.origins)
    assert_in_one_group_each(model, optimizer)
    with pytest.raises(UsageError, match="'ghost' of a parameter is none that the model had"):
        operate(optimizer, dict(model.named_parameters()), model, {"core.layers.0": Origin("ghost")})
