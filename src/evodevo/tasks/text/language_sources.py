"""Documents by language, from where they lie."""

from __future__ import annotations

from pathlib import Path

from evodevo.errors import DataError, quoted_list
from evodevo.tasks.table import rows
from evodevo.tasks.text import corpus

_HOW = (
    "Give a folder with one folder or text file per language (de.txt, sw.jsonl, ...), or a .jsonl or .csv file (also "
    ".gz, .xz) with a column of languages and one of texts"
)


def read(path: Path, *, language: str = "lang", text: str = "text") -> dict[str, list[bytes]]:
    """Language -> its distinct documents as UTF-8, both in the order in which they lie there.

    Args:
        path: a folder, or a file of rows.
        language, text: the columns of rows.

    Raises:
        DataError: nothing there, unreadable, a column is missing, or fewer than two languages.
    """
    if path.is_dir():
        found = _folder(path, text)
    elif path.is_file():
        found = {}
        for name, document in rows.read(path, (language, text)):
            if document.strip():
                found.setdefault(name, {})[document.encode("utf-8")] = None
    else:
        raise DataError(f"there is nothing at {path}. {_HOW}.")
    if len(found) < 2:
        raise DataError(f"{path} holds {quoted_list(found) or 'no language'}; at least two are needed. {_HOW}.")
    return {name: list(documents) for name, documents in sorted(found.items())}


def _folder(folder: Path, text: str) -> dict[str, dict[bytes, None]]:
    found: dict[str, dict[bytes, None]] = {}
    for entry in sorted(folder.iterdir()):
        wanted = corpus.suffixes(entry)[0] in corpus.TEXT_SUFFIXES | {".jsonl", ".parquet"}
        if entry.name.startswith(".") or not (entry.is_dir() or wanted):
            continue
        name = entry.name if entry.is_dir() else entry.name.split(".")[0]
        documents = corpus.read(entry, field=text).documents
        found.setdefault(name, {}).update(dict.fromkeys(documents))
    return found
