"""Samples divided by group: what stays together, who gets how much, and that order changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import DataError
from evodevo.tasks.base import ALL_SPLITS, Split
from evodevo.tasks.table.group_splits import Shares, divide

SAMPLES = st.lists(st.tuples(st.integers(0, 30).map(lambda n: b"%d" % n), st.integers(0, 3)), min_size=8, max_size=120)


@given(SAMPLES, st.randoms(use_true_random=False))
def test_every_sample_has_one_split_and_no_group_two(samples: list[tuple[bytes, int]], shuffle: object) -> None:
    groups, classes = [group for group, _ in samples], [kind for _, kind in samples]
    if len(set(groups)) < 4:
        with pytest.raises(DataError, match="cannot be divided into 4 splits"):
            divide(groups, classes, Shares())
        return
    places = divide(groups, classes, Shares())
    assert list(places) == list(ALL_SPLITS)
    assert sorted(np.concatenate(list(places.values())).tolist()) == list(range(len(samples)))
    owner: dict[bytes, Split] = {}
    for split, rows in places.items():
        assert len(rows)
        assert (np.diff(rows) > 0).all()
        for row in rows:
            assert owner.setdefault(groups[row], split) == split
    order = list(range(len(samples)))
    shuffle.shuffle(order)  # type: ignore[attr-defined]
    again = divide([groups[row] for row in order], [classes[row] for row in order], Shares())
    for split in ALL_SPLITS:
        assert {groups[order[row]] for row in again[split]} == {groups[row] for row in places[split]}


@pytest.mark.parametrize("shares", [Shares(), Shares(train=0.4, architecture=0.2, validation=0.2, test=0.2)])
def test_classes_are_spread_evenly(shares: Shares) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 6, 400)
    groups = [b"%d" % group for group, size in enumerate(sizes) for _ in range(size)]
    kinds = rng.choice(4, 400, p=(0.6, 0.25, 0.1, 0.05))
    classes = np.repeat(kinds, sizes)
    places = divide(groups, classes.tolist(), shares)
    for kind in range(4):
        total = (classes == kind).sum()
        found = [(classes[places[split]] == kind).sum() / total for split in ALL_SPLITS]
        np.testing.assert_allclose(found, shares.of(ALL_SPLITS), atol=6 / total)


def test_a_class_in_hardly_any_group_is_taught_and_a_split_without_share_is_empty_or_left_out() -> None:
    groups = [b"%d" % row for row in range(41)]
    places = divide(groups, ["common"] * 40 + ["rare"], Shares())
    assert 40 in places["train"]
    groups = groups[:40]
    places = divide(groups, [0] * 40, Shares(architecture=0))
    assert len(places["architecture"]) == 0
    assert list(divide(groups, [0] * 40, Shares(), ("train", "test"))) == ["train", "test"]
