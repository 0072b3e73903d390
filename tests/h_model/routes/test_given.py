"""Given routes: exactly the named layers run, a router can learn to name them, and what does not fit is refused."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from evodevo.errors import UsageError
from evodevo.h_model.carried.core import CarriedCore
from evodevo.h_model.carried.imitation import naming_loss
from evodevo.h_model.cores import build_core
from evodevo.h_model.cost import executed_flops, h_model_cost, h_model_parameters
from evodevo.h_model.draw import h_model_drawing, h_model_words
from evodevo.h_model.model import HModel
from evodevo.h_model.routes.reader import RouteReader
from evodevo.h_model.routes.spec import RoutesStructure
from evodevo.h_model.source.program import h_model_program
from evodevo.h_model.spec import HModelStructure, imposed
from evodevo.networks.spec import NetworkEnvelope
from evodevo.settings import validate
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import CLASS, FACTS, IMAGE, LABELS, TEXT, small_batch, small_model
from evodevo.testing.sources import check_network

WIDTH = 8
BLOCK = {"kind": "transformer", "heads": 2, "feedforward": 12}
CODES = InputSpec("codes", "vector", size=11)
"""Two numbers, then three codes of three symbols."""
TABLE = {"input": "codes", "slots": [8, 2, 5], "layers": [2, 0, 3]}


def given_core(inputs: int = 1, **changes: Any) -> CarriedCore:
    values: dict[str, Any] = {"width": WIDTH, "hidden": [BLOCK] * 4, "iterations": 3, "iteration_embedding": "none"}
    values |= {"stream": "carried", "carried": {"routes": TABLE}, **changes}
    torch.manual_seed(0)
    structure = validate(HModelStructure, values, what="x")
    return cast(CarriedCore, build_core(structure, inputs, 2)).double().eval()


def given_model(inputs: Any = (CODES,), outputs: Any = (CLASS,), *, lively: float = 0.0, **changes: Any) -> HModel:
    values: dict[str, Any] = {"hidden": [BLOCK] * 4, "stream": "carried", "router": {"hidden": None}}
    return small_model(inputs, outputs, lively=lively, **{**values, "carried": {"routes": TABLE}, **changes})


def with_router(**changes: Any) -> HModel:
    return given_model(lively=0.7, **{"carried": {"iteration_router": True}, **changes})


def coded(symbols: Tensor) -> dict[str, Tensor]:
    """Samples with these symbols (B, 3) in entries 2 to 10."""
    numbers = torch.randn(len(symbols), 2, generator=torch.Generator().manual_seed(3))
    return {"codes": torch.cat([numbers, F.one_hot(symbols, 3).flatten(1).float()], 1)}


SYMBOLS = torch.tensor([[0, 1, 2], [2, 2, 2], [1, 0, 0], [0, 2, 1], [2, 1, 1]])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), inputs=st.integers(1, 3), padded=st.booleans())
def test_each_sample_is_the_stack_of_the_layers_of_its_route(seed: int, inputs: int, padded: bool) -> None:
    core = given_core(inputs)
    rng = torch.Generator().manual_seed(seed)
    routes = torch.randint(0, 4, (5, 3), generator=rng)
    values = torch.randn(5, inputs, 6, WIDTH, dtype=torch.float64, generator=rng)
    masks = torch.rand(5, inputs, 6, generator=rng) < 0.7 if padded else None
    if masks is not None:
        masks[:, 0, 0] = True
        values = values * masks.unsqueeze(-1)
    record: list[Any] = []
    with torch.no_grad():
        flow = core.begin(values, masks, 3, routes=routes, record=record)
        for _ in range(3):
            flow = core.iterate(flow)
        found = core.answer(flow)
        for b in range(5):
            real = torch.ones(inputs, 6, dtype=torch.bool) if masks is None else masks[b]
            share = real.double().unsqueeze(-1) / real.sum(0).clamp(min=1).unsqueeze(-1)
            x, there = (values[b] * share).sum(0, keepdim=True), real.any(0)
            for place in routes[b]:
                x = core.layers[int(place)](x, mask=there.unsqueeze(0)).y
            for output in range(2):
                torch.testing.assert_close(found[b, output, there], x[0, there], rtol=1e-9, atol=1e-9)
    assert core.runner.rows == torch.bincount(routes.flatten(), minlength=4).tolist(), "and no other layer runs"
    for t, step in enumerate(record[1:]):
        assert torch.equal(step.called.float().argmax(-1), routes[:, t])


def test_a_router_that_names_the_layers_of_a_table_gives_the_same_answers() -> None:
    """The same layers, once under a table and once under a router whose logits are the table."""
    core = given_core()
    routed = given_core(carried={"source_bias": True}, hidden=[BLOCK] * 4)
    routed.layers.load_state_dict(core.layers.state_dict())
    chain = [2, 0, 3]
    bias = torch.full((5, 6), -60.0)
    for source, target in zip([0, 3, 1], chain, strict=True):
        bias[source, target] = 60.0
    bias[:, 4:] = 60.0
    with torch.no_grad():
        assert routed.router is not None
        for one in routed.router.maps():
            one.weight.zero_()
            one.bias.zero_()
        cast(Tensor, routed.router.source_bias).copy_(bias)
        values = torch.randn(4, 1, 5, WIDTH, dtype=torch.float64)
        wanted = routed.answer(routed.run(values))
        flow = core.begin(values, None, 3, routes=torch.tensor([chain] * 4))
        for _ in range(3):
            flow = core.iterate(flow)
    torch.testing.assert_close(core.answer(flow), wanted, rtol=1e-9, atol=1e-9)


def test_the_symbol_in_the_slot_of_an_iteration_names_its_layer() -> None:
    routes = RouteReader(validate(RoutesStructure, TABLE, what="x"))(coded(SYMBOLS))
    layer = {0: 2, 1: 0, 2: 3}
    # The slots 8, 2 and 5 are the third, the first and the second code.
    assert routes.tolist() == [[layer[c], layer[a], layer[b]] for a, b, c in SYMBOLS.tolist()]
    model = given_model()
    trace = model.trace(coded(SYMBOLS))
    assert np.array_equal(trace.called.argmax(-1), routes.numpy())
    assert (trace.called.sum(-1) == 1).all()
    with pytest.raises(UsageError, match="input 'codes', which is missing"):
        RouteReader(validate(RoutesStructure, TABLE, what="x"))({"text": SYMBOLS})


def test_samples_do_not_depend_on_each_other_and_halting_in_a_batch_is_halting_alone() -> None:
    model = given_model(halting={"rule": "kl", "threshold": 0.01})
    with torch.no_grad():
        for parameter in model.outputs.parameters():  # answers that differ from each other
            parameter.mul_(10)
        together = model(coded(SYMBOLS))["answer"]
        counts = model.halting_counts.tolist()
        assert len(set(counts)) > 1
        for b in range(5):
            alone = model({"codes": coded(SYMBOLS)["codes"][b : b + 1]})["answer"]
            torch.testing.assert_close(alone, together[b : b + 1])
            assert model.halting_counts.tolist() == counts[b : b + 1]


def test_beyond_the_trained_iterations_the_last_slot_is_read_again() -> None:
    model = given_model()
    model.iterations = 5
    called = model.trace(coded(SYMBOLS)).called.argmax(-1)
    assert np.array_equal(called[:, 3], called[:, 2])
    assert np.array_equal(called[:, 4], called[:, 2])
    assert not np.array_equal(called[:, 1], called[:, 2])


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "a layer for all symbols": {"carried": {"routes": {**TABLE, "layers": [1, 1, 1]}}},
    "input": {"iteration_embedding": "input"},
    "film": {"iteration_embedding": "film"},
    "act": {"halting": {"rule": "act", "threshold": 0.6}},
    "one slot": {"iterations": 1, "carried": {"routes": {**TABLE, "slots": [5]}}},
    "other layers": {"hidden": [BLOCK, {"kind": "mlp"}, {"kind": "lstm"}, {"kind": "mlp", "width": 12}]},
}


@pytest.mark.parametrize("beside", [(), (TEXT, IMAGE)], ids=["alone", "beside others"])
@pytest.mark.parametrize("case", CASES)
def test_its_source_answers_as_the_library(case: str, beside: tuple[Any, ...]) -> None:
    network = given_model((*beside, CODES), (CLASS, LABELS), **CASES[case])
    check_network(network, h_model_program(network))


@pytest.mark.parametrize("changes", [{}, {"carried": {"iteration_router": True}}], ids=["given", "a map each"])
def test_stated_parameters_and_flops_are_those_built_and_executed(changes: dict[str, Any]) -> None:
    model = given_model(hidden=[{"kind": "mlp"}] * 4, **changes)
    ends = {"inputs": (CODES,), "outputs": (CLASS,)}
    stated = h_model_parameters(model.structure, (CODES,), (CLASS,))
    assert sum(stated.values()) == sum(one.numel() for one in model.parameters())
    assert (stated["routers"] == 0) == (not changes)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), _products() as counter:
        model(coded(SYMBOLS))
    cost = h_model_cost(model.structure, **ends).executed_flops  # type: ignore[arg-type]
    assert counter.get_total_flops() == 5 * cost
    paid = executed_flops(model.structure, [count / 5 for count in model.core.runner.rows], **ends)  # type: ignore[arg-type]
    assert paid == pytest.approx(cost)


def _products() -> FlopCounterMode:
    """PyTorch's counter, which forgets products of a matrix and a vector (the scores of attention pools)."""
    return FlopCounterMode(
        display=False, custom_mapping={torch.ops.aten.mv: lambda matrix, *_, **__: 2 * int(matrix[0]) * int(matrix[1])}
    )


