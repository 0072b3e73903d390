"""How far layers of a carried stream are there: a factor in the softmax that compares them; and what probes set."""

from __future__ import annotations

import itertools
import math
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.h_model.carried.births import weighted_softmax
from evodevo.h_model.carried.connections import connect
from evodevo.h_model.extension import disable
from evodevo.h_model.model import HModel
from evodevo.h_model.source.program import h_model_program
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import CLASS, FACTS, IMAGE, LABELS, NEXT, TEXT, small_batch, small_model
from evodevo.testing.sources import check_network

BLOCK = {"kind": "transformer", "heads": 2, "feedforward": 12}
ENDS: dict[bool, tuple[Any, Any]] = {True: ((TEXT,), (NEXT,)), False: ((TEXT, IMAGE, FACTS), (CLASS, LABELS))}
ALL = {"carried": {"m": 4}}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"carried": {"m": 2}},
    {"carried": {"m": 1, "cap": 3, "source_bias": True, "iteration_bias": True}},
    {"carried": {"m": 2, "cap": 4, "iteration_router": True}},
    ALL,
    {"window": 1, "iterations": 4, "carried": {"m": 2}},
    {"alpha": 2.0, "alpha_rate": 0.5, "disabled": [0], "self_routing": False, "carried": {"m": 3}},
]


def carried(*, causal: bool = False, lively: float = 0.7, **changes: Any) -> HModel:
    values = {"stream": "carried", "router": {"hidden": None}, "hidden": [BLOCK] * 4, "causal": causal, **changes}
    return small_model(*ENDS[causal], lively=lively, **values).double()


def batch_of(*, causal: bool = False, **more: Any) -> dict[str, Tensor]:
    return small_batch(*ENDS[causal], padded=True, **more)


def answers(model: HModel, batch: dict[str, Tensor]) -> Tensor:
    model.core.runner.reset()
    return torch.cat([one.flatten(1) for one in model(batch).values()], 1)


def rows(model: HModel) -> list[int]:
    return model.core.runner.rows or [0] * model.core.hidden_count


@settings(max_examples=40, deadline=None)
@given(data=st.data(), count=st.integers(1, 5), spread=st.sampled_from([1.0, 30.0, 2000.0]))
def test_shares_are_those_of_the_formula(data: st.DataObject, count: int, spread: float) -> None:
    numbers = st.lists(st.floats(-spread, spread), min_size=count, max_size=count)
    logits = data.draw(numbers)
    factor = data.draw(st.lists(st.sampled_from([0.0, 1e-30, 1e-3, 0.4, 1.0]), min_size=count, max_size=count))
    legal = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    tensors = [
        torch.tensor(logits, dtype=torch.float64),
        torch.tensor(legal),
        torch.tensor(factor, dtype=torch.float64),
    ]
    found = weighted_softmax(*tensors)
    known = [place for place in range(count) if legal[place] and factor[place] > 0]
    most = max((logits[place] + math.log(factor[place]) for place in known), default=0.0)
    parts = {place: math.exp(logits[place] + math.log(factor[place]) - most) for place in known}
    expected = [parts.get(place, 0.0) / (sum(parts.values()) or 1.0) for place in range(count)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-12)
    small = weighted_softmax(tensors[0].float(), tensors[1], tensors[2].float().requires_grad_())
    assert bool(small.isfinite().all())
    small[0].backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_unborn_is_exactly_disabled_and_born_exactly_there(
    changes: dict[str, Any], causal: bool, training: bool
) -> None:
    model, batch = carried(causal=causal, **changes).train(training), batch_of(causal=causal)
    with torch.no_grad():
        whole = answers(model, batch)
        model.births = {2: 1.0}
        assert torch.equal(answers(model, batch), whole)
        model.births = {2: torch.tensor(1.0, dtype=torch.float64)}
        torch.testing.assert_close(answers(model, batch), whole, rtol=0, atol=1e-12)
        model.births = {2: torch.tensor(0.0, dtype=torch.float64)}
        nearly, ran = answers(model, batch), rows(model)
        assert ran[2] == 0
        model.births = {2: 0.0}
        without = answers(model, batch)
        assert rows(model)[2] == 0
        model.births = {}
        if "window" not in changes:  # whose neighbours are counted among the enabled ones
            torch.testing.assert_close(nearly, without, rtol=0, atol=1e-12)
            disable(model, 2)
            assert torch.equal(answers(model, batch), without)
            model.remove_node(2)
            torch.testing.assert_close(answers(model, batch), without, rtol=0, atol=1e-12)


