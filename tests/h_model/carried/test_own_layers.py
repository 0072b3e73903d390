"""Hidden layers of one output's own in a carried stream: each pass is that of the network without others' layers."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from evodevo.errors import UsageError
from evodevo.export.models.base import Story
from evodevo.export.models.pt2 import graph
from evodevo.h_model.carried.core import CarriedCore, CarriedState
from evodevo.h_model.carried.router import Apart, SharedRouter
from evodevo.h_model.cost import executed_flops, h_model_cost, h_model_parameters, h_model_work
from evodevo.h_model.draw import h_model_drawing, h_model_words
from evodevo.h_model.extension import disable, freeze_old, usage
from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.own_layers import output_groups, without
from evodevo.h_model.routes.spec import RoutesStructure
from evodevo.h_model.source.program import h_model_program
from evodevo.h_model.spec import HModelStructure
from evodevo.h_model.trace.diagnose import with_random_routers
from evodevo.networks.build import build_network
from evodevo.networks.routing.pools import Pooling
from evodevo.networks.spec import NetworkEnvelope
from evodevo.networks.tensors import TensorNetwork
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.export import model_subject
from evodevo.settings import merge, validate
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import CLASS, FACTS, IMAGE, LABELS, TEXT, small_batch, small_model
from evodevo.testing.sources import check_network
from evodevo.training import checkpoints
from evodevo.training.surgery import operate, state_of

BLOCK = {"kind": "transformer", "heads": 2, "feedforward": 12}
ALONE = {"kind": "mlp", "hidden": 5}
NEW = (TransformerLayer(heads=4, feedforward=10), MLPLayer())
INPUTS, OUTPUTS = (TEXT, IMAGE), (CLASS, LABELS)
OWN = (3, 4)
VARIANTS: list[dict[str, Any]] = [
    {},
    {"carried": {"m": 2}},
    {"carried": {"m": 1, "cap": 3, "source_bias": True, "iteration_bias": True}},
    {"carried": {"m": 3, "source_bias": True, "iteration_router": True}},  # all layers of the others run
    {"carried": {"m": 4, "cap": 5}, "iteration_embedding": "input"},  # more may run than the others have
    {"disabled": [1], "self_routing": False, "carried": {"m": 2}},
    {"router": {"pool": "token"}, "carried": {"m": 2}, "alpha": 2.0},
    {"router": {"pool": "token"}, "carried": {"m": 5}},
    {"router": {"pool": "mean"}, "alpha": 0.5, "alpha_rate": 0.8, "carried": {"m": 3, "cap": 4}},
]


def built(*, seed: int = 0, owned: bool = True, **changes: Any) -> HModel:
    """A model of five layers, of which ``tags`` has the last two of its own."""
    values = {"stream": "carried", "router": {"hidden": None}, "hidden": [BLOCK, ALONE, BLOCK, BLOCK, ALONE]}
    entries = {"own": [{"output": "tags", "layers": list(OWN)}]} if owned else {}
    return small_model(INPUTS, OUTPUTS, seed=seed, **merge({**values, **entries}, changes)).double()


def alone(model: HModel) -> HModel:
    """The network without the layers of ``tags``."""
    left = copy.deepcopy(model)
    for place in reversed(OWN):
        left.remove_node(place)
    assert left.structure.own == ()
    return left


def batch_of(**more: Any) -> dict[str, Tensor]:
    return small_batch(INPUTS, OUTPUTS, padded=True, **more)


def of_tags(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The batch without targets of the others."""
    return {**batch, "answer/target": torch.full_like(batch["answer/target"], -1)}


