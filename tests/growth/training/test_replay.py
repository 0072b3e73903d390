"""What is remembered of samples, in which proportions, and what it adds to a loss (eq. 88)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.growth.training.replay import AGAIN, ReplayedBatches, SampleReplay, strata_of, with_replay
from evodevo.randomness import generator
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.reasoning.pointer import PointerSettings, PointerTask

CLASS = OutputSpec("answer", "class", 3, ("a", "b", "c"))
LABELS = OutputSpec("tags", "labels", 2, ("x", "y"))


def _stream(seed: int, steps: int, weights: tuple[float, ...], places: int = 1000) -> list[tuple[list[int], list[str]]]:
    """Samples of classes of unequal frequency; a place always has the same class."""
    rng = generator(seed, "stream")
    classes = rng.choice(len(weights), size=places, p=np.asarray(weights) / sum(weights))
    drawn = [rng.integers(places, size=8) for _ in range(steps)]
    return [(list(map(int, one)), [f"class={classes[place]}" for place in one]) for one in drawn]


@given(
    seed=st.integers(0, 99),
    capacity=st.integers(1, 40),
    weights=st.lists(st.floats(0.01, 1), min_size=1, max_size=6).map(tuple),
)
def test_the_memory_keeps_its_laws(seed: int, capacity: int, weights: tuple[float, ...]) -> None:
    replay = SampleReplay(capacity, seed=seed)
    shown: dict[str, set[int]] = {}
    for step, (places, names) in enumerate(_stream(seed, 30, weights)):
        replay.see(step, places, names)
        for place, name in zip(places, names, strict=True):
            shown.setdefault(name, set()).add(place)
        held = replay.strata()
        everything = [place for places in held.values() for place in places]
        assert len(everything) == len(set(everything)) == len(replay)
        assert len(replay) == min(capacity, len(set().union(*shown.values())))
        assert all(set(places) <= shown[name] for name, places in held.items())
    # Who never had the most has lost nothing; who had has as many as the others, or one less.
    most = max(map(len, held.values()))
    for name, seen in shown.items():
        if name in replay.state["full"]:
            assert len(held.get(name, ())) >= most - 1
        else:
            assert set(held[name]) == seen


def test_rare_classes_are_held_whole_and_common_ones_evenly() -> None:
    replay = SampleReplay(60, seed=0)
    places = iter(range(10_000))
    for step in range(200):
        replay.see(step, [next(places) for _ in range(10)], ["a"] * 5 + ["b"] * 4 + ["c" if step % 50 == 0 else "a"])
    held = {name: len(places) for name, places in replay.strata().items()}
    assert held == {"a": 28, "b": 28, "c": 4}


@pytest.mark.slow
def test_within_a_class_everything_seen_is_equally_likely() -> None:
    """200 samples of a class in a memory that holds 20 of them: the early, the middle and the late ones alike."""
    counted: Counter[int] = Counter()
    for seed in range(300):
        replay = SampleReplay(40, seed=seed)
        for step in range(50):
            replay.see(step, range(8 * step, 8 * step + 8), ["a", "b"] * 4)
        assert {len(places) for places in replay.strata().values()} == {20}
        counted.update(place // 100 for places in replay.strata().values() for place in places)
    quarter = 300 * 40 / 4
    spread = (300 * 40 * 0.25 * 0.75) ** 0.5
    assert all(abs(counted[number] - quarter) < 4 * spread for number in range(4))


def test_a_draw_is_balanced_and_repeats_nobody_in_vain() -> None:
    replay = SampleReplay(30, seed=1)
    replay.see(0, range(12), ["a"] * 8 + ["b"] * 3 + ["c"])
    drawn = replay.draw(5, 9)
    names = Counter("a" if place < 8 else "b" if place < 11 else "c" for place in drawn)
    assert names == {"a": 3, "b": 3, "c": 3}
    assert len({place for place in drawn if place < 11}) == 6
    assert np.array_equal(drawn, replay.draw(5, 9))
    assert not np.array_equal(drawn, replay.draw(6, 9))


def test_it_goes_on_from_its_json_and_passes_over_what_it_has_seen() -> None:
    whole, state = SampleReplay(12, seed=4), json.loads("{}")
    first = SampleReplay(12, seed=4, state=state)
    # Rare classes come late, in an order that is not that of their names, and push others out.
    stream = [(range(8 * step, 8 * step + 8), ["z", "y"] * 4) for step in range(9)]
    stream += [(range(8 * step, 8 * step + 8), ["z", "y", "x", "a"] * 2) for step in range(9, 12)]
    for step, seen in enumerate(stream):
        whole.see(step, *seen)
        if step < 9:
            first.see(step, *seen)
            first.see(0, *stream[0])  # the bench looks at the first batch again
    kept = json.loads(canonical.dumps(state))
    second = SampleReplay(12, seed=4, state=kept)
    for step, seen in enumerate(stream):
        second.see(step, *seen)
    assert second.strata() == whole.strata()
    assert np.array_equal(second.draw(12, 8), whole.draw(12, 8))
    assert kept == whole.state  # in place


@pytest.mark.parametrize(
    "state", [{"places": {"a": [1, 2, 3]}, "seen": {"a": 3}}, {"places": {"a": [1]}, "seen": {}}, {"places": 3}]
)
def test_a_state_of_something_else_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="memory of samples"):
        SampleReplay(2, seed=0, state=state)


def test_nothing_remembered_and_no_room_are_said() -> None:
    with pytest.raises(UsageError, match="nothing is remembered"):
        SampleReplay(2, seed=0).draw(0, 1)
    with pytest.raises(UsageError, match="room for one sample"):
        SampleReplay(0, seed=0)


def test_strata_are_classes_labels_and_what_is_missing() -> None:
    batch = {
        "text": np.zeros((3, 2), dtype=np.int64),
        "image/present": np.asarray([True, False, True]),
        "answer/target": np.asarray([0, 2, -1]),
        "tags/target": np.asarray([[0, 1], [1, 1], [np.nan, 0]], dtype=np.float32),
    }
    assert strata_of(batch, (CLASS, LABELS)) == [
        "answer=0 tags=1",
        "answer=2 tags=0 no image",
        "answer=-1 tags=-1",
    ]
    assert strata_of({"text": batch["text"]}, ()) == ["", "", ""]


@pytest.fixture(scope="module")
def task() -> PointerTask:
    settings = {"nodes": 4, "hops_max": 2, "samples": {"train": 200, "validation": 20, "test": 20}}
    return PointerTask.open(PointerSettings.model_validate_json(json.dumps(settings)))


def test_batches_are_the_tasks_own_and_edits_bring_some_back(task: PointerTask) -> None:
    batches = ReplayedBatches(task, SampleReplay(16, seed=2), seed=2, size=8, steps=3)
    plain = {step: task.batch("train", 2, step, 8) for step in range(10)}
    batches.edited(0)
    assert not any(name.startswith(AGAIN) for name in batches(0)), "nothing is remembered yet"
    batches.edited(5)
    for step in range(1, 10):
        batch = batches(step)
        again = {name.removeprefix(AGAIN): one for name, one in batch.items() if name.startswith(AGAIN)}
        assert {name: one.tolist() for name, one in batch.items() if not name.startswith(AGAIN)} == {
            name: one.tolist() for name, one in plain[step].items()
        }
        assert bool(again) == (5 <= step < 8)
        if again:
            seen = {tuple(row) for earlier in range(step) for row in plain[earlier]["text"].tolist()}
            assert {tuple(row) for row in again["text"].tolist()} <= seen


class _Line(nn.Module):
    """A network of one number, whose own loss has a term of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(2.0))
        self.terms: dict[str, Tensor] = {}

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"y": self.slope * batch["x"]}

    def answers_loss(self, answers: dict[str, Tensor], batch: dict[str, Tensor]) -> Tensor:
        return (answers["y"] - batch["y/target"]).square().mean()

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        task = self.answers_loss(self(batch), batch)
        self.terms = {"task": task.detach(), "extra": torch.tensor(7.0)}
        return task + 7.0


def test_the_loss_gains_the_weighted_task_loss_alone() -> None:
    network = _Line()
    now = {"x": torch.tensor([1.0, 2.0]), "y/target": torch.tensor([1.0, 1.0])}
    again = {AGAIN + "x": torch.tensor([3.0]), AGAIN + "y/target": torch.tensor([2.0])}
    loss_of = with_replay(0.5)
    assert loss_of(network, now).item() == network.loss(now).item() == 12.0
    assert "replay" not in network.terms
    loss = loss_of(network, {**now, **again})
    assert loss.item() == 12.0 + 0.5 * 16.0
    assert {name: float(value) for name, value in network.terms.items()} == {"task": 5.0, "extra": 7.0, "replay": 8.0}
    loss.backward()  # type: ignore[no-untyped-call]
    assert network.slope.grad is not None
    assert network.slope.grad.item() == pytest.approx((2 * 1 * 1 + 2 * 3 * 2) / 2 + 0.5 * 2 * 4 * 3)
    assert with_replay(0.0)(network, {**now, **again}).item() == 12.0
