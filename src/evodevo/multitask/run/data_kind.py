"""What a user's data are: the reader of samples that fits a file or a folder, by names and columns alone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from evodevo.errors import DataError
from evodevo.tasks.images.arrays import open_arrays
from evodevo.tasks.images.suffixes import IMAGE_SUFFIXES, OTHER_SOUNDS, SOUND_SUFFIXES
from evodevo.tasks.inputs import InputSpec
from evodevo.tasks.rows.task import RowsSettings
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

    A folder is one of images (or of sounds, which are read as such) or of texts by the suffixes of most of its files. A
    file with the columns ``text`` and ``label`` and without a column ``image`` holds texts. Other rows are read by the
    values of their columns, unless they have a column ``text`` or ``image``, or the user says what columns mean: then
    they are a ``table``. An ``.npz`` without images holds rows, too; any other file is read as images.

    Args:
        path: the file or folder.
        given: names of the settings that the user gives the reader.

    Raises:
        DataError: There is nothing at the path, it holds sounds that nothing here decodes, or rows that cannot be read.
        MissingExtraError: A parquet file needs pyarrow.
    """
    if path.is_dir():
        return _of_folder(path)
    if not path.exists():
        raise DataError(f"there is nothing at {path}. Name a file or a folder with --data.")
    suffix, _ = corpus.suffixes(path)
    if suffix in (*SOUND_SUFFIXES, *OTHER_SOUNDS):
        raise DataError(f"{path} is one sound. Give a folder with one folder of .wav files per class.")
    if suffix == ".npz":
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
    arrays = open_arrays(path)
    return (
        PACKED_IMAGES not in arrays
        and all(array.ndim < 3 for array in arrays.values())
        and any(array.ndim == 2 for array in arrays.values())
    )


def _of_folder(folder: Path) -> Source:
    counts = _counts(folder)
    if counts["other sound"] > max(counts["image"], counts["text"], counts["rows"]):
        raise DataError(
            f"{folder} holds sounds, of which only .wav files are read. Convert them, for example with: "
            "ffmpeg -i a.mp3 a.wav"
        )
    return "text_labels" if max(counts["text"], counts["rows"]) > counts["image"] else "images"


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
        counts["rows"] += suffix in rows.READABLE
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