def of_others(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {**batch, "tags/target": torch.full_like(batch["tags/target"], float("nan"))}


def router_of(model: HModel) -> SharedRouter:
    router = cast(CarriedCore, model.core).router
    assert router is not None
    return router


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


# Passes


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_others_answer_as_without_them_and_it_with_all(changes: dict[str, Any], training: bool) -> None:
    model = built(**changes).train(training)
    rest, batch = alone(model).train(training), batch_of(count=6)
    with torch.no_grad():
        found, without_them = model(batch), rest(batch)
        close(found["answer"], without_them["answer"])
        assert not torch.allclose(found["tags"], without_them["tags"], atol=1e-6)
        model.structure = model.core.structure = model.structure.model_copy(update={"own": ()})
        whole = model(batch)
    close(found["tags"], whole["tags"])
    if "m" in changes.get("carried", {}):  # where one layer runs of five, it may be one of the others'
        assert not torch.allclose(found["answer"], whole["answer"], atol=1e-6)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_its_losses_and_gradients_are_those_without_them(changes: dict[str, Any]) -> None:
    """The balance counts the layers that a pass has."""
    changes = {**changes, "regularisation": {"balance": 1.0, "z": 0.1}}
    model, batch = built(**changes).train(), of_others(batch_of(count=6))
    rest = alone(model).train()
    losses = [one.loss(batch) for one in (model, rest)]
    close(*losses)
    assert model.training
    for loss in losses:
        loss.backward()  # type: ignore[no-untyped-call]
    pairs = [(model.core.layers[place], rest.core.layers[place]) for place in range(3)]
    compared = 0
    for one, other in pairs:
        for first, second in zip(one.parameters(), other.parameters(), strict=True):
            if second.grad is not None and second.grad.any():
                close(first.grad, second.grad)
                compared += 1
    assert compared
    weights = [one.maps()[0].weight.grad for one in (router_of(model), router_of(rest))]
    close(*weights)
    assert weights[0] is not None
    assert weights[0].any()
    for place in OWN:
        assert not any(one.grad is not None and one.grad.any() for one in model.core.layers[place].parameters())
    assert not any(one.grad is not None and one.grad.any() for one in router_of(model).rows.parameters())


@pytest.mark.parametrize("changes", [{}, {"router": {"gate": "softmax_in"}}, {"inflow_gate": False}], ids=str)
def test_so_are_the_losses_of_the_papers_stream(changes: dict[str, Any]) -> None:
    every = {"balance": 1.0, "z": 0.1, "sparsity": 0.3, "self_routing": 0.2}
    model = built(**merge({"stream": "paper", "regularisation": every}, changes)).train()
    close(model.loss(given := of_others(batch_of(count=6))), alone(model).train().loss(given))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_nobody_runs_what_a_pass_does_not_have(changes: dict[str, Any], training: bool) -> None:
    model, batch = built(**changes).train(training), batch_of(count=6)
    with torch.no_grad():
        model.train()
        for given in (of_others(batch), of_tags(batch)):
            model.train(True).loss(given)
        model.train(training)
        model.core.runner.reset()
        with without(model.core, OWN):
            messages = model.inputs(batch)
            model._final(messages.values, messages.masks, messages.places)
    rows, calls = model.core.runner.rows, model.core.runner.calls
    assert not any(rows[place] for place in OWN)
    assert not any(calls[place] for place in OWN)
    assert any(rows)


def test_a_batch_is_as_many_passes_as_groups_have_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = built(carried={"m": 2}).train(), batch_of()
    passes: list[tuple[int, ...]] = []
    final = model._final
    monkeypatch.setattr(model, "_final", lambda *one, **more: passes.append(model.core.absent) or final(*one, **more))
    both = model.loss(batch)
    assert passes == [OWN, ()]
    passes.clear()
    assert model.loss(of_others(batch)) < both
    assert passes == [OWN]
    passes.clear()
    assert model.loss(of_tags(batch)) < both
    assert passes == [()]
    shared = built(owned=False, carried={"m": 2})
    for output in ("tags", "answer"):
        shared.give(output, OWN)
    assert [group.outputs for group in output_groups(shared.structure, ["answer", "tags"])] == [("answer", "tags")]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_its_source_answers_as_the_library(changes: dict[str, Any]) -> None:
    model = built(**changes).float()
    program = h_model_program(model)
    check_network(model, program)
    assert "rows" not in " ".join(program.weights), "one router in one piece"
    model.give("answer", [0])  # a pass for each output
    check_network(model, h_model_program(model))


@pytest.mark.parametrize("stream", ["carried", "paper"])
def test_activations_that_are_computed_again_are_those_of_their_pass(stream: str) -> None:
    """The backward pass comes when all passes are over."""
    grown = []
    for checkpointing in (False, True):
        changes = {"carried": {"m": 2}} if stream == "carried" else {"stream": "paper"}
        model = built(checkpointing=checkpointing, **changes).train()
        model.loss(batch_of(count=6)).backward()  # type: ignore[no-untyped-call]
        grown.append({name: one.grad for name, one in model.named_parameters()})
    for name, gradient in grown[0].items():
        again = grown[1][name]
        assert (gradient is None or not gradient.any()) == (again is None or not again.any()), name
        if gradient is not None and again is not None:
            close(again, gradient)


def test_layer_dropout_leaves_every_pass_a_layer() -> None:
    model = built(regularisation={"layer_dropout": 0.95}, carried={"m": 2}, disabled=[0]).train()
    torch.manual_seed(0)
    dropped = 0
    with without(model.core, OWN):
        for _ in range(60):
            flow = model.core.begin(torch.randn(2, 2, 4, 8, dtype=torch.float64), None, 2)
            assert isinstance(flow, CarriedState)
            assert flow.kept is not None
            there = flow.kept[[1, 2]]
            assert there.any()
            dropped += int(not there.all())
            assert (flow.inflow[..., [1, 2]] > 0).any()
            assert not flow.inflow[..., [0, *OWN]].any()
    assert dropped > 40


def test_levelled_passes_have_their_layers_alone() -> None:
    model, batch = built(carried={"m": 2}), batch_of()
    rest = alone(model)
    model.core.level = rest.core.level = True
    with torch.no_grad():
        close(model(batch)["answer"], rest(batch)["answer"])


# Cost


def products() -> FlopCounterMode:
    """PyTorch's counter, which forgets products of a matrix and a vector (the scores of attention pools)."""
    return FlopCounterMode(
        display=False, custom_mapping={torch.ops.aten.mv: lambda matrix, *_, **__: 2 * int(matrix[0]) * int(matrix[1])}
    )


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_stated_flops_are_those_executed(m: int, training: bool) -> None:
    """With one position and layers alike; the others have three layers, which is fewer than the cap of 5."""
    hidden = [{"kind": "mlp"}] * 5
    own = [{"output": "tags", "layers": list(OWN)}]
    values = {"stream": "carried", "router": {"hidden": None}, "hidden": hidden, "own": own, "carried": {"m": m}}
    model = small_model((FACTS,), OUTPUTS, **values).train(training)
    batch = small_batch((FACTS,), OUTPUTS, count=3)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), products() as counter:
        model(batch)
    work = h_model_work(model.structure, 1, (FACTS,), OUTPUTS, visible=False)
    assert counter.get_total_flops() == 3 * sum(part.products for part in work.values())
    ends = {"inputs": (FACTS,), "outputs": OUTPUTS}
    paid = executed_flops(model.structure, [count / 3 for count in model.core.runner.rows], **ends)
    assert paid == pytest.approx(h_model_cost(model.structure, **ends).executed_flops)
    one = h_model_work(model.structure.model_copy(update={"own": ()}), 1, (FACTS,), OUTPUTS, visible=False)
    assert work["hidden"].total == one["hidden"].total * (min(m, 3) + min(m, 5)) / min(m, 5)
    with pytest.raises(UsageError, match="at most once per pass and iteration"):
        executed_flops(model.structure, [6.5, 0, 0, 0, 0], **ends)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_stated_parameters_are_those_counted(changes: dict[str, Any]) -> None:
    model = built(**changes)
    stated = sum(h_model_parameters(model.structure, INPUTS, OUTPUTS).values())
    assert stated == sum(one.numel() for one in model.parameters())


