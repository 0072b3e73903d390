"""A folder whose files or inner folders are called after splits, such as ``train.csv`` and ``test.csv``.

Every reader of folders finds them here, so that all kinds of data may be divided in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from evodevo.errors import DataError
from evodevo.tasks.base import Split
from evodevo.tasks.sample_splits import Pool

SPLIT_NAMES: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
"""Name of a file up to its first point, in any case -> its split."""


def split_of(path: Path) -> Split | None:
    """The split that a file or folder is called after; None for other names."""
    return SPLIT_NAMES.get(path.name.split(".")[0].lower())


def splits_in(folder: Path, is_wanted: Callable[[Path], bool]) -> dict[Split, Path]:
    """The split of each entry of a folder, in the order of their names; empty where none is for training.

    Args:
        folder: Any path; what is no folder has no splits.
        is_wanted: Whether an entry called after a split is one that the caller reads.

    Raises:
        DataError: Two of them are of the same split.
    """
    if not folder.is_dir():
        return {}
    paths: dict[Split, Path] = {}
    for entry in sorted(entry for entry in folder.iterdir() if not entry.name.startswith(".")):
        split = split_of(entry)
        if split is None or not is_wanted(entry):
            continue
        if split in paths:
            raise DataError(f"{paths[split]} and {entry} both look like the {split} split. Leave one out, or name it.")
        paths[split] = entry
    return paths if "train" in paths else {}


def pool_of(split: Split, given: Collection[Split]) -> Pool:
    """Splits that the samples of one file may belong to: where a test split is given, the rest is divided into training
    and validation only, and not at all where both are given.

    Args:
        split: The file's own.
        given: Those of all files.
    """
    assert split != "architecture", "no file is called after it"
    if split != "train":
        return split
    return "all" if "test" not in given else "train" if "validation" in given else "train_validation"


def with_others(found: Mapping[Split, Path], data: Path, others: Mapping[Split, Path | None]) -> dict[Split, Path]:
    """The splits of a folder and those that the settings name beside it.

    Args:
        found: Those of the folder.
        data: The folder, for messages.
        others: Split -> its file or folder; None where the settings name none.

    Raises:
        DataError: A split is given twice.
    """
    whole = dict(found)
    for split, path in others.items():
        if path is not None and split in whole:
            raise DataError(f"{whole[split]} is the {split} split of {data}, and {path} is given too. Leave one out.")
        if path is not None:
            whole[split] = path
    return whole
