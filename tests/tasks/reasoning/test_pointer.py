"""The pointer task against walks step by step through its words."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import UsageError
from evodevo.settings import validate
from evodevo.tasks.base import SPLITS
from evodevo.tasks.generated import SplitSizes
from evodevo.tasks.reasoning.pointer import PointerSettings, PointerTask, fingerprint, walk


@lru_cache(maxsize=8)
def opened(nodes: int = 6, hops_min: int = 1, hops_max: int = 4) -> PointerTask:
    sizes = SplitSizes(train=2_000, validation=400, test=400)
    return PointerTask.open(PointerSettings(nodes=nodes, hops_min=hops_min, hops_max=hops_max, samples=sizes))


@pytest.mark.parametrize(("nodes", "low", "high"), [(6, 1, 4), (4, 0, 2), (16, 3, 9)])
def test_answers_are_where_walks_end(nodes: int, low: int, high: int) -> None:
    task = opened(nodes, low, high)
    for split in SPLITS:
        hops = task.groups(split, np.arange(task.count(split)))["hops"]
        for place in range(300):
            shown = task.show(split, place)
            arrows = dict(re.findall(r"(\d+)->(\d+)", shown["text"]))
            start, count = re.search(r"from (\d+), (\d+) hop", shown["text"]).groups()  # type: ignore[union-attr]
            assert len(arrows) == nodes
            for _ in range(int(count)):
                start = arrows[start]
            assert start == shown["answer"]
            assert task.group_names["hops"][hops[place]] == count


@given(st.data())
def test_walk_is_step_by_step(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, 9))
    node = st.integers(0, nodes - 1)
    rows = data.draw(st.lists(st.tuples(st.lists(node, min_size=nodes, max_size=nodes), node, st.integers(0, 12))))
    expected = []
    for targets, start, hops in rows:
        for _ in range(hops):
            start = targets[start]
        expected.append(start)
    targets = np.asarray([row[0] for row in rows], np.int64).reshape(len(rows), nodes)
    start, hops = (np.asarray([row[place] for row in rows], np.int64) for place in (1, 2))
    assert walk(targets, start, hops).tolist() == expected


def test_no_map_stands_in_two_splits_in_any_order() -> None:
    task = opened(4)  # 256 maps: all are drawn many times
    maps = [
        {frozenset(re.findall(r"\d+->\d+", task.show(split, place)["text"])) for place in range(task.count(split))}
        for split in SPLITS
    ]
    assert sum(map(len, maps)) == len(set.union(*maps)) > 200
    maps = np.asarray(np.meshgrid(*[np.arange(4)] * 4)).reshape(4, -1).T
    assert len(np.unique(fingerprint(maps))) == 4**4


def test_the_order_of_arrows_says_nothing_and_shortcuts_are_far_from_the_answer() -> None:
    task = opened()
    text = task.fetch("train", np.arange(2_000))["text"]
    start = text[:, -2] - 36
    place = (text[:, :6] // 6 == start[:, None]).argmax(axis=1)
    assert np.abs(np.bincount(place, minlength=6) / 2_000 - 1 / 6).max() < 0.04
    assert np.abs(np.bincount(task.groups("train", np.arange(2_000))["hops"]) / 2_000 - 1 / 4).max() < 0.04
    baselines = task.baselines("test")
    assert baselines["majority"] < 0.25 < baselines["most pointed at"] < baselines["fixed hops"] < 0.75


@pytest.mark.parametrize(
    ("values", "message"),
    [({"hops_min": 5}, "hops_min is 5 and hops_max 4"), ({"nodes": 3}, "nodes"), ({"hop": 3}, "unknown key 'hop'")],
)
def test_wrong_settings_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        validate(PointerSettings, values, what="task")
