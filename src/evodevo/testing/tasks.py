"""The laws of every task of separate samples, as tests to inherit.

    class TestMine(SampleTaskTests):
        task_class = MyTask
        settings = MySettings(...)  # small
        decisive = (MySettings(...), ...)  # other data each

The registry feeds them: a suite for each row of ``TASKS`` that opens with settings of its own.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import DataError
from evodevo.settings import Settings
from evodevo.tasks.base import ALL_SPLITS, MATCHED, NO_TARGET, TASKS, SampleTask, Split
from evodevo.tasks.inputs import Batch

MOST_SAMPLES = 200
"""Largest number of samples of a split that a law reads, spread evenly."""

_OPEN_ELSEWHERE = """
import json, sys, traceback
from pathlib import Path
from evodevo.testing.tasks import fingerprint
from evodevo.tasks.base import TASKS
for line in sys.stdin:
    name, settings, folder, key = json.loads(line)
    try:
        kind = TASKS.get(name)
        answer = fingerprint(kind.open(kind.settings_class.model_validate_json(settings), Path(folder), key))
    except Exception:
        answer = traceback.format_exc()
    print(json.dumps(answer), flush=True)
"""


@cache
def _elsewhere() -> subprocess.Popen[str]:
    """Another process, which opens tasks and answers with their fingerprints until this one ends."""
    command = [sys.executable, "-c", _OPEN_ELSEWHERE]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.__exit__, None, None, None)
    return process


def fingerprint_elsewhere(task: SampleTask, settings: Settings, folder: Path, key: str | None) -> str:
    """What ``fingerprint`` answers in another process that opens the task; a traceback if that fails."""
    process = _elsewhere()
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps([task.name, settings.model_dump_json(), str(folder), key]), file=process.stdin, flush=True)
    answer: str = json.loads(process.stdout.readline())
    return answer


def fingerprint(task: SampleTask) -> str:
    """The digest of a task, and one over some of its samples, batches and groups."""
    whole = hashlib.sha256()
    for split in task.splits:
        places = some_places(task, split)
        for arrays in (task.fetch(split, places), task.batch(split, 3, 5, 7), task.groups(split, places)):
            for name in sorted(arrays):
                whole.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
                whole.update(np.ascontiguousarray(arrays[name]).tobytes())
    return f"{task.digest} {whole.hexdigest()}"


def some_places(task: SampleTask, split: Split) -> NDArray[np.int64]:
    """Places all over a split."""
    count = task.count(split)
    return np.unique(np.linspace(0, count - 1, min(count, MOST_SAMPLES)).astype(np.int64))


def contents(task: SampleTask, batch: Batch) -> list[bytes]:
    """Inputs of each sample of a batch as bytes, without the answers."""
    names = sorted(name for name in batch if name.partition("/")[0] in {spec.name for spec in task.inputs})
    columns = [name for name in names if name.partition("/")[2] in ("", "mask", "present")]
    size = len(next(iter(batch.values())))
    return [b"|".join(np.ascontiguousarray(batch[name][row]).tobytes() for name in columns) for row in range(size)]


class SampleTaskTests:
    """Inherit, and give the task's class and settings small enough to open within a second."""

    task_class: ClassVar[type[SampleTask]]
    settings: ClassVar[Any]
    decisive: ClassVar[Sequence[Any]] = ()
    """Other settings, each of which gives other samples than ``settings`` and than each other."""
    indifferent: ClassVar[Sequence[Any]] = ()
    memory: ClassVar[bool] = False
    """Whether all splits ask the same questions on purpose."""
    """Other settings with the same meaning, which give the same samples as ``settings``."""

    @pytest.fixture(scope="class")
    @classmethod
    def cache(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("cache")

    @pytest.fixture(scope="class")
    @classmethod
    def task(cls, cache: Path) -> SampleTask:
        return cls._open(cls.settings, cache)

    def test_the_table_has_it(self) -> None:
        assert TASKS.get(self.task_class.name) is self.task_class
        assert isinstance(self.settings, self.task_class.settings_class)

    def test_a_batch_is_a_function_of_its_arguments_alone(self, task: SampleTask) -> None:
        for split in task.splits:
            batch = task.batch(split, 3, 7, 33)
            task.batch(split, 3, 8, 5)
            _assert_equal(batch, task.batch(split, 3, 7, 33))
            for other in (task.batch(split, 4, 7, 33), task.batch(split, 3, 8, 33)):
                assert contents(task, other) != contents(task, batch)

    def test_fetch_repeats_and_takes_each_sample_by_itself(self, task: SampleTask) -> None:
        for split in task.splits:
            places = some_places(task, split)
            batch = task.fetch(split, places)
            _assert_equal(batch, task.fetch(split, places))
            reverse = task.fetch(split, places[::-1])
            _assert_equal(batch, {name: array[::-1] for name, array in reverse.items()})
            for row in (0, len(places) // 2):
                alone = task.fetch(split, places[row : row + 1])
                _assert_equal({name: array[row : row + 1] for name, array in batch.items()}, alone)

    def test_what_was_handed_out_can_be_changed_without_harm(self, task: SampleTask) -> None:
        places = np.arange(min(4, task.count("train")))
        before = {name: array.copy() for name, array in task.fetch("train", places).items()}
        for array in task.fetch("train", places).values():
            if array.flags.writeable:
                array[...] = 0
        _assert_equal(before, task.fetch("train", places))

    def test_splits_are_some_of_all_in_their_order(self, task: SampleTask) -> None:
        assert [split for split in ALL_SPLITS if split in task.splits] == list(task.splits)
        assert "train" in task.splits
        assert all(task.count(split) > 0 for split in task.splits)

    def test_no_sample_stands_in_two_splits(self, task: SampleTask) -> None:
        if self.memory:
            pytest.skip("a task of memory: all splits ask the same questions")
        seen: dict[bytes, Split] = {}
        for split in task.splits:
            places = np.arange(min(task.count(split), 5_000))
            for sample in contents(task, task.fetch(split, places)):
                assert seen.setdefault(sample, split) == split

    def test_arrays_are_what_the_specifications_say(self, task: SampleTask) -> None:
        for split in task.splits:
            places = some_places(task, split)
            batch = task.fetch(split, places)
            assert {name.partition("/")[0] for name in batch} - {MATCHED} == _names(task)
            for spec in task.inputs:
                _check_input(spec, batch, len(places))
            for output in task.outputs:
                _check_output(task, output, batch, len(places))

    def test_groups_are_in_range(self, task: SampleTask) -> None:
        for split in task.splits:
            places = some_places(task, split)
            groups = task.groups(split, places)
            assert set(groups) == set(task.group_names)
            for name, values in groups.items():
                assert values.shape == (len(places),)
                assert values.dtype.kind in "iu"
                assert values.min() >= -1
                assert values.max() < len(task.group_names[name])

    def test_a_sample_can_be_shown(self, task: SampleTask) -> None:
        for split in task.splits:
            for place in (0, task.count(split) - 1):
                shown = task.show(split, place)
                assert set(shown) == _names(task)
                assert all(isinstance(text, str) and text for text in shown.values())

    def test_the_description_is_json_and_names_the_digest(self, task: SampleTask) -> None:
        description = task.describe()
        assert canonical.loads(canonical.dumps(description)) == description
        assert description["digest"] == task.digest
        assert len(task.digest) == 64

    @pytest.mark.slow
    def test_baselines_are_numbers(self, task: SampleTask) -> None:
        for split in {task.splits[0], task.splits[-1]}:
            assert all(np.isfinite(value) for value in task.baselines(split).values())

    def test_equal_settings_give_equal_tasks(self, task: SampleTask, tmp_path: Path) -> None:
        assert fingerprint(self._open(self.settings, tmp_path)) == fingerprint(task)
        for settings in self.indifferent:
            assert settings != self.settings
            assert fingerprint(self._open(settings, tmp_path)) == fingerprint(task)

    @pytest.mark.slow
    def test_other_data_has_another_digest(self, task: SampleTask, cache: Path) -> None:
        tasks = [task, *(self._open(settings, cache) for settings in self.decisive)]
        digests, samples = zip(*(fingerprint(other).split() for other in tasks), strict=True)
        assert len(set(digests)) == len(tasks)
        assert len(set(samples)) == len(tasks)

    @pytest.mark.slow
    def test_another_process_reads_the_same(self, task: SampleTask, cache: Path, tmp_path: Path) -> None:
        # Once with the key and what was prepared, once from the beginning.
        for folder, key in ((cache, task.key), (tmp_path, None)):
            assert fingerprint_elsewhere(task, self.settings, folder, key) == fingerprint(task)

    def test_a_key_of_other_data_is_refused(self, task: SampleTask, cache: Path) -> None:
        assert self.task_class.open(self.settings, cache, task.key).digest == task.digest
        with pytest.raises(DataError, match="0" * 12):
            self.task_class.open(self.settings, cache, "0" * 64)

    @classmethod
    def _open(cls, settings: Settings, cache: Path) -> SampleTask:
        return cls.task_class.open(settings, cache)


def _names(task: SampleTask) -> set[str]:
    return {spec.name for spec in task.inputs} | {spec.name for spec in task.outputs}


def _assert_equal(batch: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]]) -> None:
    assert set(batch) == set(other)
    for name, array in batch.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
        assert array.dtype == other[name].dtype