# A router beside given routes


def test_a_model_that_follows_routes_runs_their_layers_and_its_router_learns_to_name_them() -> None:
    model, routes = with_router(), validate(RoutesStructure, TABLE, what="x")
    own = model.trace(coded(SYMBOLS)).called.argmax(-1)
    model.follow(routes)
    wanted = RouteReader(routes)(coded(SYMBOLS)).numpy()
    assert np.array_equal(model.trace(coded(SYMBOLS)).called.argmax(-1), wanted)
    batch = {**coded(SYMBOLS), "answer/target": torch.tensor([0, 1, 2, 0, 1])}
    model.train()
    optimizer = torch.optim.Adam(model.core.router.parameters(), lr=0.05)  # type: ignore[union-attr,unused-ignore]
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(float(loss.detach()))
        optimizer.step()
    assert losses[-1] < losses[0] - 1
    model.follow(None)
    model.eval()
    assert not np.array_equal(own, wanted)
    assert np.array_equal(model.trace(coded(SYMBOLS)).called.argmax(-1), wanted), "now by itself"


def test_the_loss_of_a_guided_router_is_its_cross_entropy() -> None:
    model, routes = with_router(regularisation={"balance": 0.3}), validate(RoutesStructure, TABLE, what="x")
    batch = {**coded(SYMBOLS), "answer/target": torch.tensor([0, 1, 2, 0, 1])}
    heard: list[Tensor] = []
    core = cast(CarriedCore, model.core)
    assert core.router is not None
    core.router.register_forward_hook(lambda module, given, answer: heard.append(answer))
    losses = {}
    for weight in (0.0, 1.0, 2.5):
        heard.clear()
        model.follow(routes, imitation=weight)
        losses[weight] = float(model.train().loss(batch).detach())
    layers = RouteReader(routes)(batch)
    said = [answer[:, 0, 0, :4].detach() for answer in heard[:3]]
    expected = sum(float(F.cross_entropy(said[t], layers[:, t])) for t in range(3)) / 3
    assert losses[1.0] - losses[0.0] == pytest.approx(expected, rel=1e-4)
    assert losses[2.5] - losses[0.0] == pytest.approx(2.5 * expected, rel=1e-4)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_naming_is_a_mean_over_sources_with_their_strength(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, 1, 2, 4, dtype=torch.float64, generator=rng)
    chosen = torch.randint(0, 4, (3, 1, 1), generator=rng)
    strength = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.5, 1.0]]).double().unsqueeze(1)
    total, weight = 0.0, 0.0
    for b in range(3):
        for k in range(2):
            r = float(strength[b, 0, k])
            total += r * float(F.cross_entropy(logits[b, :, k], chosen[b, 0]))
            weight += r
    assert float(naming_loss(logits, chosen, strength)) == pytest.approx(total / weight)


