"""The routing machine against chains, averages and a literal double loop (docs/spec/h_model.md#laws)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evodevo.h_model.core import HCore, StepTrace
from evodevo.h_model.spec import paper
from evodevo.testing.networks import WIDTH, enliven, small_structure

MLP = {"kind": "mlp", "hidden": 8}
CLOSED, OPEN = -1e4, 1e4


def core_of(inputs: int = 1, outputs: int = 1, *, lively: float = 0.7, literal: bool = False, **changes: Any) -> HCore:
    """In float64 and evaluation mode."""
    structure = small_structure(**changes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        core = HCore(paper(structure) if literal else structure, inputs, outputs)
    enliven(core, lively)
    return core.double().eval()


def said(count: int = 2, inputs: int = 1, length: int = 5, seed: int = 3) -> Tensor:
    return torch.randn(count, inputs, length, WIDTH, generator=torch.Generator().manual_seed(seed)).double()


def force(core: HCore, connections: dict[int, list[int]], first: list[int]) -> None:
    """Connect each source to these targets with weight 1 and to the others with weight 0."""
    with torch.no_grad():
        wanted = [(core.input_routers[0], first)] + [(core.routers[j], to) for j, to in connections.items()]
        for router, targets in wanted:
            router.get_parameter("outer.weight").zero_()
            router.get_parameter("outer.bias").fill_(CLOSED)
            router.get_parameter("outer.bias")[targets] = OPEN


def stacked(core: HCore, values: Tensor) -> Tensor:
    """What the layers say one after another."""
    heard = values[:, 0]
    for layer in core.layers:
        heard = layer(heard).y
    return heard


@pytest.mark.parametrize("aggregation", ["sum", "attention"])
@pytest.mark.parametrize("extra", [0, 4])
def test_a_chain_is_a_feed_forward_stack(extra: int, aggregation: str) -> None:
    core, values = (
        core_of(iterations=3 + extra, iteration_embedding="none", aggregation=aggregation, lively=0.0),
        said(),
    )
    force(core, {0: [1], 1: [2], 2: [3]}, [0])
    if aggregation == "attention":
        torch.nn.init.zeros_(core.aggregation.input_source)
        torch.nn.init.zeros_(core.aggregation.hidden_source)
    with torch.no_grad():
        answer = core.answer(core.run(values)) * (3 + extra)
    torch.testing.assert_close(answer[:, 0], stacked(core, values), rtol=0, atol=1e-6)


def test_a_chain_read_at_its_end_needs_no_division_and_as_printed_is_no_stack() -> None:
    """Layers that nobody addresses talk too: the reason for docs/spec/h_model.md#inflow-gate."""
    values = said()
    for literal, changes in ((False, {"iteration_embedding": "none", "output_division": "last"}), (True, {})):
        core = core_of(iterations=3, literal=literal, lively=0.0, **changes)
        force(core, {0: [1], 1: [2], 2: [3]}, [0])
        far = (core.answer(core.run(values))[:, 0] * (3 if literal else 1) - stacked(core, values)).abs().max()
        assert far > 0.1 if literal else far < 1e-6


@pytest.mark.parametrize("value", [0.5, 1.0])
def test_equal_connections_give_the_average(value: float) -> None:
    router = {"head": "constant", "value": value}
    core = core_of(iterations=2, router=router, iteration_embedding="none", hidden=[MLP] * 3)
    values = said()
    first = values[:, 0] * value  # one input: the inflow is at most 1 and divides nothing
    heard = first
    inflow, total = value, first
    for _ in range(2):
        messages = torch.stack([layer(heard).y for layer in core.layers])
        each = value * min(1.0, inflow)
        inflow = 3 * each
        heard = each * messages.sum(0) / max(1.0, inflow)
        total = total + heard
    torch.testing.assert_close(core.answer(core.run(values))[:, 0], total / 2, rtol=0, atol=1e-12)
    if value == 1.0:
        torch.testing.assert_close(heard, messages.mean(0), rtol=0, atol=1e-12)


def literal_pass(core: HCore, values: Tensor, masks: Tensor | None = None) -> Tensor:
    """docs/spec/h_model.md#forward-pass word by word, one sample, source and target at a time."""
    structure, hidden, outputs = core.structure, core.hidden_count, core.output_count
    answers = []
    for b in range(len(values)):
        alone = [None if masks is None else masks[b, i][None] for i in range(values.shape[1])]

        def aggregate(
            messages: list[Tensor], weights: list[Tensor], real: list[Tensor | None]
        ) -> tuple[list[Tensor], list[Tensor | None]]:
            heard, heard_masks = [], []
            for j in range(hidden + outputs):
                total, inflow = torch.zeros_like(messages[0]), torch.zeros(messages[0].shape[1]).double()
                for message, weight, mask in zip(messages, weights, real, strict=True):
                    there = torch.ones_like(inflow) if mask is None else mask[0].double()
                    total = total + weight[j] * message * there[:, None]
                    inflow = inflow + weight[j] * there
                heard.append(total / inflow.clamp(min=1.0)[:, None])
                some = [mask for mask in real if mask is not None]
                heard_masks.append(torch.stack(some).any(0) if some else None)
            return heard, heard_masks

        def connections(router: Any, h: Tensor, mask: Tensor | None, alpha: float) -> Tensor:
            return torch.sigmoid(router(h, mask)[0, 0] / alpha)

        messages = [values[b, i][None] for i in range(values.shape[1])]
        weights = [
            connections(router, message, mask, structure.alpha)
            for router, message, mask in zip(core.input_routers, messages, alone, strict=True)
        ]
        x, real = aggregate(messages, weights, alone)
        y = torch.stack(x[hidden:])
        for t in range(structure.iterations):
            messages, weights, alpha = [], [], structure.alpha * structure.alpha_rate**t
            for j in range(hidden):
                h = core.layers[j](x[j], mask=real[j]).y
                weights.append(connections(core.routers[j], h, real[j], alpha))
                messages.append(h + core.embedding.vector(t))
            x, real = aggregate(messages, weights, real[:hidden])
            y = y + torch.stack(x[hidden:])
        answers.append(y[:, 0] / max(structure.iterations, 1))
    return torch.stack(answers)


