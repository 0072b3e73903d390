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
    connections = np.zeros((2, 3, 2, 3))
    connections[:, :, 0, 0] = 0.7
    alone, silent = measures.self_loops(trace_of(np.ones((2, 1, 3)), connections))
    assert alone == 1
    assert math.isnan(silent)


def test_route_entropy_against_a_loop(trace) -> None:
    for t in range(4):
        rows = trace.first if t == 0 else trace.connections[:, t - 1]
        each = []
        for row in rows.reshape(-1, rows.shape[-1]).astype(float):
            total = sum(row)
            each.append(-sum(c / total * math.log(c / total) for c in row if c > 0))
        assert measures.route_entropy(trace)[t] == pytest.approx(np.mean(each), rel=1e-6)
    assert measures.route_entropy(chain_trace(hidden=3)) == pytest.approx([0, 0, 0, 0]), "one target"
    assert np.isnan(measures.route_entropy(trace_of(np.zeros((2, 1, 3)), np.zeros((2, 1, 2, 3))))).all(), "silence"
    for hidden, outputs in ((1, 1), (3, 1), (5, 2)):
        targets = hidden + outputs
        uniform = trace_of(np.full((2, 1, targets), 0.3), np.full((2, 3, hidden, targets), 0.3))
        wanted = [math.log(targets)] * 3 + [math.log(outputs)]
        assert measures.route_entropy(uniform) == pytest.approx(wanted, abs=1e-6)


def test_hard_paths_count_what_differs() -> None:
    first = np.zeros((6, 1, 2))
    first[:, 0, 0] = [0.9, 0.9, 0.1, 0.9, 0.2, 0.6]
    first[4, 0, 1] = 1.0
    paths = measures.hard_paths(trace_of(first, np.zeros((6, 1, 1, 2))))
    assert paths.count == 3
    assert paths.labels.tolist()[:2] == [0, 0]
    assert paths.shares == pytest.approx([4 / 6, 1 / 6, 1 / 6])
    assert paths.effective == pytest.approx(math.exp(-sum(p * math.log(p) for p in (4 / 6, 1 / 6, 1 / 6))))
    stable = measures.hard_paths(chain_trace(samples=7))
    assert (stable.count, stable.effective) == (1, pytest.approx(1.0))
    assert measures.hard_paths(chain_trace(samples=7).select(np.array([], dtype=np.int64))).count == 0


def test_depth_of_a_chain_is_its_length_and_mass_adds_up(trace) -> None:
    assert measures.depth_used(chain_trace(samples=2, hidden=5)) == pytest.approx([5, 5])
    assert measures.output_mass(trace).sum(axis=1) == pytest.approx(np.ones(5))
    for b in range(5):
        mass = [float(trace.first[b, :, 4:].sum())] + [float(trace.connections[b, t, :, 4:].sum()) for t in range(3)]
        wanted = sum(t * m for t, m in enumerate(mass)) / sum(mass)
        assert measures.depth_used(trace)[b] == pytest.approx(wanted, rel=1e-5)
    shallow = trace_of(np.array([[[0.0, 1.0]]]), np.zeros((1, 2, 1, 2)))
    assert measures.depth_used(shallow) == pytest.approx([0]), "an input that speaks to outputs only"
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


@pytest.mark.parametrize(
    "order", [(0, 1, 2, 3), (2, 0, 3, 1), tuple(np.random.default_rng(0).permutation(20).tolist())]
)
def test_a_perfect_chain_has_likeness_one_in_its_order(order: tuple[int, ...]) -> None:
    chain = chains.nearest_chain(chain_trace(hidden=len(order), order=order))
    assert (chain.order, chain.exact) == (order, len(order) == 4)
    assert chain.likeness == pytest.approx(1)


def test_uniform_routes_are_as_like_a_chain_as_stated_and_self_loops_not_at_all() -> None:
    for hidden in (2, 4, 7, 14):
        uniform = trace_of(np.ones((1, 1, hidden + 1)), np.full((1, 3, hidden, hidden + 1), 0.4))
        chain = chains.nearest_chain(uniform)
        assert chain.likeness == pytest.approx(math.sqrt(hidden - 1) / hidden, rel=1e-5)
        assert sorted(chain.order) == list(range(hidden))
        assert chain.exact == (hidden <= chains.EXACT_UP_TO)
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


@pytest.mark.parametrize(("iterations", "usable"), [(0, 2 * 1), (1, 2 * 4 + 3 * 1), (4, 2 * 4 + 3 * 3 * 4 + 3 * 1)])
def test_only_what_somebody_could_hear_is_usable(iterations: int, usable: int) -> None:
    # Two inputs, three hidden layers, one output; every weight is 1/2 wherever a weight can be.
    trace = trace_of(np.full((5, 2, 4), 0.5), np.full((5, iterations, 3, 4), 0.5))
    assert trace.usable().shape == (5, usable)
    assert (trace.usable() == 0.5).all()
    assert trace.select(np.asarray([], np.int64)).usable().shape == (0, usable)
