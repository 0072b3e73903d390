"""Tasks of a multitask system: even splits that all questions share, batches, errors; text as well as images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evodevo.errors import DataError, UsageError
from evodevo.tasks.base import SPLITS
from evodevo.tasks.multitask.answers import answers
from evodevo.tasks.multitask.batches import BatchPlan, batch_size, plan_batches, training_places
from evodevo.tasks.multitask.few import FewSamples
from evodevo.tasks.multitask.preparation import OF_ALL, OF_TRAIN, stratified
from evodevo.tasks.multitask.task import MultitaskSettings, MultitaskTask
from evodevo.testing.tasks import SampleTaskTests

TEXT = {
    "tokenizer": "bytes",
    "length": 64,
    "topics": {"samples": {"train": 300, "validation": 60, "test": 60}, "classes": 4},
}


class TestDigits(SampleTaskTests):
    task_class = MultitaskTask
    settings = MultitaskSettings()
    decisive = (
        MultitaskSettings(seed=1),
        MultitaskSettings(question="parity"),
        MultitaskSettings(rotate=1),
        MultitaskSettings(only=("0", "1", "2")),
        MultitaskSettings(options={"size": [6, 6]}),
        MultitaskSettings(few=FewSamples(train=2, validation=1)),
    )


class TestTopics(SampleTaskTests):
    test_another_process_reads_the_same = None  # as above
    task_class = MultitaskTask
    settings = MultitaskSettings(source="text_labels", options=TEXT)
    decisive = (MultitaskSettings(source="text_labels", options={**TEXT, "length": 8}),)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def _open(cache: Path, **settings: Any) -> MultitaskTask:
    return MultitaskTask.open(MultitaskSettings(**settings), cache)


def _folder(root: Path, counts: dict[str, int], seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    for label, count in counts.items():
        (root / label).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(rng.integers(0, 256, (5, 5)).astype(np.uint8)).save(root / label / f"{number}.png")
    return root


def test_the_digits_are_divided_70_15_15_and_evenly(cache: Path) -> None:
    task = _open(cache)
    whole = sum(task.count(split) for split in SPLITS)
    for split, share in {"train": 0.7, "validation": 0.15, "test": 0.15}.items():
        counts = np.bincount(task.labels(split), minlength=10)
        assert abs(task.count(split) / whole - share) < 0.01
        assert counts.max() - counts.min() <= 8


def test_given_splits_stay_and_else_a_tenth_of_each_class_is_validation(cache: Path, tmp_path: Path) -> None:
    _folder(tmp_path / "data" / "train", {"a": 40, "b": 20, "c": 2})
    _folder(tmp_path / "data" / "test", {"a": 7, "b": 5, "c": 3}, seed=1)
    task = _open(cache, data=str(tmp_path / "data"))
    assert np.bincount(task.labels("test")).tolist() == [7, 5, 3]
    assert np.bincount(task.labels("validation")).tolist() == [4, 2, 1]
    assert np.bincount(task.labels("train")).tolist() == [36, 18, 1]
    for number, (split, count) in enumerate({"train": 20, "validation": 6, "test": 5}.items()):
        _folder(tmp_path / "whole" / split, {"a": count, "b": count}, seed=number)
    task = _open(cache, data=str(tmp_path / "whole"))
    assert [task.count(split) for split in SPLITS] == [40, 12, 10]


def test_questions_about_one_source_hold_out_the_same_samples(cache: Path) -> None:
    """Else one task would learn what another is tested on."""
    plain = _open(cache)
    for other in (_open(cache, question="parity"), _open(cache, question="upper_half"), _open(cache, rotate=3)):
        for split in SPLITS:
            places = np.arange(plain.count(split))
            np.testing.assert_array_equal(plain.fetch(split, places)["image"], other.fetch(split, places)["image"])
    some = _open(cache, only=("3", "7"))
    for split in SPLITS:
        rows = np.flatnonzero(np.isin(plain.labels(split), (3, 7)))
        ours = {image.tobytes() for image in some.fetch(split, np.arange(some.count(split)))["image"]}
        assert ours == {image.tobytes() for image in plain.fetch(split, rows)["image"]}


def test_what_is_asked(cache: Path) -> None:
    plain = _open(cache).labels("train")
    np.testing.assert_array_equal(_open(cache, question="parity").labels("train"), plain % 2)
    np.testing.assert_array_equal(_open(cache, question="upper_half").labels("train"), plain > 4)
    turned = _open(cache, rotate=3)
    np.testing.assert_array_equal(turned.labels("train"), (plain + 3) % 10)
    assert [turned.outputs[0].names[label] for label in turned.labels("train")[:50]] == [str(d) for d in plain[:50]]
    assert turned.show("train", 0)["class"] == str(plain[0])


def test_equal_contents_stay_together_and_every_class_is_held_out() -> None:
    rng = np.random.default_rng(0)
    labels = np.sort(rng.integers(0, 5, 400))
    contents = [b"%d" % (place // 3) for place in range(400)]
    for shares in (OF_TRAIN, OF_ALL):
        found = stratified(contents, labels, shares, 0)
        assert sorted(np.concatenate(list(found.values())).tolist()) == list(range(400))
        own = [{contents[place] for place in places} for places in found.values()]
        assert not set.intersection(*own)
        assert sum(map(len, own)) == len(set(contents))
        for places in found.values():
            assert set(labels[places]) == set(range(5))
    again, other = stratified(contents, labels, OF_ALL, 0), stratified(contents, labels, OF_ALL, 1)
    np.testing.assert_array_equal(again["test"], stratified(contents, labels, OF_ALL, 0)["test"])
    assert set(again["test"].tolist()) != set(other["test"].tolist())
    # The order of samples does not matter.
    labels = np.repeat(np.arange(3), 20)
    contents = [b"%d" % place for place in range(60)]
    turn = np.random.default_rng(1).permutation(60)
    one = stratified(contents, labels, OF_ALL, 0)
    two = stratified([contents[place] for place in turn], labels[turn], OF_ALL, 0)
    for split in SPLITS:
        assert {contents[place] for place in one[split]} == {contents[turn[place]] for place in two[split]}


def test_the_first_held_out_samples_stand_for_all_classes(cache: Path, tmp_path: Path) -> None:
    task = _open(cache, data=str(_folder(tmp_path, {"a": 200, "b": 200})))
    first = task.labels("validation")[:20]
    assert 4 <= first.sum() <= 16


def test_batches_of_the_specification() -> None:
    plans = {
        (2_000, 500, 512, 300_000): BatchPlan(512, 4, 500, 1),
        (2_000, 500, 16, 300_000): BatchPlan(16, 125, 15, 32),
        (60_000, 3_000, 512, 300_000): BatchPlan(512, 118, 500, 6),
        (60_000, 3_000, 512, 51_200): BatchPlan(512, 100, 500, 6),
        (60_000, 3_000, 16, 300_000): BatchPlan(16, 3_750, 15, 188),
        (60_000, 3_000, 16, 51_200): BatchPlan(16, 3_200, 15, 188),
    }
    for (train, validation, batch, most), plan in plans.items():
        found = plan_batches(train, validation, batch=batch, most_between=most, validation_cap=10_000)
        assert found == plan
    capped = plan_batches(60_000, 10_000, batch=512, most_between=51_200, validation_cap=5_120)
    assert (capped.validation_batch, capped.validation_batches) == (512, 10)
    assert plan_batches(60_000, 10_000, batch=512, most_between=51_200, validation_cap=100).validation_samples == 100
    for train, batch in ((100, 16), (512, 16), (1_768, 55), (16_384, 512), (60_000, 512)):
        assert batch_size(train, 512) == batch
        assert batch_size(train, 16) == 16


def test_a_small_split_is_passed_again_up_to_the_cap() -> None:
    def between(train: int, least: int, most: int = 300_000) -> int:
        return plan_batches(train, 100, batch=64, most_between=most, validation_cap=100, least_between=least).between

    assert between(640, 1) == between(640, 640) == 10
    assert between(640, 6400) == 100
    assert between(64_000, 6400) == 1000
    assert between(640, 6400, most=1280) == 20
    with pytest.raises(UsageError, match="between is 0"):
        between(640, 0)


def test_every_pass_sees_each_sample_once_in_another_order() -> None:
    seen = np.concatenate([training_places(50, 7, step, 20) for step in range(5)])
    first, second = seen[:50], seen[50:]
    assert sorted(first) == sorted(second) == list(range(50))
    assert first.tolist() != second.tolist()
    np.testing.assert_array_equal(training_places(50, 7, 3, 20), seen[60:80])
    assert len(training_places(5, 7, 2, 20)) == 20
    assert training_places(50, 8, 0, 20).tolist() != seen[:20].tolist()


def test_what_is_no_task_is_one_error(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="two answers"):
        answers(("a", "b"), "class", only=("a",))
    with pytest.raises(UsageError, match="'c'"):
        answers(("a", "b"), "class", only=("c",))
    folder = _folder(tmp_path / "one", {"a": 5, "b": 5})
    (folder / "a" / "broken.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"broken\.png"):
        _open(cache, data=str(folder))
    (folder / "a" / "broken.png").rename(folder / "stray.png")
    with pytest.raises(DataError, match=r"stray\.png.*no folder of a class"):
        _open(cache, data=str(folder))
    pixels = np.random.default_rng(0).integers(0, 256, (20, 4, 4)).astype(np.uint8)
    np.savez(tmp_path / "set.npz", x=pixels, y=np.arange(20) % 3)
    (tmp_path / "classes.json").write_text('["a", "b"]')
    with pytest.raises(DataError, match="label 2 has no name"):
        _open(cache, data=str(tmp_path / "set.npz"))
    _folder(tmp_path / "two" / "train", {"a": 8, "b": 8})
    _folder(tmp_path / "two" / "test", {"a": 3, "c": 3}, seed=1)
    with pytest.raises(DataError, match=r"'c'.*in the test split"):
        _open(cache, data=str(tmp_path / "two"))
    with pytest.raises(DataError, match="split"):
        _open(cache, data=str(_folder(tmp_path / "few", {"a": 2, "b": 2})))
    domains = [{"name": "a", "builtin": "digits"}, {"name": "b", "builtin": "digits"}]
    with pytest.raises(UsageError, match="one class per sample"):
        _open(cache, options={"size": [8, 8], "domains": domains})


def test_copies_with_two_labels_are_counted_and_other_data_under_the_same_key_refused(
    cache: Path, tmp_path: Path
) -> None:
    folder = _folder(tmp_path / "data", {"a": 20, "b": 20})
    (folder / "b" / "0.png").write_bytes((folder / "a" / "0.png").read_bytes())
    settings = MultitaskSettings(data=str(folder))
    task = MultitaskTask.open(settings, cache)
    assert task.describe()["contradictory"] == 2
    key = task.key
    (tmp_path / "data" / "a" / "0.png").unlink()
    assert MultitaskTask.open(settings, cache, key).key == key  # prepared: the sources are not read again
    with pytest.raises(DataError, match="not what it was"):
        MultitaskTask.open(settings, tmp_path / "other", key)


def _images(task: MultitaskTask, split: Any) -> list[bytes]:
    return [task.fetch(split, np.asarray([place]))["image"].tobytes() for place in range(task.count(split))]


def test_few_samples_of_each_class_are_a_part_of_the_splits_and_test_stays_whole(cache: Path) -> None:
    whole = _open(cache)
    few = {
        (count, draw): _open(cache, few={"train": count, "validation": 4, "draw": draw})
        for count, draw in ((5, 0), (20, 0), (20, 1))
    }
    for (count, _), task in few.items():
        assert np.bincount(task.labels("train")).tolist() == [count] * 10
        assert np.bincount(task.labels("validation")).tolist() == [4] * 10
        assert _images(task, "test") == _images(whole, "test")
        for split in ("train", "validation"):
            assert set(_images(task, split)) <= set(_images(whole, split))
    assert set(_images(few[5, 0], "train")) < set(_images(few[20, 0], "train")), "more samples of one draw are added"
    assert set(_images(few[20, 0], "train")) != set(_images(few[20, 1], "train"))
    assert "of each class 20 for training and 4 for validation, draw 1" in few[20, 1].describe()["split_rule"]


def test_more_samples_than_a_class_has_are_refused_with_its_name(cache: Path, tmp_path: Path) -> None:
    folder = str(_folder(tmp_path / "data", {"a": 40, "b": 12}))
    with pytest.raises(DataError, match=r"'b' has 8 samples in the train split; 9 of each"):
        _open(cache, data=folder, few={"train": 9, "validation": 1})
    with pytest.raises(DataError, match=r"'b' has 2 samples in the validation split"):
        _open(cache, data=folder, few={"train": 1, "validation": 3})


def test_tasks_from_before_keep_their_keys(cache: Path) -> None:
    assert "few" not in MultitaskSettings().model_dump(mode="json")
    assert _open(cache).key == _open(cache, few=None).key
