"""H-Models over inputs and outputs: samples are alone, padding is nothing, settings hold."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.h_model.model import HModel
from evodevo.h_model.spec import PRESETS, HModelStructure, preset
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.settings import validate
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import (
    CLASS,
    IMAGE,
    LABELS,
    NEXT,
    TEXT,
    rows,
    small_batch,
    small_model,
    small_structure,
)

SECOND = InputSpec("caption", "tokens", length=9, vocabulary=7)
INPUTS = (TEXT, IMAGE, SECOND)
OUTPUTS = (CLASS, LABELS)
CHOICES: dict[str, list[Any]] = {
    "pool": ["attention", "mean", "max", "last", "token", "prefix_mean"],
    "gate": ["sigmoid", "softmax_out", "softmax_in", "sparsemax_in", "gumbel"],
    "normaliser": ["sum", "count", "softmax"],
    "aggregation": ["sum", "attention"],
    "inflow_gate": [True, False],
    "canvas": ["segments", "latents", "pad"],
    "inference": [
        {"mode": "dense"},
        {"mode": "source_topk", "k": 1},
        {"mode": "target_topm", "m": 1},
        {"mode": "threshold", "threshold": 0.5},
        {"mode": "budget", "flops": 5.0},
    ],
    "halting": [{"rule": "none"}, {"rule": "output_mass", "threshold": 0.6}, {"rule": "kl", "threshold": 0.02}],
    "window": [None, 1],
    "output_division": ["t", "t_plus_1", "learned", "last"],
}


def model_of(chosen: dict[str, Any], seed: int = 0) -> HModel:
    changes = dict(chosen)
    router = {name: changes.pop(name) for name in ("pool", "gate") if name in changes}
    if changes.get("canvas") == "latents" and router.get("pool") in ("token", "prefix_mean"):
        router["pool"] = "max"
    return small_model(INPUTS, OUTPUTS, seed=seed, router=router, slots=3, **changes).double()


def flat(answers: dict[str, Tensor]) -> Tensor:
    return torch.cat([answers[spec.name] for spec in OUTPUTS], 1)


def padded_further(batch: dict[str, Tensor], by: int = 2) -> dict[str, Tensor]:
    """More padding on the right of every text, with other tokens in it."""
    longer = dict(batch)
    for name in ("text", "caption"):
        whole = batch.get(f"{name}/mask", torch.ones_like(batch[name], dtype=torch.bool))
        longer[name] = torch.nn.functional.pad(torch.where(whole, batch[name], 1), (0, by), value=3)
        longer[f"{name}/mask"] = torch.nn.functional.pad(whole, (0, by))
    return longer


@pytest.mark.slow
@given(st.fixed_dictionaries({name: st.sampled_from(values) for name, values in CHOICES.items()}), st.integers(0, 99))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_sample_is_alone_and_padding_is_nothing(chosen: dict[str, Any], seed: int) -> None:
    model = model_of(chosen, seed)
    batch = small_batch(INPUTS, OUTPUTS, count=3, length=5, padded=True, seed=seed)
    with torch.no_grad():
        together = flat(model(batch))
        alone = torch.cat([flat(model(rows(batch, slice(one, one + 1)))) for one in range(3)])
        longer = flat(model(padded_further(batch)))
        bare = {name: one for name, one in batch.items() if not name.endswith("/mask")}
        masks = {f"{one.name}/mask": torch.ones_like(batch[one.name], dtype=torch.bool) for one in (TEXT, SECOND)}
        torch.testing.assert_close(flat(model({**bare, **masks})), flat(model(bare)), rtol=0, atol=1e-9)
    assert torch.isfinite(together).all()
    torch.testing.assert_close(alone, together, rtol=0, atol=1e-9)
    torch.testing.assert_close(longer, together, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("pool", "canvas"),
    [*((pool, "segments") for pool in CHOICES["pool"]), ("attention", "pad"), ("last", "latents"), ("token", "pad")],
)
def test_gradients_are_finite_with_every_pool_on_every_canvas(pool: str, canvas: str) -> None:
    model = model_of({"pool": pool, "canvas": canvas})
    model.train().loss(small_batch(INPUTS, OUTPUTS, padded=True)).backward()  # type: ignore[no-untyped-call]
    assert all(one.grad is None or torch.isfinite(one.grad).all() for one in model.parameters())


@pytest.mark.parametrize(
    ("rule", "causal"), [("output_mass", False), ("act", True), ("ponder", False), ("kl", True), ("ponder", True)]
)
def test_halting_is_trained(rule: str, causal: bool) -> None:
    outputs = (NEXT,) if causal else OUTPUTS
    model = small_model((TEXT,), outputs, halting={"rule": rule}, causal=causal)
    model.train().loss(small_batch((TEXT,), outputs, padded=True)).backward()  # type: ignore[no-untyped-call]
    if rule != "kl":
        grad = model.get_parameter("unit.linear.weight").grad
        assert grad.abs().sum() > 0


# T


def test_without_iterations_inputs_speak_to_outputs() -> None:
    model = small_model(iterations=0).double()
    batch = small_batch()
    values = model.inputs(batch).values[:, 0]
    weight = torch.sigmoid(model.core.input_routers[0](values))[..., 3:].unsqueeze(-1)
    expected = model.outputs(weight * values.unsqueeze(1), None, {})["answer"]
    torch.testing.assert_close(model(batch)["answer"], expected)
    assert model.core.runner.calls == []
    model.train().loss(batch).backward()  # type: ignore[no-untyped-call]
    assert model.trace(batch).connections.shape == (4, 0, 3, 4)


def test_T_is_drawn_while_training_and_may_be_larger_afterwards() -> None:
    model, batch = small_model(regularisation={"iterations_min": 1, "iterations_max": 4}).train(), small_batch()
    seen = set()
    for seed in range(20):
        torch.manual_seed(seed)
        model.core.runner.reset()
        model(batch)
        seen.add(model.core.runner.calls[0])
    assert seen == {1, 2, 3, 4}
    model.eval().core.runner.reset()
    before = model(batch)["answer"]
    assert model.core.runner.calls[0] == 3
    model.iterations = 12
    assert torch.isfinite(model(batch)["answer"]).all()
    assert model.trace(batch).iterations == 12
    model.iterations = 3
    assert torch.equal(model(batch)["answer"], before)


@pytest.mark.parametrize("stream", ["paper", "carried"])
@pytest.mark.parametrize("name", PRESETS)
def test_presets(name: Any, stream: str) -> None:
    structure = preset(name, layer=MLPLayer(hidden=4), stream=stream, width=8, output_blocks=0, input_blocks=0)
    assert (len(structure.hidden), structure.iterations) == PRESETS[name]
    model = HModel(structure, (TEXT,), (CLASS,))
    model.loss(small_batch()).backward()  # type: ignore[no-untyped-call]


# Training


def gradients(model: HModel, batch: dict[str, Tensor], seed: int = 0) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    model.zero_grad()
    model.train().loss(batch).backward()  # type: ignore[no-untyped-call]
    return {name: one.grad for name, one in model.named_parameters() if one.grad is not None}


def test_checkpointing_changes_no_gradient() -> None:
    layers = [{"kind": "transformer", "heads": 2, "dropout": 0.3}] * 3
    changes: dict[str, Any] = {
        "hidden": layers,
        "regularisation": {"balance": 0.1, "layer_dropout": 0.3, "deep_supervision": 0.5},
    }
    batch = small_batch(padded=True)
    plain = gradients(small_model(**changes).double(), batch)
    again = gradients(small_model(**changes, checkpointing=True).double(), batch)
    assert plain.keys() == again.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(again[name], gradient, rtol=0, atol=1e-12)


def test_gradients_flow_through_the_last_iterations_only() -> None:
    batch = small_batch()
    whole = gradients(small_model().double(), batch)
    same = gradients(small_model(regularisation={"backprop_last": 3}).double(), batch)
    assert all(torch.equal(same[name], whole[name]) for name in whole)
    cut = gradients(small_model(regularisation={"backprop_last": 1}).double(), batch)
    learned = cut["core.embedding.learned"].abs().sum(1) > 0
    assert learned.tolist() == [False, False, True]
    # What they say to outputs directly still teaches the inputs.
    assert cut["inputs.layers.text.embedding.weight"].any()
    answers = [small_model(regularisation={"backprop_last": last})(batch)["answer"] for last in (1, 3)]
    assert torch.equal(*answers)


def test_deep_supervision_adds_the_loss_of_earlier_answers() -> None:
    batch = small_batch()
    model = small_model(regularisation={"deep_supervision": 0.5}).double().train()
    plain = small_model().double().train()
    each = []
    for plain.iterations in (1, 2, 3):
        each.append(plain.loss(batch))
    torch.testing.assert_close(model.loss(batch), each[2] + 0.5 * (each[0] + each[1]) / 2)


def test_what_was_set_belongs_to_the_structure() -> None:
    model, batch = small_model(), small_batch()
    assert model.settled() == model.structure
    before = model(batch)["answer"]
    model.alpha, model.alpha_rate = 0.3, 0.9
    model.inference = InferenceStructure(mode="target_topm", m=1)
    again = HModel(model.settled(), model.input_specs, model.output_specs).eval()
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(batch)["answer"], model(batch)["answer"])
    assert not torch.equal(model(batch)["answer"], before)


def test_training_counts_all_connections_whatever_the_inference_mode() -> None:
    model, batch = small_model(inference={"mode": "target_topm", "m": 1}).double(), small_batch()
    hard = model(batch)["answer"]
    trained = model.train()(batch)["answer"]
    model.inference = InferenceStructure()
    assert torch.equal(trained, model(batch)["answer"])
    assert not torch.allclose(trained, hard, atol=1e-6)
    trained.sum().backward()
    bias = model.get_parameter("core.input_routers.0.outer.bias").grad
    assert (bias[:3] != 0).all(), "also connections that inference leaves out learn"


# Inputs that are missing


def test_a_missing_input_has_a_token_or_an_error() -> None:
    batch = small_batch(INPUTS, OUTPUTS)
    model, strict = small_model(INPUTS, OUTPUTS, missing=True).double(), small_model(INPUTS, OUTPUTS)
    lone = {name: one for name, one in batch.items() if not name.startswith("image")}
    absent = {**batch, "image/present": torch.zeros(4, dtype=torch.bool)}
    with torch.no_grad():
        torch.testing.assert_close(flat(model(lone)), flat(model(absent)), rtol=0, atol=1e-10)
    for given_ in (lone, absent):
        with pytest.raises(UsageError, match=r"'image' is missing.*missing = true"):
            strict(given_)


# Bad input


def test_structures_that_cannot_be() -> None:
    for values, words in (
        ({"iterations": -1}, "iterations"),
        ({"iterations": 257}, "iterations"),
        ({"inference": {"mode": "target_topm", "m": 4}}, "m is 4; there are 3 hidden layers"),
        ({"inference": {"mode": "source_topk", "k": 0}}, "k"),
        ({"inference": {"mode": "source_topk", "k": 5}}, "k is 5"),
        ({"hidden": []}, "hidden"),
        ({"hidden": [{"kind": "perceptron"}]}, "perceptron"),
        ({"disabled": [3]}, r"hidden layers are 0 to 2"),
        ({"disabled": [0, 1, 2]}, "leave one"),
        ({"alpha": 0.0}, "alpha"),
        ({"causal": True, "canvas": "pad"}, "segments"),
        ({"causal": True, "canvas": "latents"}, "segments"),
        ({"canvas": "latents", "router": {"pool": "token"}}, "latent slots have no order"),
        ({"canvas": "latents", "router": {"pool": "prefix_mean"}}, "latent slots have no order"),
        *(
            (
                {"causal": True, "router": {"pool": pool}},
                "later tokens would steer earlier ones; use token or prefix_mean",
            )
            for pool in ("attention", "mean", "max", "last")
        ),
    ):
        with pytest.raises(UsageError, match=words):
            small_structure(**values)
    inner: dict[str, Any] = {"hidden": [{"kind": "mlp"}]}
    for _ in range(3):
        inner = {"hidden": [{"kind": "h_model", "structure": inner}]}
    with pytest.raises(UsageError, match="nested 4 deep; at most 3"):
        validate(HModelStructure, inner, what="it")
    circle: dict[str, Any] = {"hidden": []}
    circle["hidden"].append({"kind": "h_model", "structure": circle})
    with pytest.raises(UsageError):
        validate(HModelStructure, circle, what="it")
    for inputs, outputs, causal, words in (
        ((TEXT,), (), False, "at least one output"),
        ((), (CLASS,), False, "at least one input"),
        ((TEXT,), (NEXT,), False, "set causal = true"),
        ((TEXT, IMAGE), (NEXT,), True, "images and vectors have no order"),
    ):
        with pytest.raises(UsageError, match=words):
            small_model(inputs, outputs, causal=causal)
    for layer, width in (({"heads": 3}, 8), ({"heads": 4, "width": 6}, 6)):
        with pytest.raises(UsageError, match=f"{layer['heads']} attention heads do not divide the width {width}"):
            small_model(hidden=[{"kind": "transformer", **layer}] * 2)


def test_what_is_set_afterwards_is_checked_too() -> None:
    model = small_model()
    for name, value, words in (
        ("iterations", -1, "T is -1"),
        ("iterations", 5000, "0 to 4096"),
        ("alpha", 0.0, "above 0"),
        ("alpha", float("nan"), "above 0"),
        ("alpha_rate", -1.0, "above 0"),
        ("inference", InferenceStructure(mode="target_topm", m=4), "the model has 3 hidden layers"),
        ("inference", InferenceStructure(mode="source_topk", k=5), "a layer has 4 targets"),
    ):
        with pytest.raises(UsageError, match=words):
            setattr(model, name, value)
    model.alpha, model.alpha_rate = 0.5, 2.0
    assert [model.core.alpha_at(t) for t in range(3)] == [0.5, 1.0, 2.0]


def test_what_a_batch_lacks_is_named() -> None:
    model = small_model()
    with pytest.raises(UsageError, match="the batch is empty"):
        model({})
    with pytest.raises(UsageError, match="no target of the output 'answer'"):
        model.loss({"text": small_batch()["text"]})
    with pytest.raises(UsageError, match="has 12 positions; 13 were given"):
        model({"text": torch.zeros(1, 13, dtype=torch.long)})
    with pytest.raises(UsageError, match=r"'image' has shape \(4, 4, 3\); \(4, 4, 1\) is wanted"):
        small_model((IMAGE,))({"image": torch.zeros(4, 4, 4, 3, dtype=torch.uint8)})
