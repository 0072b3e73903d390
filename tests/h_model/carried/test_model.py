"""A whole H-Model with a carried stream: cost, source, trace, halting, nesting, causality, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from evodevo.errors import UsageError
from evodevo.h_model.cost import executed_flops, h_model_cost, h_model_parameters, h_model_work
from evodevo.h_model.draw import h_model_drawing, h_model_words
from evodevo.h_model.extension import usage
from evodevo.h_model.model import HModel
from evodevo.h_model.source.program import h_model_program
from evodevo.h_model.space import HModelSpace
from evodevo.h_model.space_settings import HModelSpaceSettings
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.networks.sampling import SamplingSettings
from evodevo.operators.base import used_bytes
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.settings import validate
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import CLASS, FACTS, IMAGE, LABELS, NEXT, TEXT, small_batch, small_model
from evodevo.testing.sources import check_network

BLOCK = {"kind": "transformer", "heads": 2, "feedforward": 12}
MIXED = [BLOCK, {"kind": "lstm"}, {"kind": "convolution"}, {"kind": "mlp", "width": 12}]
ENDS: dict[bool, tuple[Any, Any]] = {True: ((TEXT,), (NEXT,)), False: ((TEXT, IMAGE, FACTS), (CLASS, LABELS))}


def carried(
    inputs: tuple[Any, ...] = (TEXT,), outputs: tuple[Any, ...] = (CLASS,), *, lively: float = 0.7, **changes: Any
) -> HModel:
    changes = {"stream": "carried", "router": {"hidden": None, **changes.pop("router", {})}, **changes}
    return small_model(inputs, outputs, lively=lively, **changes)


CASES: dict[str, dict[str, Any]] = {
    "top-1": {},
    "m = 2": {"carried": {"m": 2}},
    "m = 1, M = 3": {"carried": {"cap": 3, "source_bias": True, "iteration_bias": True}},
    "a map each": {"carried": {"m": 2, "iteration_router": True}},
    "input": {"iteration_embedding": "input"},
    "film": {"iteration_embedding": "film"},
    "none": {"iteration_embedding": "none"},
    "T = 0": {"iterations": 0},
    "alpha": {"alpha": 2.0, "alpha_rate": 0.5},
    "disabled": {"disabled": [1], "self_routing": False, "carried": {"m": 2}},
    "window": {"window": 1, "hidden": [BLOCK] * 5, "disabled": [2], "iterations": 4, "carried": {"m": 2, "cap": 3}},
    "window, top-1": {"window": 2, "hidden": [BLOCK] * 4},
    "mixed layers": {"hidden": MIXED, "carried": {"m": 2}},
    "act": {"halting": {"rule": "act", "threshold": 0.6}},
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_its_source_answers_as_the_library(case: str, causal: bool) -> None:
    network = carried(*ENDS[causal], causal=causal, **CASES[case])
    check_network(network, h_model_program(network))


def test_inside_another_model_it_is_a_layer_like_any_other() -> None:
    inner = {
        "kind": "h_model",
        "structure": {"width": 8, "hidden": [BLOCK] * 2, "iterations": 2, "causal": True, "stream": "carried"},
    }
    network = small_model(*ENDS[True], causal=True, hidden=[BLOCK, inner])
    check_network(network, h_model_program(network))
    batch = small_batch(*ENDS[True], length=8)
    changed = {**batch, "text": batch["text"].clone()}
    changed["text"][:, -1] = (changed["text"][:, -1] + 1) % TEXT.vocabulary
    with torch.no_grad():
        torch.testing.assert_close(network(batch)["next"][:, :-1], network(changed)["next"][:, :-1])


@pytest.mark.parametrize(
    "settings",
    [{}, {"m": 2}, {"m": 1, "cap": 3, "source_bias": True, "iteration_bias": True}, {"iteration_router": True}],
)
@pytest.mark.parametrize("window", [None, 1])
def test_stated_parameters_are_built(settings: dict[str, Any], window: int | None) -> None:
    model = carried(*ENDS[False], carried=settings, window=window)
    stated = h_model_parameters(model.structure, *ENDS[False])
    assert stated["routers"] == sum(p.numel() for n, p in model.named_parameters() if n.startswith("core.router."))
    assert sum(stated.values()) == sum(p.numel() for p in model.parameters())


def products() -> FlopCounterMode:
    """PyTorch's counter, which forgets products of a matrix and a vector (the scores of attention pools)."""
    return FlopCounterMode(
        display=False, custom_mapping={torch.ops.aten.mv: lambda matrix, *_, **__: 2 * int(matrix[0]) * int(matrix[1])}
    )