@pytest.mark.parametrize(
    ("pool", "iterations"), [("attention", 3), ("attention", 0), ("mean", 1), ("max", 2), ("last", 2)]
)
def test_as_printed_it_is_the_papers_double_loop(pool: str, iterations: int) -> None:
    core = core_of(
        2, 2, literal=True, iterations=iterations, alpha=0.7, alpha_rate=1.3, router={"pool": pool}, hidden=[MLP] * 3
    )
    values = said(3, 2)
    torch.testing.assert_close(core.answer(core.run(values)), literal_pass(core, values), rtol=0, atol=1e-10)
    masks = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool().expand(3, -1, -1)
    found = core.answer(core.run(values * masks.unsqueeze(-1), masks))
    expected = literal_pass(core, values * masks.unsqueeze(-1), masks)
    real = masks.any(1)[:, None, :, None]
    torch.testing.assert_close(found * real, expected * real, rtol=0, atol=1e-10)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0, 3.0]), st.booleans())
@settings(max_examples=6, deadline=None)
def test_no_state_is_longer_than_the_longest_message(seed: int, lively: float, gate: bool) -> None:
    core = core_of(2, lively=lively, inflow_gate=gate, iteration_embedding="none")
    record: list[StepTrace] = []
    with torch.no_grad():
        flow = core.begin(said(2, 2, seed=seed), None, 3, record=record)
        assert flow.x.norm(dim=-1).max() <= said(2, 2, seed=seed).norm(dim=-1).max() + 1e-9
        for _ in range(3):
            flow = core.iterate(flow)
            norms = record[-1].norms
            assert flow.x.norm(dim=-1).max() <= norms.max() + 1e-9


def test_an_inflow_of_at_most_one_divides_nothing() -> None:
    core = core_of(1, lively=0.0)
    values = said()
    flow = core.begin(values, None, 1)
    torch.testing.assert_close(flow.x, flow.inflow[:, 0, :, None, None] * values.expand(-1, flow.x.shape[1], -1, -1))
    several = core_of(2, lively=0.0, router={"head": "constant", "value": 1.0})
    values = said(2, 2)
    torch.testing.assert_close(several.begin(values, None, 1).x[:, 0], values.mean(1))


@pytest.mark.parametrize(
    ("normaliser", "aggregation"),  # the attention aggregation normalises by itself
    [*((one, "sum") for one in ("sum", "count", "softmax")), ("sum", "attention")],
)
def test_hundreds_of_iterations_do_not_explode(normaliser: str, aggregation: str) -> None:
    core = core_of(normaliser=normaliser, aggregation=aggregation, hidden=[MLP] * 2, lively=2.0).float()
    with torch.no_grad():
        flow = core.run(said(1, 1, 3).float(), iterations=200)
    assert torch.isfinite(core.answer(flow)).all()
    assert flow.x.abs().max() < 10 * 200, "residual layers add; nothing multiplies"


@pytest.mark.parametrize("count", [2, 5, 16])
@pytest.mark.parametrize("alpha", [0.1, 3.0])
def test_the_inflow_lives_at_the_start(count: int, alpha: float) -> None:
    """One input: min(1, inflow) of hidden layers at t = 10 is at least half of that at t = 0."""
    core = core_of(hidden=[MLP] * count, alpha=alpha, lively=0.0)
    record: list[StepTrace] = []
    with torch.no_grad():
        flow = core.begin(said(), None, 11, record=record)
        for _ in range(10):
            flow = core.iterate(flow)
    first, last = (record[t].inflow[..., :count].clamp(max=1.0).min() for t in (0, 10))
    assert last >= 0.5 * first
    zero = core_of(hidden=[MLP], alpha=1.0, lively=0.0, router={"bias": "zero"})
    assert zero.run(said(), iterations=10).inflow[..., :1].max() < 0.01, "biases of zero let a small model fade"