@pytest.mark.parametrize("changes", [VARIANTS[place] for place in (0, 1, 3)], ids=str)
def test_of_unequal_layers_the_dearest_of_each_pass_are_stated(changes: dict[str, Any]) -> None:
    hidden = [{"kind": "mlp", "hidden": units} for units in (4, 6, 8, 64, 4)]
    structure = built(hidden=hidden, **changes).structure
    ends = {"inputs": INPUTS, "outputs": OUTPUTS}
    both = h_model_work(structure, 20, INPUTS, OUTPUTS)
    each = []
    for place in (OWN, ()):
        part = small_model(INPUTS, OUTPUTS, **structure.model_dump(mode="json", exclude={"own"}))
        for gone in reversed(place):
            part.remove_node(gone)
        each.append(h_model_work(part.structure, 20, INPUTS, OUTPUTS))
    for part_of in ("hidden", "routing"):
        # Rows of the router that a pass does not need are computed all the same.
        assert both[part_of].total >= sum(one[part_of].total for one in each)
    assert both["hidden"] == each[0]["hidden"] + each[1]["hidden"]
    assert h_model_cost(structure, **ends).flops > h_model_cost(structure.model_copy(update={"own": ()}), **ends).flops


# Rows of the router


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 100),
    apart=st.sets(st.integers(0, 4)),
    biased=st.booleans(),
    moments=st.sampled_from([(0, 0), (4, 0), (0, 4)]),
    moment=st.integers(0, 5),
)
def test_a_router_in_pieces_is_the_whole_router(
    seed: int, apart: set[int], biased: bool, moments: tuple[int, int], moment: int
) -> None:
    """Two inputs, five hidden layers, three outputs."""
    torch.manual_seed(seed)
    sizes = (6, 8, 7 if biased else 0, moments[0], moments[1])
    pieces = SharedRouter(Pooling("mean", 6), *sizes, apart=Apart(tuple(sorted(apart)), 2)).double()
    plain = SharedRouter(Pooling("mean", 6), *sizes).double()
    for parameter in pieces.parameters():
        nn.init.normal_(parameter)
    plain.load_state_dict(pieces.whole_state())
    assert sum(one.numel() for one in pieces.parameters()) == sum(one.numel() for one in plain.parameters())
    said = torch.randn(3, 4, 5, 6, dtype=torch.float64)
    sources = torch.randint(0, 7, (3, 1, 4))
    logits = pieces(said, None, sources, moment)
    torch.testing.assert_close(logits, plain(said, None, sources, moment))
    # What leads to a layer, or from it, is in its own rows; nothing else is.
    for number, place in enumerate(sorted(apart)):
        with torch.no_grad():
            for parameter in pieces.own_rows()[number].parameters():
                parameter += 1.0
        moved = (pieces(said, None, sources, moment) - logits).abs() > 1e-9
        expected = torch.zeros_like(moved)
        expected[..., place] = True
        if biased:
            common = [target for target in range(8) if target not in apart]
            expected[..., common] |= (sources == 2 + place).unsqueeze(-1)
        assert torch.equal(moved | expected, expected)
        assert moved[..., place].any()
        logits = pieces(said, None, sources, moment)