@pytest.mark.parametrize(
    "changes", [{}, {"carried": {"m": 2}}, {"carried": {"cap": 2}}, {"iterations": 0}, {"window": 2}], ids=str
)
@pytest.mark.parametrize("causal", [False, True])
def test_stated_flops_are_those_executed(changes: dict[str, Any], causal: bool) -> None:
    """With one position a layer's work is the same for every sample; unaddressed layers do none."""
    inputs = (InputSpec("text", "tokens", length=1, vocabulary=11),) if causal else (FACTS,)
    outputs = (NEXT,) if causal else (CLASS,)
    model = carried(inputs, outputs, hidden=[{"kind": "mlp"}] * 4, causal=causal, **changes)
    batch = small_batch(inputs, outputs, count=3, length=1)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), products() as counter:
        model(batch)
    ends = {"inputs": inputs, "outputs": outputs}
    work = h_model_work(model.structure, 1, inputs, outputs, visible=False)
    if changes.get("carried") == {"cap": 2}:  # a bound: one source can only address one layer, so one runs
        assert counter.get_total_flops() < 3 * sum(part.products for part in work.values())
    else:
        assert counter.get_total_flops() == 3 * sum(part.products for part in work.values())
    rows = model.core.runner.rows or [0] * 4
    paid = executed_flops(model.structure, [count / 3 for count in rows], **ends)
    stated = h_model_cost(model.structure, **ends).executed_flops
    assert paid <= stated + 1e-6
    assert paid == pytest.approx(stated) or changes.get("carried") == {"cap": 2}


def test_only_addressed_layers_are_paid_for() -> None:
    few, every = (
        h_model_cost(
            validate(HModelStructure, {"hidden": [{"kind": "mlp"}] * count, "stream": "carried"}, what="x"), length=9
        )
        for count in (2, 8)
    )
    dense = h_model_cost(HModelStructure(stream="paper", hidden=(MLPLayer(),) * 8), length=9)
    assert every.executed_flops < 1.5 * few.executed_flops < dense.executed_flops


