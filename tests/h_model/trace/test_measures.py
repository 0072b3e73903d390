"""Measures of routing traces against naive loops and traces whose answers are known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.errors import UsageError
from evodevo.h_model.trace import chains, measures
from fixtures.traces import chain_trace, classes_trace, random_trace, trace_of


@pytest.fixture(scope="module")
def trace():
    return random_trace(samples=5, iterations=3, hidden=4, inputs=2, outputs=2, seed=3)


def test_activity_is_the_inflow_gate_of_layers_that_were_called() -> None:
    trace = classes_trace(12)
    found = measures.activity(trace)
    for b, t, h in np.ndindex(found.shape):
        sources = trace.first[b, :, h] if t == 0 else trace.connections[b, t - 1, :, h]
        wanted = min(1.0, float(sources.sum())) * bool(trace.called[b, t, h])
        assert found[b, t, h] == pytest.approx(wanted, abs=1e-6)


def test_self_loops_against_a_loop(trace) -> None:
    for j in range(4):
        own = sum(float(trace.connections[b, t, j, j]) for b in range(5) for t in range(3))
        every = sum(float(trace.connections[b, t, j, k]) for b in range(5) for t in range(3) for k in range(4))
        assert measures.self_loops(trace)[j] == pytest.approx(own / every, rel=1e-5)


def test_layers_that_only_speak_to_themselves_have_share_one_and_silent_ones_none() -> None:
    connections = np.zeros((2, 3, 2, 3))
    connections[:, :, 0, 0] = 0.7
    shares = measures.self_loops(trace_of(np.ones((2, 1, 3)), connections))
    assert shares[0] == 1
    assert math.isnan(shares[1])


def test_route_entropy_against_a_loop(trace) -> None:
    for t in range(4):
        rows = trace.first if t == 0 else trace.connections[:, t - 1]
        each = []
        for row in rows.reshape(-1, rows.shape[-1]).astype(float):
            total = sum(row)
            each.append(-sum(c / total * math.log(c / total) for c in row if c > 0))
        assert measures.route_entropy(trace)[t] == pytest.approx(np.mean(each), rel=1e-6)


@pytest.mark.parametrize(("hidden", "outputs"), [(1, 1), (3, 1), (5, 2)])
def test_uniform_routes_have_entropy_ln_n(hidden: int, outputs: int) -> None:
    targets = hidden + outputs
    uniform = trace_of(np.full((2, 1, targets), 0.3), np.full((2, 3, hidden, targets), 0.3))
    assert measures.route_entropy(uniform) == pytest.approx([math.log(targets)] * 3 + [math.log(outputs)], abs=1e-6)


def test_one_target_has_no_entropy_and_silence_has_none_at_all() -> None:
    assert measures.route_entropy(chain_trace(hidden=3)) == pytest.approx([0, 0, 0, 0])
    assert np.isnan(measures.route_entropy(trace_of(np.zeros((2, 1, 3)), np.zeros((2, 1, 2, 3))))).all()


def test_hard_paths_count_what_differs() -> None:
    connections = np.zeros((6, 1, 1, 2))
    first = np.zeros((6, 1, 2))
    first[:, 0, 0] = [0.9, 0.9, 0.1, 0.9, 0.2, 0.6]
    first[4, 0, 1] = 1.0
    paths = measures.hard_paths(trace_of(first, connections))
    assert paths.count == 3
    assert paths.labels.tolist()[:2] == [0, 0]
    assert paths.shares == pytest.approx([4 / 6, 1 / 6, 1 / 6])
    assert paths.effective == pytest.approx(math.exp(-sum(p * math.log(p) for p in (4 / 6, 1 / 6, 1 / 6))))


def test_a_stable_architecture_is_one_path() -> None:
    paths = measures.hard_paths(chain_trace(samples=7))
    assert (paths.count, paths.effective) == (1, pytest.approx(1.0))
    assert measures.hard_paths(chain_trace(samples=7).select(np.array([], dtype=np.int64))).count == 0


def test_depth_of_a_chain_is_its_length_and_mass_adds_up(trace) -> None:
    assert measures.depth_used(chain_trace(samples=2, hidden=5)) == pytest.approx([5, 5])
    assert measures.output_mass(trace).sum(axis=1) == pytest.approx(np.ones(5))
    for b in range(5):
        mass = [float(trace.first[b, :, 4:].sum())] + [float(trace.connections[b, t, :, 4:].sum()) for t in range(3)]
        wanted = sum(t * m for t, m in enumerate(mass)) / sum(mass)
        assert measures.depth_used(trace)[b] == pytest.approx(wanted, rel=1e-5)


def test_an_input_that_speaks_to_outputs_only_has_depth_zero() -> None:
    shallow = trace_of(np.array([[[0.0, 1.0]]]), np.zeros((1, 2, 1, 2)))
    assert measures.depth_used(shallow) == pytest.approx([0])
    assert np.isnan(measures.depth_used(trace_of(np.zeros((1, 1, 2)), np.zeros((1, 2, 1, 2))))).all()


def test_no_iterations_are_allowed_everywhere() -> None:
    trace = trace_of(np.ones((2, 1, 3)), np.zeros((2, 0, 2, 3)))
    assert measures.activity(trace).shape == (2, 0, 2)
    assert np.isnan(measures.self_loops(trace)).all()
    assert measures.route_entropy(trace).shape == (1,)
    assert measures.depth_used(trace) == pytest.approx([0, 0])
    assert chains.nearest_chain(trace).likeness == 0


def test_drift_is_the_mean_change_and_vanishes_without_any(trace) -> None:
    other, last = random_trace(5, 3, 4, inputs=2, outputs=2, seed=4), trace
    drift = measures.route_drift([trace, other, last])
    apart = float(np.abs(trace.routes() - other.routes()).mean())
    assert drift.step == pytest.approx([0, apart, apart], rel=1e-5)
    assert drift.to_last == pytest.approx([0, apart, 0], rel=1e-5)
    with pytest.raises(UsageError, match="at least one"):
        measures.route_drift([])
    with pytest.raises(UsageError, match="same samples"):
        measures.route_drift([trace, random_trace(4, 3, 4, inputs=2, outputs=2)])


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1)])
def test_a_perfect_chain_has_likeness_one_in_its_order(order: tuple[int, ...]) -> None:
    chain = chains.nearest_chain(chain_trace(hidden=4, order=order))
    assert chain.order == order
    assert chain.likeness == pytest.approx(1)
    assert chain.exact


@pytest.mark.parametrize("hidden", [2, 4, 7, 14])
def test_uniform_routes_are_as_like_a_chain_as_stated(hidden: int) -> None:
    uniform = trace_of(np.ones((1, 1, hidden + 1)), np.full((1, 3, hidden, hidden + 1), 0.4))
    chain = chains.nearest_chain(uniform)
    assert chain.likeness == pytest.approx(math.sqrt(hidden - 1) / hidden, rel=1e-5)
    assert sorted(chain.order) == list(range(hidden))
    assert chain.exact == (hidden <= chains.EXACT_UP_TO)


def test_self_loops_are_no_chain() -> None:
    connections = np.zeros((1, 3, 3, 4))
    connections[:, :, range(3), range(3)] = 1
    assert chains.nearest_chain(trace_of(np.ones((1, 1, 4)), connections)).likeness == 0


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_best_path_is_the_best_of_all_orders(count: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).random((count, count))

    def weight(order: tuple[int, ...]) -> float:
        return sum(matrix[one, two] for one, two in itertools.pairwise(order))

    found, greedy = chains.best_path(matrix), chains.greedy_path(matrix)
    assert sorted(found) == sorted(greedy) == list(range(count))
    assert weight(found) == pytest.approx(max(map(weight, itertools.permutations(range(count)))))
    assert weight(greedy) <= weight(found) + 1e-12


def test_the_greedy_path_finds_a_long_chain() -> None:
    order = tuple(np.random.default_rng(0).permutation(20).tolist())
    chain = chains.nearest_chain(chain_trace(hidden=20, order=order))
    assert (chain.order, chain.exact) == (order, False)
    assert chain.likeness == pytest.approx(1)


@pytest.mark.parametrize(("iterations", "usable"), [(0, 2 * 1), (1, 2 * 4 + 3 * 1), (4, 2 * 4 + 3 * 3 * 4 + 3 * 1)])
def test_only_what_somebody_could_hear_is_usable(iterations: int, usable: int) -> None:
    # Two inputs, three hidden layers, one output; every weight is 1/2 wherever a weight can be.
    trace = trace_of(np.full((5, 2, 4), 0.5), np.full((5, iterations, 3, 4), 0.5))
    assert trace.usable().shape == (5, usable)
    assert (trace.usable() == 0.5).all()
    assert trace.select(np.asarray([], np.int64)).usable().shape == (0, usable)
