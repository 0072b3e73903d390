"""Laws of the split of samples: by content, never twice, never empty, held-out first."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import DataError
from evodevo.tasks.base import SPLITS
from evodevo.tasks.sample_splits import Pool, assign, fingerprint

CONTENTS = st.lists(st.integers(0, 60).map(lambda number: b"%d" % number), min_size=3, max_size=120)


def _names(contents: list[bytes], assignment: object) -> dict[str, set[bytes]]:
    return {split: {contents[row] for row in assignment.places[split]} for split in SPLITS}  # type: ignore[attr-defined]


@given(CONTENTS.filter(lambda values: len(set(values)) >= 3), st.randoms())
def test_a_partition_by_content_that_ignores_order(contents: list[bytes], shuffler: random.Random) -> None:
    found = assign(contents, ["all"] * len(contents))
    places = np.concatenate([found.places[split] for split in SPLITS])
    assert sorted(places.tolist()) == list(range(len(contents)))
    names = _names(contents, found)
    assert sum(map(len, names.values())) == len(set(contents)), "no content stands in two splits"
    assert all(names.values())
    assert found.dropped == 0
    assert found.repeated == len(contents) - len(set(contents))
    shuffled = contents[:]
    shuffler.shuffle(shuffled)
    assert _names(shuffled, assign(shuffled, ["all"] * len(contents))) == names


def test_three_samples_make_three_splits_wherever_they_fall_and_two_are_refused() -> None:
    # By their places alone these are one of training and two of the test split.
    found = assign([b"0", b"46", b"47"], ["all"] * 3)
    assert [len(found.places[split]) for split in SPLITS] == [1, 1, 1]
    with pytest.raises(DataError, match="2 distinct samples leave"):
        assign([b"a", b"b", b"a"], ["all"] * 3)
    assert fingerprint(b"ab", b"c") != fingerprint(b"a", b"bc"), "it depends on where parts end"
    assert len(fingerprint()) == 32


def test_a_sample_stays_where_it_is_when_others_come() -> None:
    contents = [b"%d" % number for number in range(2_000)]
    few, many = (assign(contents[:count], ["all"] * count) for count in (1_000, 2_000))
    for split in SPLITS:
        assert set(few.places[split]) == {place for place in many.places[split] if place < 1_000}
    assert 1_540 < len(many.places["train"]) < 1_660
    assert 150 < len(many.places["validation"]) < 250


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["train_validation", "test"])), min_size=1, max_size=80))
def test_a_given_test_split_stays_whole_and_its_copies_leave_training(rows: list[tuple[int, Pool]]) -> None:
    contents = [b"%d" % number for number, _ in rows]
    pools: list[Pool] = [pool for _, pool in rows]
    held = {content for content, pool in zip(contents, pools, strict=True) if pool == "test"}
    if not held or len(set(contents) - held) < 2:
        with pytest.raises(DataError, match="split empty"):
            assign(contents, pools)
        return
    try:
        found = assign(contents, pools)
    except DataError:
        return  # what is left for validation was a copy of the test split
    names = _names(contents, found)
    assert names["test"] == held
    assert found.places["test"].tolist() == [row for row, pool in enumerate(pools) if pool == "test"]
    assert not (names["train"] | names["validation"]) & held
    assert found.dropped == sum(c in held and pool != "test" for c, pool in zip(contents, pools, strict=True))


def test_units_stay_together() -> None:
    contents = [b"%d" % number for number in range(900)]
    units = [b"%d" % (number // 3) for number in range(900)]
    found = assign(contents, ["all"] * 900, units=units)
    names = [{units[row] for row in found.places[split]} for split in SPLITS]
    assert sum(map(len, names)) == 300


@given(st.integers(0, 1_000))
def test_training_sees_every_class_even_if_rare(start: int) -> None:
    contents = [b"%d" % number for number in range(start, start + 40)]
    classes = [number // 2 for number in range(40)]
    found = assign(contents, ["all"] * 40, classes=classes)
    assert {classes[row] for row in found.places["train"]} == set(range(20))
    assert all(len(found.places[split]) for split in SPLITS)
