"""What a user's data are: the reader of samples that fits a file or a folder, by names and columns alone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from evodevo.errors import DataError
from evodevo.tasks.images.suffixes import IMAGE_SUFFIXES
from evodevo.tasks.inputs import InputSpec
from evodevo.tasks.table import rows, tables
from evodevo.tasks.text import corpus

Source = Literal["images", "text_labels", "table"]
SOUND_SUFFIXES = frozenset((".wav", ".flac", ".mp3", ".ogg"))
LOOKED_AT = 5_000
"""Files of a folder whose suffixes are counted; the rest is taken to be like them."""
TEXT, LABEL, IMAGE = "text", "label", "image"


def source_of(path: Path) -> Source:
    """The reader for a file or folder.

    A folder is one of images or of texts by the suffixes of most of its files. A file with the columns ``text`` and
    ``label`` and without a column ``image`` holds texts; other rows are a table; any other file is read as images.

    Raises:
        DataError: There is nothing at the path, it holds sound, or rows that cannot be read.
        MissingExtraError: A parquet file needs pyarrow.
    """
    if path.is_dir():
        return _of_folder(path)
    if not path.exists():
        raise DataError(f"there is nothing at {path}. Name a file or a folder with --data.")
    suffix, _ = corpus.suffixes(path)
    if suffix in SOUND_SUFFIXES:
        raise _sound(path)
    if suffix not in rows.READABLE:
        return "images"
    columns = set(tables.read(path))
    return "text_labels" if {TEXT, LABEL} <= columns and IMAGE not in columns else "table"


def _of_folder(folder: Path) -> Source:
    names = (name for _, _, found in os.walk(folder) for name in sorted(found) if not name.startswith("."))
    counts: Counter[str] = Counter()
    for name in islice(names, LOOKED_AT):
        suffix, _ = corpus.suffixes(Path(name))
        counts["image"] += suffix in IMAGE_SUFFIXES
        counts["sound"] += suffix in SOUND_SUFFIXES
        counts["text"] += suffix in corpus.TEXT_SUFFIXES and not corpus.is_about(Path(name))
        counts["rows"] += suffix in rows.READABLE
    if counts["sound"] > max(counts["image"], counts["text"], counts["rows"]):
        raise _sound(folder)
    return "text_labels" if max(counts["text"], counts["rows"]) > counts["image"] else "images"


def _sound(path: Path) -> DataError:
    return DataError(f"{path} holds sound, which no class of agents reads. Give images, texts or rows.")


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