ROWS = [VARIANTS[place] for place in (0, 2, 3)]


@pytest.mark.parametrize("changes", ROWS, ids=str)
def test_giving_moves_rows_and_no_answer_of_the_others(changes: dict[str, Any]) -> None:
    plain = built(owned=False, **changes)
    rest, batch = alone_of(plain), batch_of()
    count = sum(one.numel() for one in plain.parameters())
    origins = plain.give("tags", [4])
    assert "core.router.linear.weight" in origins or "iteration_router" in changes.get("carried", {})
    assert not [name for name in origins if name.startswith("core.router.rows")], "they begin anew"
    said = [one.clone() for one in router_of(plain).rows[0].parameters()]
    plain.give("tags", [3])
    assert plain.structure.own[0].layers == OWN
    assert sum(one.numel() for one in plain.parameters()) == count
    kept = dict(router_of(plain).rows[1].named_parameters())
    assert torch.equal(kept["linear.weight" if "linear.weight" in kept else "linear.0.weight"], said[index_of(kept)])
    with torch.no_grad():
        close(plain(batch)["answer"], rest(batch)["answer"])


def alone_of(model: HModel) -> HModel:
    left = copy.deepcopy(model)
    for place in reversed(OWN):
        left.remove_node(place)
    return left


def index_of(parameters: dict[str, Any]) -> int:
    return next(number for number, name in enumerate(parameters) if name.endswith("weight"))


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 100),
    alpha=st.sampled_from([0.5, 1.0, 2.0]),
    variant=st.sampled_from([0, 2, 3]),
    disabled=st.sampled_from([(), (1,)]),
)
def test_a_layer_of_its_own_begins_as_loud_as_all_others_together(
    seed: int, alpha: float, variant: int, disabled: tuple[int, ...]
) -> None:
    """But for the noise of a new router, by which two of them differ."""
    model = built(owned=False, seed=seed, alpha=alpha, disabled=list(disabled), **VARIANTS[variant])
    model.give("tags", OWN)
    tables, others = router_of(model).tables(), [place for place in range(3) if place not in disabled]
    for weight, bias in zip(tables.weights, tables.biases, strict=True):
        noise = weight[list(OWN)] - weight[others].mean(0)
        assert 1e-4 < float(noise.detach().abs().max()) < 0.2
        assert not torch.equal(noise[0], noise[1])
        for place in OWN:
            begins = torch.cat([bias[others].mean().expand(len(others)), bias[place : place + 1]]) / alpha
            assert float(begins.detach().softmax(-1)[-1]) == pytest.approx(0.5)
    if tables.by_source is not None:
        assert torch.allclose(tables.by_source[:2, 3], tables.by_source[:2, others].mean(1))
        rows = [2 + place for place in others]
        assert torch.allclose(tables.by_source[2 + 3, [0, 1, 2, 5, 6]], tables.by_source[rows].mean(0)[[0, 1, 2, 5, 6]])
    again = built(owned=False, seed=seed, alpha=alpha, disabled=list(disabled), **VARIANTS[variant])
    torch.rand(3)
    again.give("tags", OWN)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize("changes", ROWS, ids=str)
