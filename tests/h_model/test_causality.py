"""In a causal H-Model no token speaks to earlier ones, whatever the mode (docs/spec/h_model.md#causality)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evodevo.h_model.model import HModel
from evodevo.tasks.base import OutputSpec
from evodevo.testing.networks import CLASS, NEXT, TEXT, small_model

INFERENCE: list[dict[str, Any]] = [
    {"mode": "dense"},
    {"mode": "source_topk", "k": 1},
    {"mode": "source_topk", "k": 2, "outputs_count": True},
    {"mode": "target_topm", "m": 1},
    {"mode": "threshold", "threshold": 0.5},
    {"mode": "budget", "flops": 4.0},
]
HALTING: list[dict[str, Any]] = [
    {"rule": "none"},
    {"rule": "output_mass", "threshold": 0.6},
    {"rule": "act", "threshold": 0.6},
    {"rule": "ponder", "threshold": 0.6},
    {"rule": "kl", "threshold": 0.02},
]
LAYERS: list[list[dict[str, Any]]] = [
    [{"kind": "transformer", "heads": 2, "feedforward": 12}] * 3,
    [{"kind": "mlp"}, {"kind": "convolution"}, {"kind": "lstm"}, {"kind": "transformer", "heads": 2, "width": 4}],
]
CHOICES: dict[str, list[Any]] = {
    "pool": ["token", "prefix_mean"],
    "gate": ["sigmoid", "softmax_out", "softmax_in", "sparsemax_in", "gumbel"],
    "head": ["feedforward", "linear", "channel", "constant", "independent"],
    "normaliser": ["sum", "count", "softmax"],
    "aggregation": ["sum", "attention"],
    "inflow_gate": [True, False],
    "iteration_embedding": ["message", "input", "film", "none"],
    "output_division": ["t", "t_plus_1", "learned", "last"],
    "window": [None, 1],
    "self_routing": [True, False],
    "disabled": [[], [1]],
    "inference": INFERENCE,
    "halting": HALTING,
    "hidden": LAYERS,
}


def causal_model(chosen: dict[str, Any], seed: int = 0, *, literal: bool = False, **changes: Any) -> HModel:
    given_, router = dict(chosen), {}
    for name in ("pool", "gate", "head"):
        if name in given_:
            router[name] = given_.pop(name)
    model = small_model((TEXT,), (NEXT,), seed=seed, causal=True, router=router, **given_, **changes)
    return model.double()


def assert_causal(model: HModel, seed: int = 0, places: tuple[int, ...] = (4,)) -> None:
    """Changing a token leaves the logits before it; a prefix alone has the logits that it has in the whole."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(TEXT.vocabulary, (2, 7), generator=generator)
    with torch.no_grad():
        whole = model({"text": tokens})["next"]
        for place in places:
            other = tokens.clone()
            other[:, place:] = torch.randint(TEXT.vocabulary, (2, 7 - place), generator=generator)
            changed = model({"text": other})["next"]
            torch.testing.assert_close(changed[:, :place], whole[:, :place], rtol=0, atol=1e-9)
            prefix = model({"text": tokens[:, :place]})["next"]
            torch.testing.assert_close(prefix, whole[:, :place], rtol=0, atol=1e-9)
    assert torch.isfinite(whole).all()


@pytest.mark.slow
@given(st.fixed_dictionaries({name: st.sampled_from(values) for name, values in CHOICES.items()}), st.integers(0, 99))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_combination_leaks(chosen: dict[str, Any], seed: int) -> None:
    assert_causal(causal_model(chosen, seed), seed, (1, 5))


CASES: list[dict[str, Any]] = [
    *(
        {name: value}
        for name, values in CHOICES.items()
        if name not in ("inference", "halting")
        for value in values[1:]
    ),
    *({"inflow_gate": False, "inference": inference} for inference in INFERENCE),
    *({"aggregation": "attention", "inference": i, "halting": h} for i, h in zip(INFERENCE[1:], HALTING, strict=True)),
    *({"aggregation": "attention", "inference": i, "halting": h} for i, h in zip(INFERENCE, HALTING, strict=False)),
    {"pool": "prefix_mean", "gate": "gumbel", "hidden": LAYERS[1], "window": 1},
]


@pytest.mark.parametrize("chosen", CASES, ids=str)
def test_no_choice_leaks(chosen: dict[str, Any]) -> None:
    assert_causal(causal_model(chosen))


def test_what_is_tested_does_look_back() -> None:
    """The laws above would hold of a model that hears nothing."""
    model = causal_model({})
    tokens = torch.arange(8)[None] % TEXT.vocabulary
    other = tokens.clone()
    other[:, 0] += 1
    with torch.no_grad():
        moved = (model({"text": tokens})["next"] - model({"text": other})["next"]).abs().amax(-1)
    assert (moved > 1e-6).all()


def test_the_samples_of_a_batch_do_not_wake_layers_for_each_other() -> None:
    model = causal_model({"inference": {"mode": "target_topm", "m": 1}, "inflow_gate": False})
    tokens = torch.randint(TEXT.vocabulary, (5, 7), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        together = model({"text": tokens})["next"]
        alone = torch.cat([model({"text": one[None]})["next"] for one in tokens])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-10)


def test_an_answer_about_the_whole_sample_does_not_stop_its_tokens() -> None:
    halting = {"rule": "kl", "threshold": 0.02}
    model = small_model((TEXT,), (CLASS, NEXT), causal=True, halting=halting).double()
    with torch.no_grad():
        model.get_parameter("outputs.layers.answer.head.weight").mul_(100)  # an answer that moves a lot
    assert_causal(model)


def test_gradients_do_not_come_from_later_losses() -> None:
    model = causal_model({}).train()
    rows = model.get_parameter("inputs.layers.text.embedding.weight")
    tokens = torch.arange(8)[None]
    model({"text": tokens})["next"][:, :4].sum().backward()
    assert rows.grad[:4].any(1).all()
    assert not rows.grad[4:].any()


def test_two_outputs_of_one_text() -> None:
    other = OutputSpec("again", "tokens", 5, of="text")
    model = small_model((TEXT,), (NEXT, other), causal=True).double()
    assert_causal(model)
