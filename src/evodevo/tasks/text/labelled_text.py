"""Reading of a user's labelled texts: rows of a file, a folder per class, or one of these per split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evodevo import files
from evodevo.errors import DataError
from evodevo.tasks.base import Split
from evodevo.tasks.sample_splits import Pool
from evodevo.tasks.table import rows
from evodevo.tasks.text import corpus

_SPLIT_NAMES: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
_HOW = (
    "Give a .jsonl or .csv file (also .gz, .xz) with a column of texts and one of labels, a folder with one folder of "
    "texts per class, or a folder that holds train, validation and test as such files or folders"
)


@dataclass(frozen=True)
class LabelledTexts:
    """Texts in the order in which they were read.

    Attributes:
        source: Origin of the texts, for display.
        texts: Texts as UTF-8, none of them blank.
        labels: Label of each text.
        pools: Splits that each text may belong to.
        empty: Number of blank texts, which were left out.
    """

    source: str
    texts: tuple[bytes, ...]
    labels: tuple[str, ...]
    pools: tuple[Pool, ...]
    empty: int


def read(
    data: Path, *, validation: Path | None = None, test: Path | None = None, text: str = "text", label: str = "label"
) -> LabelledTexts:
    """All labelled texts of one or several places.

    Args:
        data: File, folder with a folder per class, or folder with a file or folder per split.
        validation: File or folder of the validation split, beside ``data``; None where there is none.
        test: File or folder of the test split, beside ``data``; None where there is none.
        text: Column of the texts in files.
        label: Column of the labels in files.

    Raises:
        DataError: A path does not exist or is unreadable, a column is missing, or a split is given twice.
    """
    given: dict[Split, Path] = _splits_of(data) or {"train": data}
    others: dict[Split, Path | None] = {"validation": validation, "test": test}
    for split, path in others.items():
        if path is not None and split in given:
            raise DataError(f"{given[split]} is the {split} split of {data}, and {path} is given too. Leave one out.")
        if path is not None:
            given[split] = path
    if "train" not in given:
        raise DataError(f"{data} holds no training texts. {_HOW}.")
    # Where a test split is given, the rest is divided into training and validation only.
    of_train: Pool = "all" if "test" not in given else "train" if "validation" in given else "train_validation"
    texts: list[bytes] = []
    labels: list[str] = []
    pools: list[Pool] = []
    empty = 0
    for split, path in given.items():
        assert split != "architecture", "texts have three splits"
        pool = of_train if split == "train" else split
        for document, name in _labelled(path.expanduser(), text, label):
            if document.strip():
                texts.append(document)
                labels.append(name)
                pools.append(pool)
            else:
                empty += 1
    return LabelledTexts(
        ", ".join(str(path) for path in given.values()), tuple(texts), tuple(labels), tuple(pools), empty
    )


def _splits_of(folder: Path) -> dict[Split, Path]:
    """The files or folders with names of splits; empty where there is no training split among them."""
    root = folder.expanduser()
    if not root.is_dir():
        return {}
    paths: dict[Split, Path] = {}
    for entry in _entries(root):
        split = _SPLIT_NAMES.get(entry.name.split(".")[0].lower())
        if split is None or not (entry.is_dir() or corpus.suffixes(entry)[0] in rows.SUFFIXES):
            continue
        if split in paths:
            raise DataError(f"{paths[split]} and {entry} both look like the {split} split. Leave one out, or name it.")
        paths[split] = entry
    return paths if "train" in paths else {}


def _labelled(path: Path, text: str, label: str) -> Iterator[tuple[bytes, str]]:
    if path.is_dir():
        files.refuse_links_outside(path)
        classes = [entry for entry in _entries(path) if entry.is_dir()]
        if not classes:
            raise DataError(f"the folder {path} holds neither classes nor splits. {_HOW}.")
        for folder in classes:
            # The folders are classes, chosen file by file, and stored runs keep their samples: all files count.
            for document in corpus.read(folder, field=text, everything=True).documents:
                yield document, folder.name
    elif path.is_file():
        for written, name in rows.read(path, (text, label)):
            yield written.encode("utf-8"), name
    else:
        raise DataError(f"there is nothing at {path}. {_HOW}.")


def _entries(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