def test_layers_come_and_go_beside_them(changes: dict[str, Any], tmp_path: Path) -> None:
    model, batch = built(**changes), batch_of()
    with torch.no_grad():
        before = model(batch)
        model.add_node(NEW[0], at=1)
        assert model.structure.own[0].layers == (4, 5)
        close(model(batch), before)
        model.add_node(NEW[1], at=5)
        assert model.structure.own[0].layers == (4, 6)
        close(model(batch), before)
        kept = checkpoints.save(
            store := FolderPool(tmp_path),
            model,
            genome=NetworkEnvelope(network=HModelNetwork(structure=model.structure)).model_dump(mode="json"),
        )
        loaded = checkpoints.load(store, kept)
        envelope = validate(NetworkEnvelope, loaded.manifest.genome or {}, what="the network")
        again = build_network(envelope.network, INPUTS, OUTPUTS, seed=9).double()
        loaded.restore(again)
        close(again.eval()(batch), before)
        model.remove_node(1)
        model.remove_node(4)
        assert model.structure.own[0].layers == OWN
        close(model(batch), before)
        model.remove_node(3)
        assert model.structure.own[0].layers == (3,)
        model.remove_node(3)
        assert model.structure.own == ()
        assert not list(router_of(model).rows)
        close(model(batch)["answer"], before["answer"])
    assert "own" not in model.structure.model_dump(mode="json"), "stored structures are those of before"


@pytest.mark.parametrize("at", [2, 5])
@pytest.mark.parametrize("changes", ROWS, ids=str)
def test_a_new_layer_is_shut_in_every_pass(changes: dict[str, Any], at: int) -> None:
    """Its rows are means of those that every pass has, so that its share is bounded in each."""
    model = built(**changes)
    with torch.no_grad():
        for parameter in router_of(model).rows.parameters():
            parameter += 7.0
    place = model.add_node(NEW[1], at=at, enabled=True).place
    tables = router_of(model).tables()
    others = [one for one in range(6) if one not in (place, *model.structure.owned)]
    assert len(others) == 3
    for weight, bias in zip(tables.weights, tables.biases, strict=True):
        torch.testing.assert_close(weight[place], weight[others].mean(0))
        torch.testing.assert_close(bias[place], bias[others].mean() - 4.0)
    if tables.by_source is not None:
        torch.testing.assert_close(tables.by_source[2 + place], tables.by_source[[2 + one for one in others]].mean(0))
        torch.testing.assert_close(tables.by_source[:2, place], tables.by_source[:2, others].mean(1))


