"""The carried stream: its equations against an independent double loop, and the laws that follow from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.h_model.carried.core import CarriedCore
from evodevo.h_model.cores import build_core
from evodevo.h_model.spec import HModelStructure, paper
from evodevo.settings import validate

WIDTH = 8
BLOCK = {"kind": "transformer", "heads": 2, "feedforward": 12}
ALONE = {"kind": "mlp", "hidden": 6}


def core_of(inputs: int = 1, outputs: int = 1, *, seed: int = 0, lively: float = 1.0, **changes: Any) -> CarriedCore:
    values: dict[str, Any] = {"width": WIDTH, "hidden": [BLOCK, ALONE, BLOCK, ALONE], "iterations": 3}
    structure = validate(HModelStructure, {**values, "stream": "carried", **changes}, what="a carried H-Model")
    torch.manual_seed(seed)
    core = cast(CarriedCore, build_core(structure, inputs, outputs)).double().eval()
    with torch.no_grad():
        for parameter in core.router.parameters():
            parameter.add_(lively * torch.randn_like(parameter))
    return core


def naive(core: CarriedCore, values: Tensor, masks: Tensor, total: int) -> Tensor:
    """The equations, one sample, decision, layer and position at a time. (I, S, d), (I, S) -> Y (O, S, d)."""
    structure, hidden, outputs = core.structure, core.hidden_count, core.output_count
    length = values.shape[1]
    each = list(range(length)) if core.per_position else [None]
    m, cap = structure.carried.m, structure.carried.cap or structure.carried.m

    live = [k for k in range(hidden) if k not in structure.disabled]

    def may(source: int | None, target: int) -> bool:
        """Whether a hidden layer, or an input (None), may address a target."""
        window = len(live) if structure.window is None else structure.window
        if target >= hidden:
            return source is None or live.index(source) >= len(live) - window
        if target not in live or (source == target and not structure.self_routing):
            return False
        row = live.index(target)
        return row < window if source is None else abs(row - live.index(source)) <= window

    def positions(p: int | None) -> list[int]:
        return list(range(length)) if p is None else [p]

    def logits(message: Tensor, mask: Tensor, source: int, moment: int, p: int | None) -> Tensor:
        scaled = message / (message.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        if p is not None:
            read = scaled[p]
        else:
            scores = scaled @ core.router.pool.query / WIDTH**0.5 if core.router.pool.query is not None else None
            assert scores is not None
            read = (F.softmax(scores[mask], 0).unsqueeze(-1) * scaled[mask]).sum(0) if mask.any() else 0 * scaled[0]
        maps = core.router.maps()
        made = maps[min(moment, len(maps) - 1)](read)
        if core.router.source_bias is not None:
            made = made + core.router.source_bias[source]
        if core.router.moment_bias is not None:
            made = made + core.router.moment_bias[min(moment, len(core.router.moment_bias) - 1)]
        return cast(Tensor, made)

    def kept(rows: list[tuple[float, Tensor, int | None]]) -> list[dict[int, Tensor]]:
        """For each source: the hidden targets that it keeps, with r c."""
        soft: list[dict[int, Tensor]] = []
        for _, row, source in rows:
            open_ = [k for k in range(hidden) if may(source, k)]
            soft.append(dict(zip(open_, F.softmax(row[open_], 0), strict=True)))
        dense = [sum(row[0] * one[k] for row, one in zip(rows, soft, strict=True) if k in one) for k in range(hidden)]
        reached = [k for k in range(hidden) if dense[k] > 0]
        chosen = sorted(reached, key=lambda k: -round(float(dense[k]) * 2**18))[:cap]
        links = []
        for (r, _, _), one in zip(rows, soft, strict=True):
            own = sorted((k for k in chosen if k in one), key=lambda k: -round(float(one[k]) * 2**18))[:m]
            links.append({k: r * one[k] for k in own if r > 0})
        return links

    real = masks.any(0)
    y = torch.zeros(outputs, length, WIDTH, dtype=values.dtype)
    for s in range(length):
        if real[s]:
            y[:, s] = values[masks[:, s], s].mean(0)
    x = torch.zeros(hidden, length, WIDTH, dtype=values.dtype)
    known = torch.zeros(hidden, length, dtype=torch.bool)
    inflow: dict[int | None, list[Any]] = {p: [0.0] * hidden for p in each}

    def receive(p: int | None, sources: list[tuple[Tensor, Tensor, float, Tensor, int | None]]) -> None:
        """Sources are message (S, d), mask (S,), r, logits, hidden layer (None for an input)."""
        links = kept([(r, row, source) for _, _, r, row, source in sources])
        inflow[p] = [0.0] * hidden
        for k in range(hidden):
            ways = [(source, link[k]) for source, link in zip(sources, links, strict=True) if k in link]
            if not ways:
                continue
            inflow[p][k] = sum(weight for _, weight in ways)
            for s in positions(p):
                here = [(source[0][s], weight) for source, weight in ways if source[1][s]]
                if here:
                    x[k, s] = sum(weight * message for message, weight in here) / sum(weight for _, weight in here)
                    known[k, s] = True

    if total == 0:
        return y
    for p in each:
        there = [float(masks[i].any()) if p is None else float(masks[i, p]) for i in range(len(values))]
        first = [
            (values[i], masks[i], there[i], logits(values[i], masks[i], i, 0, p), None) for i in range(len(values))
        ]
        receive(p, first)
    for t in range(total):
        before, seen, states = x.clone(), core.embedding.on_input(x.clone(), t), known.clone()
        gates = {p: [min(1.0, float(a)) for a in inflow[p]] for p in each}
        messages = before.clone()
        for j in range(hidden):
            if all(gates[p][j] == 0 for p in each):
                continue
            made = core.layers[j](seen[j : j + 1], mask=states[j : j + 1]).y[0]
            for p in each:
                for s in positions(p):
                    messages[j, s] = before[j, s] + gates[p][j] * (made[s] - seen[j, s])
        messages = core.embedding.on_message(messages, t)
        for p in each:
            active = [j for j in range(hidden) if gates[p][j] > 0]
            if not active:
                inflow[p] = [0.0] * hidden
                continue
            top = max(gates[p])
            sources = []
            for j in active:
                mask = states[j] if p is None else torch.arange(length) == p
                sources.append(
                    (messages[j], mask, gates[p][j] / top, logits(messages[j], mask, len(values) + j, t + 1, p), j)
                )
            for o in range(outputs):
                for s in positions(p):
                    here = [
                        (message[s], r * torch.sigmoid(row[hidden + o]))
                        for message, mask, r, row, source in sources
                        if mask[s] and may(source, hidden + o)
                    ]
                    weight = sum(c for _, c in here)
                    if here:
                        share = min(1.0, float(weight))
                        y[o, s] = (1 - share) * y[o, s] + share * sum(c * msg for msg, c in here) / weight
            receive(p, sources)
    return y


def inputs_of(count: int, inputs: int, length: int, *, padded: bool, seed: int = 1) -> tuple[Tensor, Tensor | None]:
    rng = torch.Generator().manual_seed(seed)
    values = torch.randn(count, inputs, length, WIDTH, dtype=torch.float64, generator=rng)
    if not padded:
        return values, None
    masks = torch.rand(count, inputs, length, generator=rng) < 0.6
    masks[:, 0, 0] = True
    return values * masks.unsqueeze(-1), masks


CASES: dict[str, dict[str, Any]] = {
    "top-1": {},
    "top-2 of all": {"carried": {"m": 2, "cap": 4}},
    "m = 1, M = 3": {"carried": {"m": 1, "cap": 3}},
    "biases": {"carried": {"m": 2, "cap": 3, "source_bias": True, "iteration_bias": True}},
    "a map each": {"carried": {"m": 2, "source_bias": True, "iteration_router": True}},
    "embedding of the input": {"iteration_embedding": "input", "carried": {"m": 2}},
    "film": {"iteration_embedding": "film", "carried": {"m": 2}},
    "T = 0": {"iterations": 0},
    "window": {"window": 1, "iterations": 4, "carried": {"m": 2, "cap": 3}},
    "window of two, top-1": {"window": 2, "hidden": [BLOCK, ALONE] * 3, "carried": {"cap": 2}},
    "window around a disabled layer": {
        "window": 1,
        "hidden": [BLOCK, ALONE, ALONE, BLOCK, ALONE],
        "disabled": [2],
        "iterations": 4,
        "self_routing": False,
        "carried": {"m": 2},
    },
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_double_loop(case: str, causal: bool, padded: bool) -> None:
    inputs = 1 if causal else 3
    core = core_of(inputs, 2, causal=causal, **CASES[case])
    values, masks = inputs_of(4, inputs, 5, padded=padded)
    total = core.structure.iterations
    with torch.no_grad():
        found = core.answer(core.run(values, masks))
        for place in range(len(values)):
            mask = torch.ones(inputs, 5, dtype=torch.bool) if masks is None else masks[place]
            expected = naive(core, values[place], mask, total)
            real = mask.any(0)
            torch.testing.assert_close(found[place][:, real], expected[:, real], rtol=1e-9, atol=1e-9)


def chain(core: CarriedCore, places: list[int]) -> None:
    """Force the input to the first of these layers, each to the next, and the last one to the output."""
    hidden = core.hidden_count
    bias = torch.full((1 + hidden, hidden + core.output_count), -60.0)
    for source, target in zip([0, *(1 + place for place in places)], places, strict=False):
        bias[source, target] = 60.0
    bias[1 + places[-1], hidden:] = 60.0
    bias[1 + places[-1], 0] = 60.0
    with torch.no_grad():
        core.router.linear.weight.zero_()
        core.router.linear.bias.zero_()
        cast(nn.Parameter, core.router.source_bias).copy_(bias)


@pytest.mark.parametrize("causal", [False, True])
def test_a_one_hot_chain_is_the_stack_of_its_layers(causal: bool) -> None:
    changes = {"carried": {"source_bias": True}, "iteration_embedding": "none", "causal": causal}
    core = core_of(lively=0.0, **changes)
    chain(core, [2, 0, 3])
    values, masks = inputs_of(3, 1, 6, padded=True)
    assert masks is not None
    with torch.no_grad():
        found = core.answer(core.run(values, masks))[:, 0]
        x = values[:, 0]
        for place in (2, 0, 3):
            x = core.layers[place](x, mask=masks[:, 0]).y
    torch.testing.assert_close(found[masks[:, 0]], x[masks[:, 0]], rtol=1e-9, atol=1e-9)
    core.runner.reset()
    core.run(values, masks)
    assert core.runner.rows == [3, 0, 3, 3], "the layer that nobody addresses is not called"


def test_it_is_continuous_where_the_inflow_of_a_layer_leaves_zero() -> None:
    """A second layer that is hardly addressed changes nothing, though its own connections are strong."""
    core = core_of(lively=0.0, iterations=2, carried={"m": 2, "source_bias": True}, iteration_embedding="none")
    bias = cast(nn.Parameter, core.router.source_bias)
    values, _ = inputs_of(3, 1, 4, padded=False)

    def answer(logit: float) -> Tensor:
        with torch.no_grad():
            core.router.linear.weight.zero_()
            bias.fill_(-60.0)
            bias[0, 0], bias[0, 1] = 0.0, logit  # the input: to layer 0, and a little to 1
            bias[1, 2] = bias[1, 3] = bias[1, -1] = 0.0
            bias[2, 2], bias[2, 3], bias[2, -1] = 0.0, -1.0, 2.0
            return core.answer(core.run(values))

    alone = answer(-500.0)
    differences = [float((answer(logit) - alone).abs().max()) for logit in (-2.0, -6.0, -12.0, -20.0)]
    assert differences[0] > 1e-2
    assert differences[1] < 0.05 * differences[0]
    assert differences[2] < 1e-4
    assert differences[3] < 1e-7


@pytest.mark.parametrize("m", [1, 2])
def test_the_router_learns_at_every_m(m: int) -> None:
    core = core_of(carried={"m": m}).train()
    values, _ = inputs_of(4, 1, 5, padded=False)
    core.answer(core.run(values)).square().sum().backward()
    weight = core.router.linear.weight.grad
    assert weight is not None
    assert float(weight[: core.hidden_count].norm()) > 1e-6
    unused = [place for place, rows in enumerate(core.runner.rows) if rows == 0]
    for place in unused:
        assert all(p.grad is None or not p.grad.any() for p in core.layers[place].parameters())


def test_gradients_are_those_of_differences() -> None:
    core = core_of(2, 1, carried={"m": 2, "cap": 3}, hidden=[ALONE] * 4, iterations=2)
    values, masks = inputs_of(2, 2, 3, padded=True)
    values.requires_grad_(True)
    assert torch.autograd.gradcheck(lambda x: core.answer(core.run(x, masks)), (values,), eps=1e-7, atol=1e-5)


class Everybody(nn.Module):
    """Counts as the runner of a core: every layer on every sample and position, whoever addresses it."""

    def __init__(self, runner: Any) -> None:
        super().__init__()
        self.runner = runner

    def prepare(self, layers: Any, x: Tensor) -> None:
        return None

    def run(self, layers: Any, x: Tensor, masks: Any, active: Tensor, states: Any, cache: Any = None) -> Tensor:
        return cast(Tensor, self.runner.run(layers, x, masks, None, None))

    def run_slots(self, layers: Any, x: Tensor, masks: Any, chosen: Tensor, active: Tensor) -> Tensor:
        every = x.new_zeros(len(x), len(layers), *x.shape[2:])
        real = torch.zeros(every.shape[:3], dtype=torch.bool)
        for sample, places in enumerate(chosen):
            every = every.index_put((torch.tensor(sample), places), x[sample])
            real[sample, places] = (
                torch.ones_like(x[sample, ..., 0], dtype=torch.bool) if masks is None else masks[sample]
            )
        made = self.run(layers, every, real, active, None)
        rows = torch.arange(len(x)).unsqueeze(1)
        return made[rows, chosen] * active[..., None, None]

    def run_positions(self, layers: Any, x: Tensor, known: Tensor, chosen: Tensor, active: Tensor) -> Tensor:
        made = self.run(layers, x, known, active, None).transpose(1, 2)  # (B, S, H, d)
        index = chosen.unsqueeze(-1).expand(*chosen.shape, x.shape[-1])
        return (made.gather(2, index) * active.unsqueeze(-1)).transpose(1, 2)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 1000),
    m=st.integers(1, 3),
    more=st.integers(0, 1),
    causal=st.booleans(),
    runner=st.sampled_from(["loop", "grouped"]),
)
def test_running_the_addressed_layers_alone_loses_nothing(
    seed: int, m: int, more: int, causal: bool, runner: str
) -> None:
    from evodevo.h_model.runners.choice import build_runner

    core = core_of(1, 1, seed=seed, causal=causal, carried={"m": m, "cap": m + more}).train()
    values, masks = inputs_of(5, 1, 4, padded=True, seed=seed)
    answers, gradients, rows = [], [], []
    for one in (build_runner(runner), Everybody(build_runner("loop"))):  # type: ignore[arg-type]
        core.runner = one  # type: ignore[assignment]
        core.zero_grad()
        found = core.answer(core.run(values, masks))
        found.square().sum().backward()
        answers.append(found.detach())
        gradients.append([torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in core.parameters()])
        rows.append(sum((one.runner if isinstance(one, Everybody) else one).rows))
    torch.testing.assert_close(answers[0], answers[1], rtol=1e-10, atol=1e-10)
    for few, all_ in zip(*gradients, strict=True):
        torch.testing.assert_close(few, all_, rtol=1e-9, atol=1e-9)
    assert rows[0] <= rows[1]
    if not causal:
        assert rows[0] <= 5 * 3 * (m + more), "no more than M layers per sample and iteration"


def test_a_disabled_layer_is_never_addressed() -> None:
    """However much the router wants it; the others share its probability."""
    core = core_of(disabled=[1], carried={"m": 1})
    with torch.no_grad():
        core.router.linear.bias[1] = 50.0
    values, masks = inputs_of(6, 1, 4, padded=True)
    core.run(values, masks)
    assert core.runner.rows[1] == 0
    assert sum(core.runner.rows) == 6 * core.structure.iterations


def test_no_more_than_m_and_the_cap_are_addressed() -> None:
    core = core_of(3, 1, carried={"m": 2, "cap": 3})
    values, masks = inputs_of(6, 3, 4, padded=True)
    record: list[Any] = []
    flow = core.begin(values, masks, 3, record=record)
    for _ in range(3):
        flow = core.iterate(flow)
    for step in record[:-1]:
        links = step.weights[..., : core.hidden_count]
        assert int((links > 0).sum(-1).max()) <= 2
        assert int((links > 0).any(-2).sum(-1).max()) <= 3
    assert record[-1].weights.shape[-1] == 1


def told(core: CarriedCore, logits: dict[tuple[int, int], float]) -> None:
    """A router that says this alone: logits by number of the source, inputs first, and target; 0 else."""
    with torch.no_grad():
        core.router.linear.weight.zero_()
        core.router.linear.bias.zero_()
        bias = cast(nn.Parameter, core.router.source_bias)
        bias.zero_()
        for (source, target), logit in logits.items():
            bias[source, target] = logit


@pytest.mark.parametrize(("cap", "reached"), [(2, [1, 4]), (1, [1])])
def test_within_a_window_a_source_may_be_left_without_a_target(cap: int, reached: list[int]) -> None:
    """Both ends of a row are active, each reaches the layer beside it; where one is chosen, one end sends to none."""
    core = core_of(window=1, hidden=[ALONE] * 6, iterations=3, carried={"cap": cap, "source_bias": True})
    told(core, {(1, 1): 9.0, (6, 4): 3.0, (6, 6): 2.0})
    values, _ = inputs_of(1, 1, 4, padded=False)
    record: list[Any] = []
    flow = core.begin(values, None, 3, record=record)
    both = torch.zeros_like(flow.inflow)
    both[..., [0, 5]] = 1.0
    flow = core.iterate(replace(flow, inflow=both, chosen=torch.tensor([[[0, 5]]]), x=torch.ones_like(flow.x)))
    assert flow.inflow[0, 0].nonzero().flatten().tolist() == reached
    links = record[-1].weights[0, 0]
    assert links[0, :6].nonzero().flatten().tolist() == [1]
    assert links[5, :6].nonzero().flatten().tolist() == [4] * (cap == 2)
    assert links[0, 6] == 0, "only the last layer reaches the output"
    assert float(links[5, 6].detach()) == pytest.approx(float(torch.sigmoid(torch.tensor(2.0, dtype=torch.float64))))


def test_outputs_keep_the_mean_of_the_inputs_until_a_message_can_reach_them() -> None:
    core = core_of(window=2, hidden=[ALONE] * 6, iterations=4, carried={"m": 2, "cap": 6})
    values, _ = inputs_of(3, 1, 4, padded=False)
    said = []
    flow = core.begin(values, None, 4)
    for _ in range(4):
        said.append(core.answer(flow))
        assert not flow.inflow[..., 2 * (flow.t + 1) :].any(), "a message goes two places in an iteration"
        flow = core.iterate(flow)
    for answer in said[:3]:
        torch.testing.assert_close(answer, values, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(said[3], values), "wT > H - w: the fifth and sixth layer were reached"


@pytest.mark.parametrize("causal", [False, True])
def test_where_nobody_may_be_reached_nothing_runs_and_nothing_is_balanced(causal: bool) -> None:
    """The window lets inputs reach the first layer alone, and that one is left out of the step."""
    settings = {"balance": 1.0, "layer_dropout": 0.5, "z": 0.0}
    core = core_of(window=1, hidden=[ALONE] * 3, causal=causal, carried={"m": 2}, regularisation=settings).train()
    core._drawn_layers = lambda device: torch.tensor([False, True, True])  # type: ignore[method-assign]
    values, _ = inputs_of(3, 1, 4, padded=False)
    flow = core.run(values)
    torch.testing.assert_close(core.answer(flow), values, rtol=1e-12, atol=1e-12)
    assert sum(core.runner.rows) == 0
    assert float(flow.penalties["balance"].detach()) == 0


def test_balance_within_a_window_pulls_towards_layers_that_can_be_reached() -> None:
    """With T = 1 inputs reach w layers: the loss is least, H / w - 1, where these are used evenly, and not 0."""
    core = core_of(
        2, 1, window=2, hidden=[ALONE] * 4, iterations=1, carried={"source_bias": True}, regularisation={"balance": 1.0}
    ).train()

    def loss(logit: float) -> tuple[float, list[float]]:
        told(core, {(0, 0): logit, (1, 0): logit})
        values, _ = inputs_of(5, 2, 3, padded=False)
        core.zero_grad()
        penalty = core.run(values).penalties["balance"]
        penalty.backward()
        gradient = cast(Tensor, cast(nn.Parameter, core.router.source_bias).grad)
        return float(penalty.detach()), gradient[0].tolist()

    even, _ = loss(0.0)
    assert even == pytest.approx(4 / 2 - 1)
    more, gradient = loss(1.0)
    assert more > even
    assert gradient[0] > 0 > gradient[1], "away from the one that is used too much"
    assert gradient[2] == gradient[3] == 0


def test_samples_do_not_depend_on_each_other() -> None:
    core = core_of(2, 1, carried={"m": 2})
    values, masks = inputs_of(5, 2, 4, padded=True)
    assert masks is not None
    with torch.no_grad():
        together = core.answer(core.run(values, masks))
        alone = [core.answer(core.run(values[b : b + 1], masks[b : b + 1])) for b in range(5)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-10, atol=1e-10)


def test_a_sample_without_an_active_layer_keeps_its_answer() -> None:
    core = core_of(hidden=[ALONE], self_routing=False)
    values, _ = inputs_of(3, 1, 4, padded=False)
    flow = core.begin(values, None, 3)
    flow = core.iterate(flow)
    once = core.answer(flow)
    assert not flow.inflow.any()
    flow = core.iterate(core.iterate(flow))
    assert torch.equal(core.answer(flow), once)
    assert core.runner.rows == [3], "and nothing runs for it any more"


def test_later_positions_do_not_reach_earlier_ones() -> None:
    core = core_of(causal=True, carried={"m": 2}, hidden=[BLOCK, {"kind": "convolution"}, {"kind": "lstm"}, ALONE])
    values, _ = inputs_of(2, 1, 6, padded=False)
    changed = values.clone()
    changed[:, :, -1] += 3.0
    with torch.no_grad():
        torch.testing.assert_close(
            core.answer(core.run(values))[:, :, :-1], core.answer(core.run(changed))[:, :, :-1], rtol=1e-10, atol=1e-10
        )
        # Step by step: what is read of a prefix is what the whole sequence says of it.
        for length in range(1, 7):
            prefix = core.answer(core.run(values[:, :, :length]))
            whole = core.answer(core.run(values))[:, :, :length]
            torch.testing.assert_close(prefix, whole, rtol=1e-10, atol=1e-10)


def test_balance_is_that_of_switch_pooled_over_iterations() -> None:
    core = core_of(iterations=2, regularisation={"balance": 1.0}).train()
    values, _ = inputs_of(6, 1, 3, padded=False)
    read: list[Tensor] = []
    core.router.register_forward_hook(lambda *call: read.append(call[2].detach()))
    flow = core.iterate(core.iterate(core.begin(values, None, 2)))
    chances = torch.cat([F.softmax(logits[:, 0, 0, :4], -1) for logits in read[:2]])  # the last reaches outputs alone
    shares = F.one_hot(chances.argmax(-1), 4).double().mean(0)
    expected = 4 * (shares * chances.mean(0)).sum() - 1
    assert float(flow.penalties["balance"].detach()) == pytest.approx(float(expected), abs=1e-10)
    even = core_of(
        carried={"source_bias": True}, lively=0.0, hidden=[ALONE] * 2, regularisation={"balance": 1.0}
    ).train()
    chain(even, [0, 1])
    with torch.no_grad():  # every sample goes 0, 1, 0, ...: pooled over iterations that is even
        cast(nn.Parameter, even.router.source_bias)[2, 0] = 60.0
    flow = even.begin(values, None, 4)
    for _ in range(4):
        flow = even.iterate(flow)
    assert float(flow.penalties["balance"].detach()) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    "changes",
    [
        {"aggregation": "attention"},
        {"normaliser": "softmax"},
        {"inflow_gate": False},
        {"output_division": "last"},
        {"router": {"head": "constant"}},
        {"router": {"pool": "prefix_mean"}},
        {"inference": {"mode": "target_topm", "m": 1}},
        {"hidden": [{"kind": "mlp", "router": "linear"}]},
        {"regularisation": {"sparsity": 0.1}},
        {"carried": {"m": 5}},
    ],
    ids=str,
)
def test_what_it_does_not_have_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="carried"):
        core_of(**changes)


def test_the_streams_do_not_mix() -> None:
    with pytest.raises(UsageError, match='need stream = "carried"'):
        validate(HModelStructure, {"stream": "paper", "carried": {"m": 2}}, what="x")
    carried = core_of().structure
    assert paper(carried).stream == "paper"
