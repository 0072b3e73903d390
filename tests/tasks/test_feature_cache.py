"""Features on disk: what is written comes back, damage is seen, and a task of features is its task but for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evodevo.errors import DataError, UsageError
from evodevo.module_zoo.encoders.spec import sides
from evodevo.tasks.base import OutputSpec, Split
from evodevo.tasks.feature_cache import Chunk, FeatureCache, SplitFeatures
from evodevo.tasks.features import FeaturesTask, InputFeatures
from evodevo.tasks.in_memory import InMemoryTask
from evodevo.tasks.inputs import InputSpec

KEY = "ab" * 32
SIZE = 3


def ragged(lengths: list[int], seed: int = 0) -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((length, SIZE)).astype(np.float32) for length in lengths]


def chunks(lengths: list[int]) -> Iterator[Chunk]:
    samples = ragged(lengths)
    yield "train", samples[:2]
    yield "train", samples[2:]
    yield "test", []


@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(0, 5), max_size=8))
def test_what_is_written_comes_back_padded(tmp_path_factory: pytest.TempPathFactory, lengths: list[int]) -> None:
    entry = FeatureCache(tmp_path_factory.mktemp("cache")).put(KEY, SIZE, chunks(lengths))
    assert len(entry["test"]) == 0
    assert len(entry["train"]) == len(lengths)
    places = np.arange(len(lengths))[::-1].copy()
    features, mask = entry["train"].padded(places, 5)
    assert features.shape == (len(lengths), 5, SIZE)
    for row, place in enumerate(places):
        assert mask[row].tolist() == [position < lengths[place] for position in range(5)]
        np.testing.assert_array_equal(features[row][mask[row]], ragged(lengths)[place])
    assert not features[~mask].any()


@pytest.mark.parametrize("file", ["train.values", "train.offsets.npy", "manifest.json"])
def test_damage_is_seen_and_mended(file: str, tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    cache.put(KEY, SIZE, chunks([2, 3]))
    second = cache.put(KEY, SIZE, chunks([2, 3]))
    np.testing.assert_array_equal(second["train"].values, np.concatenate(ragged([2, 3])))
    assert [path.name for path in (tmp_path / "features" / "ab").iterdir()] == [KEY], "the first of two writers stays"
    place = tmp_path / "features" / "ab" / KEY / file
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(bytes(data))
    assert cache.get(KEY) is None
    again = cache.put(KEY, SIZE, chunks([2, 3]))
    np.testing.assert_array_equal(again["train"].values, np.concatenate(ragged([2, 3])))
    assert cache.get(KEY) is not None
    cache.remove(KEY)
    assert cache.get(KEY) is None


def test_what_cannot_be_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    bad = ragged([2])
    bad[0][1, 1] = np.nan
    with pytest.raises(DataError, match="finite"):
        cache.put(KEY, SIZE, [("train", bad)])
    assert not list((tmp_path / "features" / "ab").iterdir())
    with pytest.raises(UsageError, match="64"):
        cache.get("../../etc")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="XDG_CACHE_HOME"):
        FeatureCache(tmp_path / "file").put(KEY, SIZE, [])


# The task

TEXT = InputSpec("text", "tokens", length=4, vocabulary=9)
IMAGE = InputSpec("image", "image", height=4, width=4, channels=1)
ANSWER = OutputSpec("answer", "class", 2, ("no", "yes"))


def whole() -> InMemoryTask:
    rng = np.random.default_rng(0)

    def part(count: int) -> dict[str, NDArray[np.generic]]:
        return {
            "text": rng.integers(0, 9, (count, 4)),
            "text/mask": np.ones((count, 4), bool),
            "text/present": np.arange(count) != 1,
            "image": rng.integers(0, 256, (count, 4, 4, 1), dtype=np.uint8),
            "answer/target": rng.integers(0, 2, count),
        }

    return InMemoryTask((TEXT, IMAGE), (ANSWER,), {"train": part(5), "test": part(3)})


def features(counts: dict[Split, list[int]], key: str = KEY) -> InputFeatures:
    splits = {
        split: SplitFeatures(np.concatenate(ragged(lengths)), np.cumsum([0, *lengths]))
        for split, lengths in counts.items()
    }
    return InputFeatures(key, 4, SIZE, splits)


def test_it_is_the_task_with_one_input_replaced() -> None:
    task = whole()
    view = FeaturesTask(task, {"text": features({"train": [1, 0, 4, 4, 2], "test": [4, 4, 4]})})
    spec = view.inputs[0]
    assert (spec.modality, spec.length, spec.size, spec.vocabulary) == ("features", 4, SIZE, 9)
    assert view.inputs[1] == IMAGE
    assert sides(view.inputs) == sides(task.inputs)
    assert view.outputs == task.outputs
    assert view.splits == task.splits
    places = np.asarray([4, 1])
    batch, plain = view.fetch("train", places), task.fetch("train", places)
    assert batch.keys() == plain.keys() | {"text/origin"}
    for name in set(plain) - {"text", "text/mask"}:
        np.testing.assert_array_equal(batch[name], plain[name])
    assert batch["text"].shape == (2, 4, SIZE)
    assert batch["text/mask"].sum(1).tolist() == [2, 0]
    assert "text/mask" not in view.fetch("test", np.asarray([0, 2]))
    assert view.show("test", 0) == task.show("test", 0)
    assert view.describe()["features"]["text"]["size"] == SIZE
    # Its digest is of the samples and of what read them.
    counts: dict[Split, list[int]] = {"train": [1, 0, 4, 4, 2], "test": [4, 4, 4]}
    one, two, three = (FeaturesTask(task, {"text": features(counts, key)}) for key in (KEY, KEY, "cd" * 32))
    assert one.digest == two.digest
    assert len({one.digest, three.digest, task.digest}) == 3


def test_features_of_something_else_are_refused() -> None:
    with pytest.raises(DataError, match="other samples"):
        FeaturesTask(whole(), {"text": features({"train": [1, 1], "test": [4, 4, 4]})})
    with pytest.raises(DataError, match="other samples"):
        FeaturesTask(whole(), {"text": features({"train": [1, 0, 4, 4, 2]})})
    with pytest.raises(UsageError, match="'text'"):
        FeaturesTask(whole(), {"txt": features({})})
    with pytest.raises(UsageError, match="in code"):
        FeaturesTask.open(None)
