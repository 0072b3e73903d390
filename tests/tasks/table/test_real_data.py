"""Public data sets, opened as tables with four splits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo.tasks.base import ALL_SPLITS, Split
from evodevo.tasks.images.images import ImagesSettings, ImagesTask
from evodevo.tasks.table.task import TableSettings, TableTask

DATA = Path(__file__).parents[4] / "shared" / "data"


def _folder(name: str) -> Path:
    if not (DATA / name).is_dir():
        pytest.skip(f"needs the data set {name}")
    return DATA / name


def _open(tmp_path: Path, folder: Path, files: dict[str, str], **columns: Any) -> TableTask:
    paths = {name: str(folder / file) for name, file in files.items()}
    return TableTask.open(TableSettings(**paths, **columns), tmp_path)


def _owners(task: TableTask) -> dict[bytes, Split]:
    """In which split each image stands; it must be one."""
    owner: dict[bytes, Split] = {}
    for split in task.splits:
        for image in task.fetch(split, np.arange(task.count(split)))["image"]:
            assert owner.setdefault(image.tobytes(), split) == split
    return owner


def test_sentences_about_pictures(tmp_path: Path) -> None:
    files = {"data": "dev.jsonl.gz", "images": "dev_images.npz"}
    columns = {"image": "example", "text": "sentence", "match": "label"}
    task = _open(tmp_path, _folder("nlvr"), files, **columns)
    assert task.splits == ALL_SPLITS
    assert sum(map(task.count, ALL_SPLITS)) == 989
    assert task.outputs[0].name == "match"
    # 200 x 50 is larger than what is kept as it is.
    assert (task.inputs[0].height, task.inputs[0].width, task.inputs[0].channels) == (64, 64, 3)
    _owners(task)


@pytest.mark.parametrize("tokenizer", ["words", "bpe"])
def test_topics_of_sentences(tmp_path: Path, tokenizer: str) -> None:
    files = {"data": "train.jsonl.gz", "validation": "dev.jsonl.gz", "test": "test.jsonl.gz"}
    task = _open(tmp_path, _folder("sib200_6"), files, text="en", label="label", tokenizer=tokenizer)
    assert task.splits == ALL_SPLITS
    assert task.count("train") + task.count("architecture") == 701
    assert task.count("validation") == 99
    assert task.count("test") == 204
    assert task.outputs[0].size == 7
    found = task.baselines("test")
    assert found["logistic regression on text"] > found["majority"] + 0.2


@pytest.mark.slow
def test_questions_about_shapes(tmp_path: Path) -> None:
    files = {
        "data": "train.jsonl.gz",
        "test": "test.jsonl.gz",
        "images": "train_images.npz",
        "test_images": "test_images.npz",
    }
    columns = {"image": "image", "text": "question", "label": "answer", "size": (16, 16)}
    task = _open(tmp_path, _folder("easy_vqa"), files, **columns)
    assert task.splits == ALL_SPLITS
    assert task.outputs[0].size == 13
    about = task.describe()
    assert "by equal image" in about["split_rule"]
    assert about["left_out"]["held_out_repeats"] + sum(map(task.count, ALL_SPLITS)) == 38_575 + 9_673
    owner = _owners(task)
    assert sum(split == "validation" for split in owner.values()) > 300


@pytest.mark.slow
def test_clothes_in_four_splits(tmp_path: Path) -> None:
    settings = ImagesSettings(data=str(_folder("fashion_mnist")), architecture=0.1)
    task = ImagesTask.open(settings, tmp_path)
    assert task.splits == ALL_SPLITS
    assert abs(task.count("architecture") / (task.count("train") + task.count("architecture")) - 0.1) < 0.01
    assert task.count("test") == 5_000