def test_moments_of_an_optimiser_follow() -> None:
    model = built(owned=False, **VARIANTS[2]).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    batch = batch_of()

    def step() -> None:
        optimizer.zero_grad()
        model.loss(batch).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    step()
    name = "core.router.linear.weight"
    for act in (
        lambda: model.give("tags", [3]),
        lambda: model.give("tags", [4]),
        lambda: model.add_node(NEW[1], at=0, enabled=True).origins,
        lambda: model.remove_node(4).origins,
    ):
        parameters = dict(model.named_parameters())
        before = {key: {k: v.clone() for k, v in one.items()} for key, one in state_of(parameters, optimizer).items()}
        origins = act()
        operate(optimizer, parameters, model, origins)
        after = state_of(dict(model.named_parameters()), optimizer)
        rows = origins[name].rows
        assert rows is not None
        for place, row in enumerate(rows):
            wanted = torch.zeros(8, dtype=torch.float64) if row is None else before[name]["exp_avg"][row]
            assert torch.equal(after[name]["exp_avg"][place], wanted)
        assert {id(one) for group in optimizer.param_groups for one in group["params"]} == {
            id(one) for one in model.parameters()
        }
        step()


# Learning while the others are frozen


@pytest.mark.parametrize("changes", [*ROWS, VARIANTS[5], VARIANTS[6]], ids=str)
@pytest.mark.parametrize("balance", [0.0, 0.1])
def test_their_rows_learn_and_no_answer_to_the_others_moves(changes: dict[str, Any], balance: float) -> None:
    """With an optimiser that decays every parameter that it has."""
    base = {**changes, "regularisation": {"balance": balance}}
    model = small_model(INPUTS, OUTPUTS, stream="carried", **merge({"router": {"hidden": None}}, base)).double()
    batch = batch_of(count=16)
    with torch.no_grad():
        first = model(batch)["answer"]
    new = [model.add_node(layer, enabled=True, seed=seed).place for seed, layer in enumerate(NEW)]
    model.give("tags", new)
    with torch.no_grad():
        answer = model(batch)["answer"]
    close(answer, first)
    learning = freeze_old(model, new, routers=False, outputs=["tags"])
    allowed = ("core.layers.3.", "core.layers.4.", "core.router.rows.0.", "core.router.rows.1.", "outputs.layers.tags.")
    assert all(name.startswith(allowed) for name in learning)
    assert {name.split(".")[3] for name in learning if name.startswith("core.router.rows")} == {"0", "1"}
    begun = {name: one.detach().clone() for name, one in model.named_parameters()}
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=0.02, weight_decay=0.1)
    model.train()
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = model.loss(of_tags(batch))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(loss.detach()))
    moved = {name for name, one in model.named_parameters() if not torch.equal(one, begun[name])}
    assert moved <= set(learning)
    assert {name for name in learning if name.startswith("core.router.rows") and "linear" in name} & moved
    assert losses[-1] < losses[0]
    model.eval().core.runner.reset()
    with torch.no_grad():
        after = model(batch)
    assert torch.equal(after["answer"], answer)
    assert any(model.core.runner.rows[place] for place in new), "the router has learned to name them"


def test_a_frozen_router_without_rows_for_new_layers_is_refused() -> None:
    model = built(owned=False)
    with pytest.raises(UsageError, match=r"share one router, and where few run .* or give the layers to an output"):
        freeze_old(model, [3], routers=False)
    model.give("tags", [4])
    with pytest.raises(UsageError, match="share one router"):
        freeze_old(model, [3, 4], routers=False)
    assert freeze_old(model, [4], routers=False)


# What stands around it


def test_it_is_traced_described_and_drawn_with_all_layers() -> None:
    model, batch = built(carried={"m": 5}), batch_of()
    trace = model.trace(batch)
    assert trace.connections.shape[2:] == (5, 7)
    assert trace.called[..., list(OWN)].any()
    assert usage(model, [batch]).calls[list(OWN)].max() > 0
    assert "Hidden layers [3, 4] answer tags alone." in h_model_words(model.structure)
    assert "tags alone: layers 3, 4" in h_model_drawing(model.structure, title="it", subtitle="")


