"""Layers of a carried stream that come and go after training; what both streams share: ``test_extension.py`` above."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.h_model.carried.core import CarriedCore
from evodevo.h_model.carried.router import SharedRouter
from evodevo.h_model.extension import SHUT, disable, freeze_old
from evodevo.h_model.model import HModel
from evodevo.h_model.routes.spec import RoutesStructure
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import small_batch, small_model

NEW = MLPLayer(hidden=6)
BLOCK = {"kind": "mlp", "hidden": 5}
CODES = InputSpec("codes", "vector", size=11)
TABLE = {"input": "codes", "slots": [8, 2, 5], "layers": [2, 0, 3]}


def carried(inputs: Any = None, *, lively: float = 0.7, **changes: Any) -> HModel:
    values = {"stream": "carried", "router": {"hidden": None}, "hidden": [BLOCK] * 4, **changes}
    return small_model(*([] if inputs is None else [inputs]), lively=lively, **values).double()


def answers(model: HModel, batch: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return cast(Tensor, model(batch)["answer"])


def router_of(model: HModel) -> SharedRouter:
    router = cast(CarriedCore, model.core).router
    assert router is not None
    return router


BIASED = [{}, {"source_bias": True, "iteration_bias": True}, {"source_bias": True, "iteration_router": True}]


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    at=st.integers(0, 4),
    bias=st.sampled_from(BIASED),
    disabled=st.sampled_from([(), (1,), (0, 3)]),
    moment=st.integers(0, 5),
    alpha=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_a_new_layer_has_at_most_a_share_that_its_number_of_rivals_gives(
    seed: int, at: int, bias: dict[str, Any], disabled: tuple[int, ...], moment: int, alpha: float
) -> None:
    """sigmoid(-SHUT - ln n) beside n others, whatever is said; so much where all others are equal."""
    model = carried(carried=bias, disabled=list(disabled), seed=seed, alpha=alpha, lively=3.0)
    said = torch.randn(6, 1, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    model.add_node(NEW, at=at, enabled=True)
    live = [place for place in range(5) if place not in model.structure.disabled]
    most = 1 / (1 + math.exp(SHUT) * (len(live) - 1))
    for source in range(1 + 5):
        logits = router_of(model)(said, None, torch.tensor([source]), moment)[:, 0, 0].detach()
        share = F.softmax(logits[:, live] / alpha, -1)[:, live.index(at)]
        assert float(share.max()) <= most * (1 + 1e-9)
        others = [place for place in live if place != at]
        torch.testing.assert_close(logits[:, at], logits[:, others].mean(-1) - SHUT * alpha, rtol=1e-9, atol=1e-9)
    if (table := router_of(model).source_bias) is not None:
        torch.testing.assert_close(table[1 + at], table[[1 + place for place in others]].mean(0))
    even = carried(carried=bias, disabled=list(disabled), alpha=alpha, lively=0.0)
    for parameter in router_of(even).parameters():
        nn.init.zeros_(parameter)
    even.add_node(NEW, at=at, enabled=True)
    logits = router_of(even)(said, None, torch.tensor([0]), moment)[:, 0, 0].detach()
    share = F.softmax(logits[:, live] / alpha, -1)[:, live.index(at)]
    torch.testing.assert_close(share, torch.full_like(share, most), rtol=1e-9, atol=0)


def test_where_all_layers_run_an_enabled_one_begins_softly_and_learns() -> None:
    model, batch = carried(disabled=[3], carried={"m": 4}, lively=0.2), small_batch()
    before = answers(model, batch)
    place = model.add_node(NEW, at=1).place
    assert model.core.runner.rows[place:] == [] or model.core.runner.rows[place] == 0
    model.enable(place)
    moved = float((answers(model, batch) - before).abs().max())
    assert 0 < moved < 0.02
    model.train().loss(batch).backward()  # type: ignore[no-untyped-call]
    for parameter in model.core.layers[place].parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().sum() > 0
    weight = router_of(model).maps()[0].weight.grad
    assert weight is not None
    assert weight[place].any()


@pytest.mark.parametrize("source_bias", [False, True])
def test_where_one_layer_runs_a_new_one_waits_until_the_router_names_it(source_bias: bool) -> None:
    """It is not run at first; the loss on balance raises its logit, and it is run then and learns."""
    model = carried(carried={"source_bias": source_bias}, regularisation={"balance": 0.1}, lively=0.2).float()
    batch = small_batch(count=16)
    place = model.add_node(NEW, enabled=True).place
    model.core.runner.reset()
    model(batch)
    assert model.core.runner.rows[place] == 0
    learning = freeze_old(model, [place])
    assert all(name.startswith((f"core.layers.{place}.", "core.router.")) for name in learning)
    assert {"core.router.linear.weight", "core.router.pool.query"} <= set(learning)
    first = [parameter.detach().clone() for parameter in model.core.layers[place].parameters()]
    optimiser = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=0.05)
    model.train()
    for _ in range(120):
        optimiser.zero_grad()
        model.loss(batch).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    model.eval().core.runner.reset()
    model(batch)
    assert model.core.runner.rows[place] > 0
    pairs = zip(first, model.core.layers[place].parameters(), strict=True)
    assert any(not torch.equal(before, after) for before, after in pairs)


def test_a_frozen_shared_router_is_refused_where_few_layers_run() -> None:
    few = carried()
    place = few.add_node(NEW, enabled=True).place
    with pytest.raises(UsageError, match="share one router, and where few run"):
        freeze_old(few, [place], routers=False)
    every = carried(disabled=[0], carried={"m": 4})
    every.remove_node(0)
    assert every.structure.carried.m == 3
    names = freeze_old(every, [1], routers=False)
    assert names
    assert all(name.startswith("core.layers.1.") for name in names)


def test_its_numbers_shrink_with_the_model() -> None:
    model, batch = carried(carried={"m": 3, "cap": 4}), small_batch()
    for left in (3, 2, 1):
        model.remove_node(0)
        assert model.structure.carried.m == min(3, left)
        assert model.structure.carried.cap == left
        answers(model, batch)
    with pytest.raises(UsageError, match="the last hidden layer stays"):
        model.remove_node(0)


# Routes


def coded() -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(3)
    symbols = torch.randint(0, 3, (6, 3), generator=rng)
    numbers = torch.randn(6, 2, generator=rng)
    return {"codes": torch.cat([numbers, F.one_hot(symbols, 3).flatten(1)], 1).double()}


@pytest.mark.parametrize("follows", [False, True])
def test_given_routes_lead_to_the_same_layers_when_places_move(follows: bool) -> None:
    routes = None if follows else TABLE
    model, batch = carried((CODES,), carried={} if routes is None else {"routes": routes}), coded()
    if follows:
        model.follow(RoutesStructure.model_validate({**TABLE, "slots": (8, 2, 5), "layers": (2, 0, 3)}))
    before = answers(model, batch)
    for at, layers in ((0, (3, 1, 4)), (2, (4, 1, 5)), ("edge", (4, 1, 5))):
        place = model.add_node(NEW, at=at, enabled=at == 2).place  # type: ignore[arg-type]
        model.core.runner.reset()
        torch.testing.assert_close(answers(model, batch), before, rtol=0, atol=1e-12)
        assert model.core.runner.rows[place] == 0
        if not follows:
            assert model.structure.carried.routes is not None
            assert model.structure.carried.routes.layers == layers
    model.remove_node(0)
    torch.testing.assert_close(answers(model, batch), before, rtol=0, atol=1e-12)
    structure = model.structure
    for place in (3, 0, 4):
        with pytest.raises(UsageError, match=f"the routes lead to the hidden layer {place}"):
            model.remove_node(place)
        with pytest.raises(UsageError, match=r"routes.layers holds .*it names enabled"):
            disable(model, place)
    assert model.structure is structure
    torch.testing.assert_close(answers(model, batch), before, rtol=0, atol=1e-12)
