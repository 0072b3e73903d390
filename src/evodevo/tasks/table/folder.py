"""A folder with one folder of files per class as a table: a row for each file.

Legend: n rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evodevo import files
from evodevo.errors import DataError, UsageError
from evodevo.tasks.images.suffixes import IMAGE_SUFFIXES
from evodevo.tasks.text import corpus

IMAGE, TEXT, LABEL = "image", "text", "label"
"""Columns of a folder: a path below it, or the contents of a file; and its class."""
TEXT_SUFFIXES = frozenset({".txt", ".md"})
MAX_TEXT_BYTES = 16 * files.MIB


def columns_of(root: Path, advice: str, label: str = LABEL) -> dict[str, list[str]]:
    """Column -> n values: paths of images or contents of texts, and, where there are folders below, the classes.

    The class of a file is the name of the folder on the first level; hidden files and files about the data are left
    out. Sounds (.wav) are read as images.

    Args:
        root: Folder.
        advice: Sentence for errors on what can be given instead.
        label: Name of the column of classes.

    Raises:
        DataError: The folder has neither images nor texts, or both, or a text that is not UTF-8.
        UsageError: The label has the name of the other column.
        UnsafeFileError: A link leads out of the folder.
    """
    column, found = _samples(root, advice)
    names = [path.relative_to(root) for path in found]
    classes = [name.parts[0] if len(name.parts) > 1 else "" for name in names]
    if label == column:
        raise UsageError(f"the label of a folder cannot be called {label!r}, which is the column of its files.")
    values = [name.as_posix() for name in names] if column == IMAGE else [_contents(path, root) for path in found]
    return {column: values} | ({label: classes} if any(classes) else {})


def names_of(root: Path, advice: str) -> list[str]:
    """Paths below a folder of the files of its rows, in the order of ``columns_of``.

    Raises:
        DataError, UnsafeFileError: See ``columns_of``.
    """
    return [path.relative_to(root).as_posix() for path in _samples(root, advice)[1]]


def _samples(root: Path, advice: str) -> tuple[str, list[Path]]:
    """The column of a folder's files, and the files."""
    files.refuse_links_outside(root)
    found = sorted(_below(root), key=lambda path: path.as_posix())
    images = [path for path in found if path.suffix.lower() in IMAGE_SUFFIXES]
    texts = [path for path in found if path.suffix.lower() in TEXT_SUFFIXES]
    if not images and not texts:
        raise DataError(f"{root} has no images and no .txt files in folders below it. {advice}.")
    if images and texts:
        raise DataError(
            f"{root} has {len(images):,} images and {len(texts):,} texts. Give a folder of one kind, or a table whose "
            "rows name the images and hold the texts."
        )
    return (IMAGE, images) if images else (TEXT, texts)


def _below(root: Path) -> Iterator[Path]:
    for path in root.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
        if not hidden and not corpus.is_about(path) and path.is_file():
            yield path


def _contents(path: Path, root: Path) -> str:
    data = files.read(path, MAX_TEXT_BYTES, inside=root)
    return corpus.as_text(data, str(path)).decode("utf-8")