# What a file keeps, what people read, what is refused


def test_a_structure_with_routes_is_read_again_and_others_are_written_as_before() -> None:
    structure = given_model().structure
    envelope = NetworkEnvelope.model_validate_json(
        '{"network": {"kind": "h_model", "structure": ' + structure.model_dump_json() + "}}"
    )
    assert envelope.network.structure == structure
    assert structure.carried.routes is not None
    plain = imposed(structure, structure.carried.routes)
    assert plain == structure
    assert set(HModelStructure(stream="carried").carried.model_dump()) == {
        "m", "cap", "source_bias", "iteration_bias",
    }  # fmt: skip
    words = " ".join(h_model_words(structure))
    assert "given routes" in words
    assert "router" not in words
    assert "given routes" in h_model_drawing(structure, title="one", subtitle="")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"iterations": 2}, "holds 3 places; there are 2 iterations"),
        ({"hidden": [BLOCK] * 3}, "layers holds 3; .* of 0 to 2"),
        ({"disabled": [0]}, "layers holds 0; it names enabled"),
        ({"causal": True}, "whole samples"),
        ({"router": {"pool": "token"}}, "whole samples"),
        ({"carried": {"routes": TABLE, "m": 2}}, "leave out the settings carried"),
        ({"carried": {"routes": TABLE, "iteration_router": True}}, "settings carried"),
        ({"router": {"pool": "mean"}}, "settings router"),
        ({"alpha_rate": 0.5}, "settings alpha"),
        ({"self_routing": False}, "settings self_routing"),
        ({"window": 1}, "settings window"),
        ({"missing": True}, "settings missing"),
        ({"regularisation": {"balance": 0.1}}, "settings regularisation"),
        ({"regularisation": {"layer_dropout": 0.1}}, "settings regularisation"),
        ({"stream": "paper"}, "stream = .carried"),
        ({"carried": {"routes": {**TABLE, "slots": [-1, 0, 0]}}}, "counted from 0"),
        ({"carried": {"iteration_router": True, "iteration_bias": True}}, "leave iteration_bias out"),
    ],
)
def test_routes_that_do_not_fit_are_refused(changes: dict[str, Any], words: str) -> None:
    values: dict[str, Any] = {"hidden": [BLOCK] * 4, "iterations": 3, "stream": "carried", "carried": {"routes": TABLE}}
    with pytest.raises(UsageError, match=words):
        validate(HModelStructure, {**values, **changes}, what="x")