@pytest.mark.parametrize("changes", [ALL, {"alpha": 0.5, **ALL}], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_answers_go_evenly_from_without_to_with(changes: dict[str, Any], causal: bool) -> None:
    """Where all layers run; of the last steps towards 0 each is a tenth of the one before."""
    model, batch, found = carried(causal=causal, **changes), batch_of(causal=causal), []
    with torch.no_grad():
        for factor in torch.linspace(0, 1, 21).tolist():
            model.births = {1: factor}
            found.append(answers(model, batch))
            assert (rows(model)[1] > 0) == (factor > 0), "who is not born is not run"
        steps = [float((late - early).norm()) for early, late in itertools.pairwise(found)]
        assert max(steps) < 0.75 * sum(steps)
        small = []
        for factor in (1e-5, 1e-6, 1e-7):
            model.births = {1: factor}
            small.append(float((answers(model, batch) - found[0]).norm()))
    assert small[0] > 0
    assert small[1] == pytest.approx(small[0] / 10, rel=0.1)
    assert small[2] == pytest.approx(small[1] / 10, rel=0.1)


@pytest.mark.parametrize(
    "changes", [ALL, {"carried": {"m": 2, "cap": 3}}, {"carried": {"m": 2}, "causal": True}], ids=str
)
def test_the_gradient_by_a_factor_is_that_of_differences(changes: dict[str, Any]) -> None:
    """Two are born at once; the choice of layers is the same on both sides, as the layers' work shows."""
    model, batch = carried(**changes), batch_of(causal=bool(changes.get("causal")))

    def total(one: Tensor, two: Tensor) -> Tensor:
        model.births = {1: one, 3: two}
        return answers(model, batch).square().sum()

    for values in ((0.3, 0.8), (1e-4, 0.5), (0.9, 0.2)):
        given = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]
        found = torch.autograd.grad(total(*given), given)
        work = rows(model)
        for number in range(2):
            step = 1e-4 * values[number]
            moved = [
                [value + sign * step * (number == place) for place, value in enumerate(values)] for sign in (1, -1)
            ]
            sides = []
            for one in moved:
                with torch.no_grad():
                    sides.append(float(total(*[torch.tensor(value, dtype=torch.float64) for value in one])))
                assert rows(model) == work
            assert float(found[number]) == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-4, abs=1e-7)
        assert any(float(one) != 0 for one in found)


def test_who_is_born_little_by_little_learns() -> None:
    model, batch = carried(**ALL).train(), batch_of()
    model.births = {2: 0.05}
    model.loss(batch).backward()  # type: ignore[no-untyped-call]
    for parameter in model.core.layers[2].parameters():
        assert parameter.grad is not None
    assert sum(float(parameter.grad.norm()) for parameter in model.core.layers[2].parameters()) > 0  # type: ignore[union-attr]


def test_balance_counts_a_layer_as_far_as_it_is_there() -> None:
    model, batch = carried(regularisation={"balance": 1.0}, carried={"m": 2}).train(), batch_of(count=8)

    def balance(births: dict[int, Any]) -> float:
        model.births = births
        with torch.no_grad():
            return float(penalty())

    def penalty() -> Tensor:
        messages = model.inputs(batch)
        return model._final(messages.values, messages.masks, messages.places).flow.penalties["balance"]

    whole, none, little, nearly = (balance(one) for one in ({}, {1: 0.0}, {1: 1e-9}, {1: 1 - 1e-9}))
    assert nearly == pytest.approx(whole, abs=1e-6)
    assert little == pytest.approx(none, abs=1e-6)
    model.births = {}
    disable(model, 1)
    assert balance({}) == none
    assert balance({1: 0.5}) == none, "a disabled layer is not counted twice"
    assert abs(whole - none) > 1e-3


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("births", [{2: 0.3, 0: 0.6}, {1: 0.0}, {0: 0.0, 3: 0.5, 1: 1.0}], ids=str)
@pytest.mark.parametrize("changes", [{"carried": {"m": 2}}, {"alpha": 2.0, "carried": {"m": 4}}], ids=str)
def test_layers_that_are_half_born_are_in_the_source(
    changes: dict[str, Any], births: dict[int, float], causal: bool
) -> None:
    network = carried(causal=causal, **changes).float()
    plain = h_model_program(network).text
    network.births = births
    check_network(network, h_model_program(network))
    assert h_model_program(network).text != plain


