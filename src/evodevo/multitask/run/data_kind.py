"""What a user's data are: the reader of samples that fits a file or a folder, by names and columns alone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from evodevo.errors import DataError
from evodevo.tasks.images.arrays import is_arrays, shapes_of
from evodevo.tasks.images.suffixes import IMAGE_SUFFIXES, OTHER_SOUNDS, SOUND_SUFFIXES
from evodevo.tasks.inputs import InputSpec
from evodevo.tasks.rows.sources import is_file_of_rows
from evodevo.tasks.rows.task import RowsSettings
from evodevo.tasks.split_files import splits_in
from evodevo.tasks.table import rows, tables
from evodevo.tasks.text import corpus

Source = Literal["images", "text_labels", "table", "rows"]
LOOKED_AT = 5_000
"""Files of a folder whose suffixes are counted; the rest is taken to be like them."""
TEXT, LABEL, IMAGE = "text", "label", "image"
PACKED_IMAGES = "jpg"
"""Array of an npz that holds files of images."""


def source_of(path: Path, given: Collection[str] = ()) -> Source:
    """The reader for a file or folder.

    A folder is one of images (or of sounds, which are read as such), of texts or of rows by the suffixes of most of its
    files; where files of rows are called after splits, it is what the one for training is, also if that names images
    which are more than they. A file with the columns
    ``text`` and ``label`` and without a column ``image`` holds texts. Other rows are read by the values of their
    columns, unless they have a column ``text`` or ``image``, or the user says what columns mean: then they are a
    ``table``. An ``.npz`` without images holds rows, too; any other file is read as images. Each may be compressed.

    Args:
        path: the file or folder.
        given: names of the settings that the user gives the reader.

    Raises:
        DataError: There is nothing at the path, it holds sounds that nothing here decodes, or rows that cannot be read.
        MissingExtraError: A parquet file needs pyarrow.
    """
    if path.is_dir():
        return _of_folder(path, given)
    if not path.exists():
        raise DataError(f"there is nothing at {path}. Name a file or a folder with --data.")
    return _of_file(path, given)


def _of_file(path: Path, given: Collection[str]) -> Source:
    suffix, _ = corpus.suffixes(path)
    if suffix in (*SOUND_SUFFIXES, *OTHER_SOUNDS):
        raise DataError(f"{path} is one sound. Give a folder with one folder of .wav files per class.")
    if is_arrays(path):
        return "rows" if _holds_vectors(path) else "images"
    if suffix not in rows.READABLE:
        return "images"
    columns = set(tables.read(path))
    if {TEXT, LABEL} <= columns and IMAGE not in columns:
        return "text_labels"
    named = set(given) - RowsSettings.model_fields.keys()
    return "table" if named or columns & {TEXT, IMAGE} else "rows"


def _holds_vectors(path: Path) -> bool:
    """Whether the arrays of an npz are columns: no image among them, and a table of numbers."""
    axes = {name: len(shape) for name, shape in shapes_of(path).items()}
    return PACKED_IMAGES not in axes and all(count < 3 for count in axes.values()) and 2 in axes.values()


def _of_folder(folder: Path, given: Collection[str]) -> Source:
    counts = _counts(folder)
    if counts["other sound"] > max(counts["image"], counts["text"], counts["rows"]):
        raise DataError(
            f"{folder} holds sounds, of which only .wav files are read. Convert them, for example with: "
            "ffmpeg -i a.mp3 a.wav"
        )
    splits = splits_in(folder, lambda entry: entry.is_file() and is_file_of_rows(entry))
    if counts["image"] >= max(1, counts["text"], counts["rows"]):
        return "table" if splits and _names_images(splits["train"]) else "images"
    if splits:
        return _of_file(splits["train"], given)
    if counts["rows"] and not counts["text"] and not any(_folders(folder)):
        raise DataError(
            f"{folder} holds tables and none called train. Call them train and test (train.csv, test.npz, ...), or give"
            " one of them."
        )
    return "text_labels" if max(counts["text"], counts["tables"]) > counts["image"] else "images"


def _names_images(path: Path) -> bool:
    """Whether a file of rows is about images that may lie beside it."""
    return not is_arrays(path) and IMAGE in tables.read(path)


def _folders(folder: Path) -> Iterator[Path]:
    return (entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def holds_sounds(path: Path) -> bool:
    """Whether what is read as images of a folder are sounds; of texts, one among them is not read."""
    return path.is_dir() and _counts(path)["sound"] > 0 and source_of(path) == "images"


def _counts(folder: Path) -> Counter[str]:
    """Files of a folder by what their suffixes promise; a sound that is read counts as an image, too."""
    names = (name for _, _, found in os.walk(folder) for name in sorted(found) if not name.startswith("."))
    counts: Counter[str] = Counter()
    for name in islice(names, LOOKED_AT):
        suffix, _ = corpus.suffixes(Path(name))
        counts["image"] += suffix in IMAGE_SUFFIXES
        counts["sound"] += suffix in SOUND_SUFFIXES
        counts["other sound"] += suffix in OTHER_SOUNDS
        counts["text"] += suffix in corpus.TEXT_SUFFIXES and not corpus.is_about(Path(name))
        counts["tables"] += suffix in rows.READABLE
        counts["rows"] += is_file_of_rows(Path(name))
    return counts


def words_of_table(columns: Sequence[Mapping[str, Any]]) -> str:
    """``a table with 2 categories, 1 date and 4 numbers``; columns as ``AgentSettings`` records them."""
    counts = Counter(column["kind"] for column in columns)
    plural = {"category": "categories", "vector": "lists of numbers"}
    words = [
        f"{counts[kind]:,} {kind if counts[kind] == 1 else plural.get(kind, f'{kind}s')}" for kind in sorted(counts)
    ]
    return "a table with " + " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def words_of_inputs(inputs: Sequence[InputSpec]) -> str:
    """``images, 28 x 28, grey``; ``texts of at most 256 tokens``; ``13 numbers``."""
    parts = []
    for spec in inputs:
        if spec.modality == "image":
            parts.append(f"images, {spec.height} x {spec.width}, {'grey' if spec.channels == 1 else 'colour'}")
        elif spec.modality == "tokens":
            parts.append(f"texts of at most {spec.length:,} tokens")
        else:
            parts.append(f"{spec.size:,} numbers")
    return " and ".join(parts)