def test_inputs_without_the_codes_are_refused() -> None:
    for inputs, words in (((FACTS,), "read vectors: facts"), ((TEXT,), "none here")):
        with pytest.raises(UsageError, match=words):
            given_model(inputs)
    short = InputSpec("codes", "vector", size=10)
    with pytest.raises(UsageError, match="3 symbols from entry 8 of 'codes' on, which has 10"):
        given_model((short,))


def test_who_cannot_follow_routes() -> None:
    routes = validate(RoutesStructure, TABLE, what="x")
    for model, words in (
        (given_model(), "where they stand"),
        (small_model((CODES,)), "carried stream"),
        (with_router(carried={"m": 2}), "2 may run here"),
        (with_router(hidden=[BLOCK] * 3), "layers holds 3"),
        (with_router(regularisation={"layer_dropout": 0.5}), "regularisation"),
    ):
        with pytest.raises(UsageError, match=words):
            model.follow(routes)
    following = with_router()
    following.follow(routes)
    with pytest.raises(UsageError, match="follow"):
        h_model_program(following)


def test_an_inner_model_cannot_have_given_routes() -> None:
    inner = {"width": 8, "hidden": [BLOCK] * 4, "iterations": 3, "stream": "carried", "carried": {"routes": TABLE}}
    with pytest.raises(UsageError, match="only a whole H-Model"):
        small_model((CODES,), hidden=[BLOCK, {"kind": "h_model", "structure": inner}])


def test_a_batch_of_mixed_inputs_is_read() -> None:
    model = given_model((TEXT, CODES))
    batch = {**small_batch((TEXT,), (CLASS,), count=5, padded=True), **coded(SYMBOLS)}
    with torch.no_grad():
        assert model(batch)["answer"].shape == (5, 3)
