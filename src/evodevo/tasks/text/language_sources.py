"""Reading of a user's documents by language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from evodevo import files
from evodevo.errors import DataError, quoted_list
from evodevo.tasks.table import rows
from evodevo.tasks.text import corpus

_HOW = (
    "Give a folder with one folder or text file per language (de.txt, sw.jsonl, ...), or a .jsonl or .csv file (also "
    ".gz, .xz) or a .parquet file with a column of languages and one of texts, or a column per language (text=de,en)"
)


def read(
    path: Path, *, language: str = "lang", text: Sequence[str] = ("text",), everything: bool = False
) -> dict[str, list[bytes]]:
    """Language, in alphabetical order -> its distinct documents as UTF-8, in the order of the files.

    Args:
        path: Folder, or file of rows.
        language: Column of the languages in rows; not read where there are several columns of texts.
        text: Column of the texts in rows, or several, each of one language and with its name.
        everything: See ``corpus.read``.

    Raises:
        DataError: The path does not exist or is unreadable, a column is missing, or there are fewer than two languages.
    """
    if path.is_dir():
        if len(text) > 1:
            raise DataError(f"{path} is a folder of languages, which has no columns. {_HOW}.")
        documents_of = _folder(path, text[0], everything)
    elif path.is_file():
        documents_of = {}
        for name, document in _rows(path, language, text):
            if document.strip():
                documents_of.setdefault(name, {})[document.encode("utf-8")] = None
    else:
        raise DataError(f"there is nothing at {path}. {_HOW}.")
    if len(documents_of) < 2:
        raise DataError(f"{path} holds {quoted_list(documents_of) or 'no language'}; at least two are needed. {_HOW}.")
    return {name: list(documents) for name, documents in sorted(documents_of.items())}


def _rows(path: Path, language: str, text: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The language and text of each document: a row each, or, of several columns, a cell each."""
    if len(text) == 1:
        yield from ((name, document) for name, document in rows.read(path, (language, text[0])))
    else:
        for documents in rows.read(path, text):
            yield from zip(text, documents, strict=True)


def _folder(folder: Path, text: str, everything: bool) -> dict[str, dict[bytes, None]]:
    documents_of: dict[str, dict[bytes, None]] = {}
    if not everything:
        files.refuse_links_outside(folder)
    for entry in sorted(folder.iterdir()):
        wanted = corpus.suffixes(entry)[0] in corpus.TEXT_SUFFIXES | {".jsonl", ".parquet"}
        about = not everything and not entry.is_dir() and corpus.is_about(entry)
        if entry.name.startswith(".") or about or not (entry.is_dir() or wanted):
            continue
        name = entry.name if entry.is_dir() else entry.name.split(".")[0]
        documents = corpus.read(entry, field=text, everything=everything).documents
        documents_of.setdefault(name, {}).update(dict.fromkeys(documents))
    return documents_of