@pytest.mark.parametrize("place", OWN)
@pytest.mark.parametrize(
    "carried",
    [{"m": 2}, {"m": 3, "source_bias": True, "iteration_bias": True}, {"m": 4, "iteration_router": True}],
    ids=str,
)
def test_a_disabled_layer_of_its_own_is_that_of_nobody(carried: dict[str, Any], place: int) -> None:
    model, batch = built(carried=carried), batch_of(count=8)
    with torch.no_grad():
        before = model(batch)
        disable(model, place)
        after = model(batch)
        close(after["answer"], before["answer"])
        assert not torch.allclose(after["tags"], before["tags"], atol=1e-9)
        model.remove_node(place)
        close(model(batch), after)


def test_an_h_model_may_be_a_layer_of_an_outputs_own() -> None:
    inner = {"width": 8, "hidden": [ALONE] * 2, "iterations": 2, "stream": "carried"}
    model = built(hidden=[BLOCK, ALONE, BLOCK, ALONE, {"kind": "h_model", "structure": inner}], carried={"m": 3})
    rest, batch = alone(model), batch_of()
    with torch.no_grad():
        close(model(batch)["answer"], rest(batch)["answer"])
    check_network(model.float(), h_model_program(model))
    hidden = [*[ALONE] * 4, {"kind": "h_model", "structure": {**inner, "own": [{"output": "tags", "layers": [0]}]}}]
    with pytest.raises(UsageError, match="an inner H-Model has one output"):
        built(hidden=hidden)


CODES = InputSpec("codes", "vector", size=11)
TABLE: dict[str, Any] = {"input": "codes", "slots": [8, 2, 5], "layers": [2, 0, 1]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"carried": {"routes": TABLE}}, "do not go with given routes"),
        ({"window": 2}, "do not go with a window"),
        ({"halting": {"rule": "kl"}}, "do not go with halting"),
        ({"regularisation": {"deep_supervision": 0.1}}, r"do not go with regularisation.deep_supervision"),
        ({"own": [{"output": "tags", "layers": [5]}]}, "layers are 0 to 4"),
        ({"disabled": [0, 1, 2]}, "no hidden layer to the other"),
    ],
)
def test_what_does_not_go_together(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        built(**changes)


def test_a_causal_model_has_none() -> None:
    with pytest.raises(UsageError, match="do not go with a causal model"):
        small_model((TEXT,), (CLASS,), stream="carried", causal=True, own=[{"output": "answer", "layers": [0]}])


def test_what_follows_routes_has_none_and_the_other_way_round() -> None:
    values = {"stream": "carried", "router": {"hidden": None}, "hidden": [ALONE] * 4}
    table = RoutesStructure.model_validate({**TABLE, "slots": (8, 2, 5), "layers": (2, 0, 1)})
    model = small_model((CODES,), OUTPUTS, **values)
    model.follow(table)
    with pytest.raises(UsageError, match="do not go with given routes"):
        model.give("tags", [3])
    assert model.structure.own == ()
    assert not list(router_of(model).rows)
    model.follow(None)
    model.give("tags", [3])
    with pytest.raises(UsageError, match="do not go with given routes"):
        model.follow(table)
    assert not model.follows


def test_layers_that_are_partly_born_have_no_source_beside_them() -> None:
    model = built()
    model.births = {0: 0.5}
    with pytest.raises(UsageError, match="while layers are partly born"):
        h_model_program(model)


def test_a_stored_structure_is_the_same() -> None:
    structure = built().structure
    assert validate(HModelStructure, structure.model_dump(mode="json"), what="it") == structure
    assert structure.owned == OWN


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 5])
def test_a_graph_is_refused_as_of_any_carried_stream(m: int) -> None:
    """Which layers run follows from the samples, also where all may."""
    subject = model_subject(
        TensorNetwork(built(carried={"m": m}).float()), name="it", kind="h_model", story=Story("it", {})
    )
    with pytest.raises(
        UsageError, match=r"it decides by the numbers of each sample which layers .* or take --to source"
    ):
        graph(subject, "pt2")


def test_the_control_of_a_probe_draws_their_rows_too() -> None:
    model = built(carried={"iteration_router": True})
    drawn = with_random_routers(model, 0)
    for before, after in zip(router_of(model).tables().weights, router_of(drawn).tables().weights, strict=True):
        assert bool((before != after).any(-1).all())
