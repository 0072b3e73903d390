"""Ranks, crowding and hypervolume against brute force, pymoo, and their own laws."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pymoo.functions.standard.non_dominated_sorting import fast_non_dominated_sort
from pymoo.indicators.hv import HV
from pymoo.operators.survival.rank_and_crowding.metrics import calc_crowding_distance

import evodevo
from evodevo.errors import UsageError
from evodevo.search import dominance

LAWS = settings(max_examples=40, deadline=None, database=None)

# Few different values, so that ties and duplicates are the rule; and free ones.
COARSE = st.sampled_from([0.0, 1.0, 2.0, 3.0])
FREE = st.floats(-1e6, 1e6)
SHAPES = st.tuples(st.integers(1, 24), st.integers(1, 5))


def tables(elements: st.SearchStrategy[float]) -> st.SearchStrategy[np.ndarray]:
    return SHAPES.flatmap(lambda shape: arrays(float, shape, elements=elements))


def peel(values: np.ndarray, violations: np.ndarray) -> list[int]:
    """Ranks by their definition: take away the non-dominated, again and again."""
    left, result, rank = set(range(len(values))), [-1] * len(values), 0
    while left:
        layer = {
            i
            for i in left
            if not any(dominance.dominates(values[j], values[i], violations[j], violations[i]) for j in left)
        }
        for i in layer:
            result[i] = rank
        left, rank = left - layer, rank + 1
    return result


@LAWS
@given(tables(COARSE) | tables(FREE) | tables(COARSE | st.just(np.inf) | st.just(-np.inf)))
def test_ranks_are_those_of_the_definition_and_of_pymoo(values: np.ndarray) -> None:
    ranks = dominance.ranks(values)
    assert ranks.tolist() == peel(values, np.zeros(len(values)))
    # pymoo's own sorting; its NonDominatedSorting calls moocore as we do.
    fronts = fast_non_dominated_sort(values)
    assert [sorted(front) for front in fronts] == [
        np.flatnonzero(ranks == rank).tolist() for rank in range(ranks.max() + 1)
    ]
    assert dominance.front(values).tolist() == np.flatnonzero(ranks == 0).tolist()


@LAWS
@given(tables(COARSE), st.data())
def test_constrained_ranks_are_those_of_the_definition(values: np.ndarray, data: st.DataObject) -> None:
    violations = data.draw(arrays(float, len(values), elements=st.sampled_from([0.0, 0.0, 0.5, 2.0])))
    assert dominance.constrained_ranks(values, violations).tolist() == peel(values, violations)


@LAWS
@given(tables(COARSE), st.data())
def test_infeasible_values_change_nothing(values: np.ndarray, data: st.DataObject) -> None:
    violations = data.draw(arrays(float, len(values), elements=st.sampled_from([0.0, 1.0])))
    others = values.copy()
    others[violations > 0] = -5.0
    assert (
        dominance.constrained_ranks(values, violations).tolist()
        == dominance.constrained_ranks(others, violations).tolist()
    )


# Deb et al. 2002, definition 1; a is (1, 1) and b is worse, equal or incomparable where it says so.
@pytest.mark.parametrize(
    ("b", "violation_a", "violation_b", "a_dominates", "b_dominates"),
    [
        ((2.0, 1.0), 0.0, 0.0, True, False),  # both feasible: the objectives decide
        ((1.0, 1.0), 0.0, 0.0, False, False),
        ((2.0, 0.0), 0.0, 0.0, False, False),
        ((0.0, 0.0), 0.0, 0.1, True, False),  # feasible beats infeasible, however good
        ((2.0, 2.0), 0.1, 0.0, False, True),
        ((0.0, 0.0), 0.1, 0.2, True, False),  # both infeasible: the smaller violation, however bad
        ((2.0, 2.0), 0.2, 0.1, False, True),
        ((0.0, 0.0), 0.1, 0.1, False, False),  # equal violations: neither, whatever the objectives
    ],
)
def test_constrained_domination(
    b: tuple[float, float], violation_a: float, violation_b: float, a_dominates: bool, b_dominates: bool
) -> None:
    a = (1.0, 1.0)
    assert dominance.dominates(a, b, violation_a, violation_b) is a_dominates
    assert dominance.dominates(b, a, violation_b, violation_a) is b_dominates


def test_front_is_of_the_feasible_only() -> None:
    values = [[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [2.0, 2.0]]
    assert dominance.front(values, [1.0, 0.0, 0.0, 0.0]).tolist() == [1, 2]
    assert dominance.front(values, [1.0, 1.0, 2.0, 3.0]).tolist() == []


@LAWS
@given(tables(FREE) | tables(COARSE))
def test_crowding_is_pymoos_on_fronts_without_duplicates(values: np.ndarray) -> None:
    values = values[np.sort(np.unique(values, axis=0, return_index=True)[1])]
    ranks = dominance.ranks(values)
    crowding = dominance.crowding(values, ranks)
    for rank in range(ranks.max() + 1):
        members = values[ranks == rank]
        # pymoo divides the paper's sum by the number of objectives and calls one or two points infinite.
        theirs = (
            calc_crowding_distance(members) * values.shape[1] if len(members) > 2 else np.full(len(members), np.inf)
        )
        np.testing.assert_allclose(crowding[ranks == rank], theirs, rtol=1e-9, atol=1e-12)


def test_crowding_by_hand() -> None:
    values = np.array([[0.0, 4.0], [1.0, 2.0], [3.0, 1.0], [4.0, 0.0], [1.0, 2.0], [9.0, 9.0]])
    crowding = dominance.crowding(values, dominance.ranks(values))
    # (3 - 0)/4 + (4 - 1)/4 and (4 - 1)/4 + (2 - 0)/4; a copy has 0; a front of one is infinitely rare.
    assert crowding.tolist() == [np.inf, 1.5, 1.25, np.inf, 0.0, np.inf]


def test_crowding_of_the_widest_finite_range() -> None:
    values = np.array([[-1.7e308, 2.0], [0.0, 1.0], [1.7e308, 0.0]])
    assert dominance.crowding(values, [0, 0, 0]).tolist() == [np.inf, 2.0, np.inf]


def _volume_of_cells(values: np.ndarray) -> float:
    """The volume below (1, …, 1) cut at every coordinate: the sum of the cells that a point dominates."""
    rows = values[(values < 1).all(axis=1)]
    cuts = [np.append(np.unique(column), 1.0) for column in rows.T]
    dominated = np.zeros([len(cut) - 1 for cut in cuts], dtype=bool)
    for row in rows:
        dominated[
            tuple(slice(int(np.searchsorted(cut, value)), None) for cut, value in zip(cuts, row, strict=True))
        ] = True
    volumes = np.ones(())
    for cut in cuts:
        volumes = volumes[..., None] * np.diff(cut)
    return float(volumes[dominated].sum()) if len(rows) else 0.0


@LAWS
@given(tables(st.floats(0, 2)), st.data())
def test_hypervolume_laws(values: np.ndarray, data: st.DataObject) -> None:
    reference = np.ones(values.shape[1])
    volume = dominance.hypervolume(values, reference)
    assert volume == pytest.approx(float(HV(ref_point=reference)(values)), abs=1e-9)
    assert volume == pytest.approx(_volume_of_cells(values), abs=1e-12)
    assert 0 <= volume <= 1 + 1e-12
    # Neither order nor dominated points nor copies matter, not in the last bit.
    order = np.array(data.draw(st.permutations(range(len(values)))))
    assert dominance.hypervolume(values[order], reference) == volume
    assert dominance.hypervolume(values[dominance.front(values)], reference) == volume
    assert dominance.hypervolume(np.vstack([values, values]), reference) == volume
    # A point that is added never takes anything away; one that is better adds.
    history = [dominance.hypervolume(values[:count], reference) for count in range(len(values) + 1)]
    assert history[0] == 0
    assert all(after >= before - 1e-12 for before, after in pairwise(history))
    inside = values[(values < 0.9).all(axis=1) & (values > 0.1).all(axis=1)]
    if len(inside):
        better = np.vstack([values, inside[0] * 0.5])
        if not any(dominance.dominates(one, better[-1]) or (one == better[-1]).all() for one in values):
            assert dominance.hypervolume(better, reference) > volume


def test_hypervolume_of_many_equal_points() -> None:
    # moocore 0.3.2 alone answers 0.9999999999995453, or 1.0000000000009095 in another order.
    values = np.zeros((12, 5))
    values[0, 0] = 0.6934994
    assert dominance.hypervolume(values, np.ones(5)) == 1.0


def test_hypervolume_by_hand() -> None:
    assert dominance.hypervolume([[0.0, 0.5], [0.5, 0.0]], [1.0, 1.0]) == pytest.approx(0.75)
    assert dominance.hypervolume([[0.25]], [1.0]) == pytest.approx(0.75)
    assert dominance.hypervolume([[1.0, 0.0], [np.inf, 0.0], [0.0, 2.0]], [1.0, 1.0]) == 0.0
    assert dominance.hypervolume([], [1.0, 1.0]) == 0.0


@pytest.mark.parametrize(
    ("values", "reference"),
    [
        ([[np.nan, 1.0]], [2.0, 2.0]),
        ([[-np.inf, 1.0]], [2.0, 2.0]),
        ([[-1.7e308, -1.7e308]], [2.0, 2.0]),
        ([[1.0, 1.0]], [2.0]),
        ([[1.0, 1.0]], [2.0, np.inf]),
        ([1.0, 1.0], [2.0, 2.0]),
    ],
)
def test_hypervolume_refuses_what_has_no_answer(values: list[object], reference: list[float]) -> None:
    with pytest.raises(UsageError):
        dominance.hypervolume(values, reference)  # type: ignore[arg-type]


def test_nan_is_refused_not_ranked() -> None:
    # pymoo 0.6 reports a NaN point as the optimum.
    with pytest.raises(UsageError, match="NaN"):
        dominance.ranks([[np.nan, 0.0], [1.0, 1.0]])


def test_minus_infinity_is_ranked_and_survived() -> None:
    # moocore 0.3.2 given these points ends the process with a segmentation fault.
    rng = np.random.default_rng(0)
    for _ in range(60):
        values = rng.choice([0.0, 1.0, 2.0, np.inf, -np.inf], size=(12, 3))
        assert dominance.ranks(values).tolist() == peel(values, np.zeros(12))


def test_nothing_to_rank() -> None:
    assert dominance.ranks(np.empty((0, 2))).tolist() == []
    assert dominance.crowding(np.empty((0, 2)), []).tolist() == []
    assert dominance.front(np.empty((0, 2))).tolist() == []


def test_moocore_is_known_here_only() -> None:
    root = Path(evodevo.__file__).parent
    importers = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if "moocore" in (source := path.read_text())
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "moocore" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "moocore")
    }
    assert importers == {"search/dominance.py"}
