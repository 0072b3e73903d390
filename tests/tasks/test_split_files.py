"""Folders whose entries are called after splits: who belongs to which, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from evodevo.errors import DataError
from evodevo.tasks.split_files import pool_of, splits_in, with_others


def test_names_say_the_split_whatever_the_suffix_and_nothing_is_found_without_training(tmp_path: Path) -> None:
    for name in ("Train.csv.xz", "dev.jsonl", "test.parquet", "train.txt", "classes.json", ".test.csv"):
        (tmp_path / name).touch()

    def wanted(entry: Path) -> bool:
        return entry.suffix != ".txt"

    found = splits_in(tmp_path, wanted)
    assert {split: path.name for split, path in found.items()} == {
        "train": "Train.csv.xz",
        "validation": "dev.jsonl",
        "test": "test.parquet",
    }
    assert splits_in(tmp_path / "dev.jsonl", wanted) == {}
    (tmp_path / "Train.csv.xz").unlink()
    assert splits_in(tmp_path, wanted) == {}


def test_two_of_one_split_are_refused(tmp_path: Path) -> None:
    for name in ("train.csv", "train.csv.gz"):
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=r"train\.csv and .*train\.csv\.gz both look like the train split"):
        splits_in(tmp_path, Path.is_file)
    own = {"train": tmp_path / "a", "test": tmp_path / "b"}
    assert with_others(own, tmp_path, {"validation": Path("c"), "test": None}) == {**own, "validation": Path("c")}
    with pytest.raises(DataError, match=r"b is the test split of .*, and c is given too"):
        with_others(own, tmp_path, {"test": Path("c")})


def test_what_is_given_is_not_drawn_from_training() -> None:
    assert pool_of("train", ["train"]) == "all"
    assert pool_of("train", ["train", "test"]) == "train_validation"
    assert pool_of("train", ["train", "validation", "test"]) == "train"
    assert (pool_of("test", ["train", "test"]), pool_of("validation", ["train"])) == ("test", "validation")