def test_a_trace_shows_the_connections_that_counted() -> None:
    model = carried(*ENDS[False], carried={"m": 2, "cap": 2})
    trace = model.trace(small_batch(*ENDS[False], padded=True))
    hidden = len(model.structure.hidden)
    assert trace.called.sum(-1).max() <= 2
    assert np.array_equal(trace.connections.any(-1), trace.called)
    assert not trace.connections[:, -1, :, :hidden].any()
    np.testing.assert_allclose(trace.first[..., hidden:].sum(1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(trace.connections.sum(2), trace.inflow[:, 1:], rtol=1e-5, atol=1e-6)
    assert usage(model, [small_batch(*ENDS[False])]).calls.sum() <= 2


def test_a_trace_is_one_under_any_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        for stream in ("paper", "carried"):
            model = small_model(stream=stream, router={"hidden": None})
            assert model.trace(small_batch()).connections.dtype == np.float32
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("rule", ["output_mass", "act", "ponder", "kl"])
def test_halting_in_a_batch_is_halting_alone(rule: str) -> None:
    threshold = 0.002 if rule == "kl" else 0.6
    model = carried(iterations=4, halting={"rule": rule, "threshold": threshold}, carried={"m": 2})
    batch = small_batch(count=6, padded=True)
    with torch.no_grad():
        together = model(batch)["answer"]
        counts = model.halting_counts.clone()
        for place in range(6):
            alone = model({name: values[place : place + 1] for name, values in batch.items()})["answer"]
            torch.testing.assert_close(alone, together[place : place + 1], rtol=1e-4, atol=1e-5)
            assert model.halting_counts.tolist() == counts[place : place + 1].tolist()


@pytest.mark.parametrize(
    "changes",
    [{}, {"carried": {"m": 2}}, {"halting": {"rule": "act", "threshold": 0.6}}, {"window": 1, "carried": {"m": 2}}],
    ids=str,
)
def test_the_last_token_moves_no_earlier_answer(changes: dict[str, Any]) -> None:
    model = carried(*ENDS[True], causal=True, **changes)
    batch = small_batch(*ENDS[True], length=8)
    changed = {**batch, "text": batch["text"].clone()}
    changed["text"][:, -1] = (changed["text"][:, -1] + 1) % TEXT.vocabulary
    with torch.no_grad():
        before, after = model(batch)["next"], model(changed)["next"]
    torch.testing.assert_close(before[:, :-1], after[:, :-1], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(before[:, -1], after[:, -1])


def test_it_writes_token_by_token_what_it_reads_at_once() -> None:
    model = carried(*ENDS[True], causal=True)
    assert model.decides_by_position(), "so that a token costs one step"
    start = small_batch(*ENDS[True], count=2, length=3)["text"]
    written = model.continue_text(start, 4, sampling=SamplingSettings(temperature=0))
    text = start
    for place in range(4):
        with torch.no_grad():
            word = model({"text": text})["next"][:, -1].argmax(-1, keepdim=True)
        assert torch.equal(word[:, 0], written[:, place])
        text = torch.cat([text, word], 1)


def test_a_token_asks_only_the_layers_that_know_it() -> None:
    """One layer of each iteration is addressed; those of iterations before it go on knowing the token."""
    model = carried(*ENDS[True], causal=True, hidden=[BLOCK] * 6, iterations=3)
    writer = model.writer()
    state = writer.initial_state(1, 8)
    model.core.runner.reset()
    for token in small_batch(*ENDS[True], count=1, length=8)["text"][0]:
        writer.hidden(token.view(1, 1), state=state)
    assert sum(model.core.runner.calls) <= 8 * (1 + 2 + 3)
    assert (
        used_bytes({str(t): dict(enumerate(row)) for t, row in enumerate(state.hidden.layers)})
        <= h_model_cost(model.structure, inputs=ENDS[True][0], outputs=ENDS[True][1], length=None).cache_bytes
    )


@pytest.mark.parametrize("kind", ["transformer", "mlp", "convolution"])
@pytest.mark.parametrize("m", [1, 2])
def test_positions_pay_for_the_layers_that_they_address(kind: str, m: int) -> None:
    """Counted products of one text: at most those stated, and without context exactly."""
    changes = {"hidden": [{"kind": kind}] * 6, "iterations": 3, "carried": {"m": m}, "causal": True}
    model = carried(*ENDS[True], **changes)
    text = small_batch(*ENDS[True], count=1, length=TEXT.length)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), products() as counter:
        model(text)
    stated = h_model_work(model.structure, TEXT.length, *ENDS[True], visible=False)
    dense = h_model_work(model.structure.model_copy(update={"stream": "paper"}), TEXT.length, *ENDS[True])
    counted, total = counter.get_total_flops(), sum(part.products for part in stated.values())
    assert counted <= total
    assert (counted == total) == (kind == "mlp")
    if kind != "convolution":  # which computes all positions
        assert stated["hidden"].total < dense["hidden"].total / 2


@pytest.mark.parametrize("changes", [{"checkpointing": True}, {"regularisation": {"backprop_last": 1}}], ids=str)
def test_training_options_hold(changes: dict[str, Any]) -> None:
    plain, other = carried(lively=0.3).train(), carried(lively=0.3, **changes).train()
    batch = small_batch(count=6)
    losses = [model.loss(batch) for model in (plain, other)]
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.backward()  # type: ignore[no-untyped-call]
    pairs = [
        (a.grad, b.grad) for a, b in zip(plain.parameters(), other.parameters(), strict=True) if a.grad is not None
    ]
    assert pairs
    if changes.get("checkpointing"):
        for first, second in pairs:
            torch.testing.assert_close(first, second)


def test_layer_dropout_leaves_out_layers() -> None:
    model = carried(hidden=[BLOCK] * 4, regularisation={"layer_dropout": 0.7}, carried={"m": 2}).train()
    torch.manual_seed(0)
    flow = model.core.begin(torch.randn(5, 1, 4, 8), None, 2)
    assert flow.kept is not None
    assert not flow.kept.all()
    assert not flow.inflow[..., ~flow.kept].any()
    assert flow.inflow[..., flow.kept].any()


def test_inference_modes_are_refused() -> None:
    model = carried()
    with pytest.raises(UsageError, match="bound the work"):
        model.inference = InferenceStructure(mode="target_topm", m=1)


def test_a_space_draws_models_of_the_carried_stream() -> None:
    structure = {"stream": "carried", "carried": {"m": 1, "cap": 2}}
    only = {"modes": ["dense"], "aggregations": ["sum"], "windows": [0, 1], "hidden_range": [2, 4]}

    def space_of(**changes: Any) -> HModelSpace:
        return HModelSpace(validate(HModelSpaceSettings, {"structure": structure, **only, **changes}, what="x"))

    space = space_of()
    rng = np.random.default_rng(0)
    windows = set()
    for _ in range(12):
        drawn = space.structure(space.mutate(space.sample(rng), rng))
        assert drawn.stream == "carried"
        assert drawn.carried.most == 2
        windows.add(drawn.window)
    assert windows == {None, 1}
    routes = {"input": "facts", "slots": [0, 0, 0, 0], "layers": [0, 1]}
    for wrong, match in (
        ({"modes": ["dense", "target_topm"]}, "modes"),
        ({"hidden_range": [1, 4]}, "hidden_range"),
        ({"structure": {"stream": "carried", "carried": {"routes": routes}}}, "routes names places of hidden layers"),
    ):
        with pytest.raises(UsageError, match=match):
            space_of(**wrong)


def test_it_is_described_and_drawn() -> None:
    structure = carried(carried={"m": 2, "cap": 3}).structure
    assert "one router for all, alpha 1; a message goes to 2 of the layers, and at most 3 run per sample" in " ".join(
        h_model_words(structure)
    )
    assert "a router for each iteration" in " ".join(
        h_model_words(carried(carried={"iteration_router": True}).structure)
    )
    near = carried(carried={"m": 2, "cap": 3}, window=1).structure
    assert "at most 3 run per sample and iteration, at most 1 places away" in " ".join(h_model_words(near))
    assert "carried stream" in h_model_drawing(structure, title="one", subtitle="")