@pytest.mark.parametrize(
    ("changes", "births"),
    [
        ({"carried": {"m": 2}}, {1: 0.0, 2: 0.4}),
        ({"carried": {"m": 4}}, {0: 0.3}),
        ({"window": 1, "iterations": 4, "carried": {"m": 2}}, {}),
        ({"window": 2, "disabled": [1]}, {3: 0.5}),
    ],
    ids=str,
)
def test_texts_go_on_token_by_token(changes: dict[str, Any], births: dict[int, float]) -> None:
    """Within a window, with layers that are partly born and with one that was added later, too."""
    model = carried(causal=True, **changes)
    model.add_node(TransformerLayer(heads=2), enabled=True)
    model.births = births
    text = batch_of(causal=True)["text"]
    with torch.no_grad():
        whole = model({"text": text})["next"]
        writer = model.writer()
        state = writer.initial_state(len(text), text.shape[1])
        parts = [writer.hidden(text[:, place : place + 1], state=state) for place in range(text.shape[1])]
        logits = writer.logits(torch.cat(parts, 1))
    assert writer.streams
    torch.testing.assert_close(logits, whole, rtol=1e-9, atol=1e-9)


def test_given_routes_have_no_births() -> None:
    table = {"input": "codes", "slots": [8, 2, 5], "layers": [2, 0, 3]}
    codes = InputSpec("codes", "vector", size=11)
    values: dict[str, Any] = {"hidden": [BLOCK] * 4, "stream": "carried", "router": {"hidden": None}}
    model = small_model((codes,), (CLASS,), **values, carried={"routes": table})
    model.births = {1: 0.5}
    with pytest.raises(UsageError, match="births and probes need a router"):
        model(small_batch((codes,), (CLASS,)))


# What probes and meta-gradients set


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_a_gate_is_a_factor_of_all_connections_from_its_layer(changes: dict[str, Any]) -> None:
    model, batch = carried(**changes), batch_of()
    before = answers(model, batch).detach()
    ones = torch.ones(4, dtype=torch.float64, requires_grad=True)
    model.core.gates = ones
    plain = answers(model, batch)
    assert torch.equal(plain.detach(), before)
    (slope,) = torch.autograd.grad(plain.square().sum(), ones)
    ran = [count > 0 for count in rows(model)]
    assert bool((slope[[not one for one in ran]] == 0).all())
    assert bool(slope[ran].any()) or "window" in changes  # outputs may be out of reach
    shut = ran.index(True)
    with torch.no_grad():
        model.core.gates = ones * (torch.arange(4) != shut)
        trace = model.trace(batch)
    assert trace.called[..., shut].any()
    assert not trace.connections[:, :, shut].any(), "with 0 nothing comes from it"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_levelled_connections_say_nothing_of_layers_and_all_of_outputs(changes: dict[str, Any], causal: bool) -> None:
    model, batch = carried(causal=causal, **changes), batch_of(causal=causal)
    routed = model.trace(batch)
    model.core.level = True
    model.core.runner.reset()
    even = model.trace(batch)
    enabled = [place for place in range(4) if place not in model.structure.disabled]
    legal = cast(Tensor, model.core.legal_input)[:, :4].numpy()
    first, plain = even.first[..., :4], routed.first[..., :4]
    for source in range(first.shape[1]):
        here = first[:, source][:, legal[source]]
        torch.testing.assert_close(torch.tensor(here.sum(-1)), torch.tensor(plain[:, source].sum(-1)))
        assert float(abs(here - here[:, :1]).max()) < 1e-9
        assert not first[:, source][:, ~legal[source]].any()
    if "window" not in changes:
        assert all((rows(model)[place] > 0) == (place in enabled) for place in range(4)), "all run"


def test_what_is_not_born_takes_no_place_of_one_that_is_hardly_addressed() -> None:
    """Of layers whose shares are below the grid of ranks the first is taken, and not one whose share is 0."""
    logits = torch.tensor([0.0, 0.0, 0.0, 50.0, 0.0], dtype=torch.float64).view(1, 1, 1, 5)
    factor = torch.tensor([0.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    links = connect(logits, 4, one, None, 1.0, 2, 2, factor=factor)
    assert links.chosen.flatten().tolist() == [3, 1]
    assert bool((links.hidden > 0).all())
    assert connect(logits, 4, one, None, 1.0, 2, 2).chosen.flatten().tolist() == [3, 0]