def test_disabled_layers_are_neither_called_nor_heard() -> None:
    core = core_of(disabled=[1])
    values = said()
    expected = core.answer(core.run(values))
    assert core.runner.calls == [3, 0, 3]
    with torch.no_grad():
        for parameter in core.layers[1].parameters():
            parameter.add_(1.0)
    assert torch.equal(core.answer(core.run(values)), expected)
    core.train()
    core.runner.reset()
    core.answer(core.run(values)).sum().backward()  # type: ignore[no-untyped-call]
    assert core.runner.calls == [3, 0, 3]
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in core.layers[1].parameters())


def connections_after(core: HCore, steps: int) -> Tensor:
    """(H, N) connections of the first sample."""
    record: list[StepTrace] = []
    with torch.no_grad():
        flow = core.begin(said(), None, 9, record=record)
        for _ in range(steps):
            flow = core.iterate(flow)
    return record[steps].weights[0, 0]


def test_a_window_limits_who_is_heard() -> None:
    core = core_of(hidden=[MLP] * 6, window=2, iterations=4)
    assert (connections_after(core, 0)[0] > 0).tolist() == [True, True, False, False, False, False, True]
    weights = connections_after(core, 3) > 0
    for source in range(6):
        for target in range(6):
            assert bool(weights[source, target]) == (abs(source - target) <= 2)
        assert bool(weights[source, 6]) == (source >= 4)
    # Five offsets and one output, whatever H is.
    assert len(core.get_parameter("routers.0.outer.bias")) == 6


def test_a_layer_may_be_kept_from_hearing_itself_and_every_head_has_windows() -> None:
    assert not connections_after(core_of(self_routing=False), 1)[:, :3].diagonal().any()
    for head in ("feedforward", "linear", "channel", "constant", "independent"):
        core = core_of(2, 2, router={"head": head}, window=1, hidden=[MLP] * 4)
        assert torch.isfinite(core.answer(core.run(said(2, 2)))).all()


def test_a_windowed_connection_follows_the_offset() -> None:
    """What a head says of 'one to the right' is about the layer to the right, wherever the source stands."""
    core = core_of(hidden=[MLP] * 5, window=1, lively=0.0)
    with torch.no_grad():
        for router in core.routers:
            router.get_parameter("outer.bias").copy_(torch.tensor([-2.0, 0.5, 3.0, 0.0]))
    core.structure = core.structure.model_copy(update={"inflow_gate": False})
    weights = connections_after(core, 5)
    for source in range(1, 4):
        expected = torch.sigmoid(torch.tensor([-2.0, 0.5, 3.0])).double()
        torch.testing.assert_close(weights[source, source - 1 : source + 2], expected)


def test_alpha_binarises_and_is_annealed_while_training() -> None:
    """With a small alpha the middle mass falls, the share above one half stays."""
    core = core_of()
    found = []
    for core.alpha in (1.0, 0.01):
        record: list[StepTrace] = []
        core.iterate(core.begin(said(), None, 2, record=record))
        found.append(record[0].weights)
    middle = [((one > 0.1) & (one < 0.9)).double().mean() for one in found]
    assert middle[1] < middle[0]
    assert torch.equal(found[0] > 0.5, found[1] > 0.5)
    core = core_of(alpha=2.0, alpha_end=0.5).train()
    annealed = []
    for share in (0.0, 0.5, 1.0):
        core.set_progress(share)
        annealed.append(core.alpha_at(0))
    assert annealed == pytest.approx([2.0, 1.0, 0.5])
    core.set_progress(0.0)
    assert core.eval().alpha_at(0) == pytest.approx(0.5), "at its end afterwards"


def test_layer_dropout_leaves_whole_layers_out() -> None:
    core = core_of(regularisation={"layer_dropout": 0.6})
    core.train()
    seen = set()
    for seed in range(12):
        torch.manual_seed(seed)
        flow = core.iterate(core.begin(said(), None, 2))
        seen.add(tuple(flow.kept.tolist()))
        heard = flow.inflow[..., :3] > 0
        assert torch.equal(heard.all((0, 1)), flow.kept)
        assert torch.equal(heard.any((0, 1)), flow.kept)
    assert all(any(kept) for kept in seen)
    assert len(seen) > 2
    assert core.eval().run(said()).kept is None


def test_inputs_without_any_position_are_no_contributors() -> None:
    core, values = core_of(2), said(1, 2)
    weights = torch.sigmoid(core.input_routers[0](values[:, 0]))[0, 0]
    for masked in (False, True):
        masks = torch.tensor([[[True] * 5, [not masked] * 5]])
        flow = core.begin(values * masks.unsqueeze(-1), masks, 2)
        if masked:
            torch.testing.assert_close(flow.inflow[0, 0], weights)
        else:
            assert (flow.inflow[0, 0] > weights).all()


def test_penalties_are_those_of_the_routing_and_only_while_training() -> None:
    wanted = {"balance": 1.0, "z": 1.0, "sparsity": 1.0, "self_routing": 1.0}
    core = core_of(regularisation=wanted)
    assert core.run(said()).penalties == {}
    penalties = core.train().run(said()).penalties
    assert set(penalties) == set(wanted)
    torch.stack(list(penalties.values())).sum().backward()  # type: ignore[no-untyped-call]
    assert core.get_parameter("routers.0.outer.bias").grad is not None