def _check_input(spec: Any, batch: Batch, size: int) -> None:
    values = batch[spec.name]
    present = batch.get(f"{spec.name}/present", np.ones(size, np.bool_))
    assert present.shape == (size,)
    assert present.dtype == np.bool_
    if spec.modality == "tokens":
        assert values.shape[0] == size
        assert 1 <= values.shape[1] <= spec.length
        assert values.dtype.kind in "iu"
        assert values.min() >= 0
        assert values.max() < spec.vocabulary
        mask = batch.get(f"{spec.name}/mask")
        if mask is not None:
            assert mask.shape == values.shape
            assert mask.dtype == np.bool_
            assert mask[present].any(axis=1).all(), "a present text has at least one real token"
            assert not (mask[:, 1:] & ~mask[:, :-1]).any(), "real tokens come first"
    elif spec.modality == "image":
        assert values.shape == (size, spec.height, spec.width, spec.channels)
        assert values.dtype == np.uint8
    else:
        assert values.shape == (size, spec.size)
        assert values.dtype == np.float32
        assert np.isfinite(values).all()


def _check_output(task: SampleTask, spec: Any, batch: Batch, size: int) -> None:
    target = batch[f"{spec.name}/target"]
    if spec.names:
        assert len(spec.names) == spec.size
        assert len(set(spec.names)) == spec.size
    if spec.kind == "labels":
        assert target.shape == (size, spec.size)
        assert np.isin(target[~np.isnan(target)], (0, 1)).all()
        return
    assert target.dtype.kind in "iu"
    assert target.min() >= NO_TARGET
    assert target.max() < spec.size
    if spec.kind == "class":
        assert target.shape == (size,)
        return
    assert spec.of in {source.name for source in task.inputs}
    assert target.shape == batch[spec.of].shape
    mask = batch.get(f"{spec.of}/mask", np.ones(target.shape, np.bool_))
    assert (target[~mask] == NO_TARGET).all(), "a target belongs to a real token"
    both = (target[:, :-1] != NO_TARGET) & mask[:, 1:]
    np.testing.assert_array_equal(target[:, :-1][both], batch[spec.of][:, 1:][both], err_msg="the target is next")
    position = batch.get(f"{spec.name}/position")
    if position is not None:
        assert position.shape == (size,)
        assert (np.take_along_axis(target, position[:, None], axis=1) != NO_TARGET).all()
