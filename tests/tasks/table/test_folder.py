"""A folder with one folder of files per class is the table that names its files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evodevo.errors import DataError
from evodevo.tasks.table.folder import names_of
from evodevo.tasks.table.settings import TableSettings
from evodevo.tasks.table.task import TableTask

CLASSES = ("day", "night")


def photos(root: Path, count: int = 24) -> Path:
    for place, name in enumerate(CLASSES):
        (root / name / "more").mkdir(parents=True)
        for number in range(count):
            pixels = np.full((5, 4), 100 * place + number, np.uint8)
            Image.fromarray(pixels).save(root / name / ("more" if number % 2 else "") / f"{number}.png")
    (root / "README.md").write_text("about the photos")
    (root / ".hidden").mkdir()
    (root / ".hidden" / "0.png").write_bytes(b"no image")
    return root


def opened(folder: Path, data: Path) -> TableTask:
    return TableTask.open(TableSettings(data=str(data)), folder / "cache")


def test_images(tmp_path: Path) -> None:
    root = photos(tmp_path / "photos")
    names = sorted(path.relative_to(root).as_posix() for path in root.glob("[dn]*/**/*.png"))
    with (root / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "label"), *((name, name.split("/")[0]) for name in names)])
    named = opened(tmp_path, root / "table.csv")
    (root / "table.csv").unlink()
    task = opened(tmp_path, root)
    assert task.digest == named.digest, "the same samples, whatever form they are given in"
    assert [output.names for output in task.outputs] == [CLASSES]
    assert sum(task.count(split) for split in task.splits) == 48
    first = task.fetch("train", np.arange(task.count("train")))
    assert ((first["image"].reshape(len(first["image"]), -1)[:, 0] >= 100) == first["label/target"]).all()


def test_rows_without_answers_are_read_from_a_folder_too(tmp_path: Path) -> None:
    task = opened(tmp_path, photos(tmp_path / "photos"))
    (tmp_path / "new").mkdir()
    for number in (7, 130):
        Image.fromarray(np.full((5, 4), number, np.uint8)).save(tmp_path / "new" / f"{number:03}.png")
    (batch,) = task.read_rows(tmp_path / "new")
    assert batch["image"][:, 0, 0, 0].tolist() == [7, 130]
    assert names_of(tmp_path / "new", "") == ["007.png", "130.png"]


def test_texts(tmp_path: Path) -> None:
    for name in CLASSES:
        (tmp_path / "posts" / name).mkdir(parents=True)
        for number in range(20):
            (tmp_path / "posts" / name / f"{number}.txt").write_text(f"it is {name}, for the time number {number}")
    task = opened(tmp_path, tmp_path / "posts")
    assert [spec.name for spec in task.inputs] == ["text"]
    texts, targets = task.texts("train"), task.fetch("train", np.arange(task.count("train")))["label/target"]
    assert all(CLASSES[target] in text for text, target in zip(texts, targets, strict=True))


def test_what_is_no_such_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"has no images and no \.txt files .* or a folder with one folder of images"):
        opened(tmp_path, tmp_path / "empty")
    flat = tmp_path / "flat"
    flat.mkdir()
    (flat / "a.txt").write_text("a text that has no class")
    with pytest.raises(DataError, match="no answer is named"):
        opened(tmp_path, flat)
    (flat / "0.png").write_bytes(b"")
    with pytest.raises(DataError, match="1 images and 1 texts"):
        opened(tmp_path, flat)
