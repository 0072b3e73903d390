"""Reading of text documents: the source of Python's standard library, or the user's files.

A document is UTF-8 text as bytes. Text, JSON lines and parquet are read, and no format that can contain code.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sysconfig
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from evodevo import canonical, files
from evodevo.errors import DataError, UsageError, quoted_list
from evodevo.tasks import parquet
from evodevo.tasks.spooled import Spool

# Larger than a corpus for training on one machine, smaller than what a decompression bomb unpacks to. Where documents
# are spooled to the disk it is the limit of each; what a compressed file may unpack to, ``files.unpacked`` counts.
MAX_CORPUS_BYTES = files.most_input()
# Of one JSON object: its Python objects take up to 30 times as much.
MAX_LINE_BYTES = MAX_CORPUS_BYTES // 32

TEXT_SUFFIXES = frozenset(
    {".txt", ".text", ".md", ".rst", ".tex", ".py", ".pyi", ".c", ".h", ".cpp", ".rs", ".go", ".js"}
)
# Files about a corpus, by the beginning of their names; code of such a name is code.
_ABOUT = re.compile(
    r"(readme|licen[cs]e|copying|notice|authors|contributing|changelog|citation)([-_.].*)?", re.IGNORECASE
)
_PROSE = frozenset({"", ".txt", ".text", ".md", ".rst", ".tex"})
_NAMES_SHOWN = 8
_NOT_STANDARD_LIBRARY = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"})
_HOW_TO_GIVE_DATA = "Give a UTF-8 text file, a folder of them, or a .jsonl(.gz, .xz) or .parquet file"


@dataclass(frozen=True)
class LeftOut:
    """Files or documents that are no part of a corpus, for one reason.

    Args:
        reason: The reason, as a phrase after a number ("about the corpus", "hidden").
        count: Number of files or documents.
        names: The first names, relative to the folder; empty for documents, which have none.
    """

    reason: str
    count: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """Distinct, non-empty documents in a deterministic order.

    Args:
        source: Origin of the documents, for display.
        documents: Documents as UTF-8 text without NUL; a tuple where they are in memory.
        left_out: What was left out: README and licence files, hidden files, other suffixes, unreadable modules of the
            standard library, repeated and blank documents, and what is over ``max_bytes``.
    """

    source: str
    documents: Sequence[bytes]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def is_on_disk(self) -> bool:
        """Whether the documents are too many for the memory."""
        return bool(getattr(self.documents, "is_on_disk", False))

    @property
    def omitted(self) -> int:
        """Number of files and documents left out, without hidden ones."""
        return sum(group.count for group in self.left_out if group.reason != HIDDEN)

    def describe(self) -> dict[str, Any]:
        """Source, and what was left out, JSON-able."""
        groups = [{**asdict(group), "names": list(group.names)} for group in self.left_out]
        return {"source": self.source, "documents_omitted": self.omitted, "left_out": groups}

    @property
    def digest(self) -> str:
        """SHA-256 over the digests of the documents, in order."""
        whole = hashlib.sha256()
        for document in self.documents:
            whole.update(hashlib.sha256(document).digest())
        return whole.hexdigest()


ABOUT = "about the corpus (README, licence and the like)"
HIDDEN = "hidden"
SUFFIX = "without a suffix of text"
UNREADABLE = "not in UTF-8"
BLANK, REPEATED, OVER = "blank", "repeated", "over max_bytes"


def read(
    path: str | Path | None,
    *,
    field: str = "text",
    max_bytes: int | None = None,
    everything: bool = False,
    spool: Path | None = None,
) -> Corpus:
    """The documents at ``path``, or the standard library's source when it is None.

    Args:
        path: Text file (one document), folder (each file is one document, or many in .jsonl and .parquet), .jsonl file
            or .parquet file; None = the standard library.
        field: Key of a JSON line, or column of a parquet file, that has the text.
        max_bytes: Largest sum of bytes of the documents, which are chosen by their hash; None = no limit.
        everything: Whether README and licence files of a folder are documents too, and its links may lead anywhere, as
            in runs that were stored before these rules.

    Raises:
        DataError: The path does not exist, has no text, bytes that are not text, or a link that leads out of the
            folder; the message has path and remedy.
        MissingExtraError: A parquet file needs pyarrow.
    """
    reader = _CorpusReader(field, everything, total=None if spool else MAX_CORPUS_BYTES)
    if path is None:
        source, documents = (
            f"the source of Python {platform.python_version()}'s standard library",
            _standard_library(reader),
        )
    else:
        location = Path(path).expanduser()
        source = str(location)
        if location.is_dir():
            documents = _folder(location, reader)
        elif location.is_file():
            documents = reader.documents(location)
        elif location.exists():
            raise DataError(f"{location} is neither a file nor a folder. {_HOW_TO_GIVE_DATA}.")
        else:
            raise DataError(f"there is nothing at {location}. {_HOW_TO_GIVE_DATA}.")
    # Digest -> length, in the order of the documents.
    distinct: dict[bytes, int] = {}
    kept = Spool(spool)
    for document in documents:
        name = hashlib.sha256(document).digest()
        if not document.strip() or name in distinct:
            reader.leave_out(REPEATED if name in distinct else BLANK)
        else:
            distinct[name] = len(document)
            kept.append(document)
    if not distinct:
        raise DataError(f"{source} holds no text: every document is empty. {_HOW_TO_GIVE_DATA}.")
    limited = _limited(kept, distinct, max_bytes)
    reader.leave_out(OVER, count=len(distinct) - len(limited))
    return Corpus(source, limited, reader.left_out())


def _limited(documents: Spool, lengths: dict[bytes, int], max_bytes: int | None) -> Sequence[bytes]:
    """Documents up to a sum of bytes, chosen as a function of their contents, not of names or order."""
    if max_bytes is None or sum(lengths.values()) <= max_bytes:
        return documents if documents.is_on_disk else tuple(documents)
    chosen: set[bytes] = set()
    room = max_bytes
    for name in sorted(lengths):
        if lengths[name] <= room:
            chosen.add(name)
            room -= lengths[name]
    if chosen:
        return documents.chosen([index for index, name in enumerate(lengths) if name in chosen])
    first = documents[list(lengths).index(min(lengths))]
    beginning = first[:max_bytes].decode("utf-8", "ignore").encode()
    if not beginning.strip():
        raise DataError(f"max_bytes = {max_bytes} leaves no text; the smallest document is larger. Raise it.")
    return (beginning,)


class _CorpusReader:
    """Reads documents from files and counts their bytes, so that no input can fill the memory or, unseen, the disk."""

    def __init__(self, field: str, everything: bool, total: int | None) -> None:
        self.field = field
        self.everything = everything
        self._counts: dict[str, int] = {}
        self._names: dict[str, list[str]] = {}
        self._total = total
        self._taken = 0

    @property
    def _room(self) -> int:
        """Largest size of the next document, in bytes."""
        return MAX_CORPUS_BYTES if self._total is None else self._total - self._taken

    def leave_out(self, reason: str, name: str = "", count: int = 1) -> None:
        """Count a file or documents that are no part of the corpus."""
        if count:
            self._counts[reason] = self._counts.get(reason, 0) + count
            names = self._names.setdefault(reason, [])
            if name and len(names) < _NAMES_SHOWN:
                names.append(name)

    def left_out(self) -> tuple[LeftOut, ...]:
        """What was left out, by reason."""
        return tuple(LeftOut(reason, count, tuple(self._names[reason])) for reason, count in self._counts.items())

    def documents(self, path: Path) -> Iterator[bytes]:
        """The documents of one file, read by its suffix; a file with an unknown suffix is read as text."""
        suffix, compression = suffixes(path)
        size = path.stat().st_size
        whole = suffix != ".parquet" and (suffix != ".jsonl" or self._total is not None)
        if whole and not compression and size > self._room:
            self._take(size, path)  # refuses it before it is read
        if suffix == ".parquet":
            yield from self._parquet(path)
        elif suffix == ".jsonl":
            yield from self._json_lines(path, compression)
        else:
            yield self.text(path, compression)

    def text(self, path: Path, compression: str = "") -> bytes:
        with self._stream(path, compression) as stream:
            data = stream.read(self._room + 1)
        self._take(len(data), path)
        return as_text(data, str(path))

    def _json_lines(self, path: Path, compression: str) -> Iterator[bytes]:
        with self._stream(path, compression) as stream:
            number = 0
            while line := stream.readline(min(self._room, MAX_LINE_BYTES) + 1):
                number += 1
                self._take(len(line), path)
                if len(line) > MAX_LINE_BYTES:
                    raise DataError(f"{path}, line {number} has more than {MAX_LINE_BYTES:,} bytes. Divide it.")
                if line.strip():
                    yield self._json_line(line, f"{path}, line {number}")

    def _json_line(self, line: bytes, place: str) -> bytes:
        try:
            value = canonical.loads(line, what=place, max_bytes=MAX_LINE_BYTES)
        except UsageError as error:
            raise DataError(f"{error} Each line must be one JSON object with the text under {self.field!r}.") from None
        text = value.get(self.field) if isinstance(value, dict) else None
        if not isinstance(text, str):
            keys = quoted_list(sorted(value)[:16]) if isinstance(value, dict) else "no object"
            raise DataError(
                f"{place} has no text under {self.field!r} (there: {keys}). Set the field that holds the text."
            )
        return encoded(text, place)

    def _parquet(self, path: Path) -> Iterator[bytes]:
        for number, text in enumerate(parquet.texts(path, self.field, lambda: self._room), start=1):
            self._take(len(text), path)
            yield as_text(text, f"{path}, row {number}: {self.field!r}")

    def _stream(self, path: Path, compression: str) -> AbstractContextManager[BinaryIO]:
        # What is read is limited by ``_room``, which the caller asks for.
        return files.unpacked(path, compression, files.NO_LIMIT)

    def _take(self, size: int, path: Path) -> None:
        self._taken += size
        if self._room < 0:
            raise DataError(f"{path} brings the corpus over {MAX_CORPUS_BYTES:,} bytes. Give fewer or smaller files.")
        if size > MAX_CORPUS_BYTES:
            raise DataError(f"{path} has a document of over {MAX_CORPUS_BYTES:,} bytes. Divide it.")


def as_text(data: bytes, place: str) -> bytes:
    """The bytes themselves, without a byte order mark, after a check that they are UTF-8 text.

    Raises:
        DataError: They are no UTF-8 text; the message has the place and a remedy.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{place} looks like UTF-16. Convert it: iconv -f UTF-16 -t UTF-8.")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in data:
        raise DataError(f"{place} is binary, not text (a NUL at byte {data.index(0)}). {_HOW_TO_GIVE_DATA}.")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{place} is not UTF-8 (byte {error.start} is 0x{data[error.start]:02x}). Convert it, for example: "
            "iconv -f LATIN1 -t UTF-8."
        ) from None
    return data


def encoded(text: str, place: str) -> bytes:
    """The text as UTF-8.

    Raises:
        DataError: The text contains NUL or a lone surrogate.
    """
    try:
        return as_text(text.encode("utf-8"), place)
    except UnicodeEncodeError:
        raise DataError(f"{place} holds half a surrogate pair, which is no text. Repair or remove it.") from None


def _standard_library(reader: _CorpusReader) -> Iterator[bytes]:
    root = Path(sysconfig.get_path("stdlib"))
    any_module = False
    for path in _files(root, lambda path: None, without=_NOT_STANDARD_LIBRARY):
        if path.suffix != ".py":
            continue
        any_module = True
        try:
            yield reader.text(path)
        except DataError:  # a few modules are kept in old encodings on purpose
            reader.leave_out(UNREADABLE, path.name)
    if not any_module:
        raise DataError(f"this Python has no standard library source under {root}. {_HOW_TO_GIVE_DATA} with --data.")


def _folder(root: Path, reader: _CorpusReader) -> Iterator[bytes]:
    paths = _files(root, lambda path: reader.leave_out(HIDDEN, path.relative_to(root).as_posix()))
    if not reader.everything:
        files.refuse_links_outside(root)
    wanted = []
    for path in paths:
        suffix = suffixes(path)[0]
        about = not reader.everything and is_about(path)
        if suffix in TEXT_SUFFIXES | {".jsonl", ".parquet"} and not about:
            wanted.append(path)
        else:
            reader.leave_out(ABOUT if about else SUFFIX, path.relative_to(root).as_posix())
    if not wanted:
        there = quoted_list(sorted({path.suffix or path.name for path in paths})[:16]) or "no files"
        raise DataError(
            f"the folder {root} holds no text file (there: {there}). In a folder these suffixes are read: "
            f"{quoted_list(sorted(TEXT_SUFFIXES))}, .jsonl, .parquet; README and licence files are not."
        )
    for path in wanted:
        yield from reader.documents(path)


def is_about(path: Path) -> bool:
    """Whether a file is about a corpus and no part of it, by its name: README, licence and the like."""
    return suffixes(path)[0] in _PROSE and _ABOUT.fullmatch(path.name) is not None


def _files(root: Path, hidden: Callable[[Path], None], without: Collection[str] = ()) -> list[Path]:
    """Regular files below a folder in the order of their paths, without hidden ones and those in linked folders.

    Args:
        root: the folder.
        hidden: called for each hidden file and folder.
        without: names of folders that are not entered.
    """
    candidates: list[Path] = []
    for folder, names, found in os.walk(root):
        for name in sorted((*names, *found)):
            if name.startswith("."):
                hidden(Path(folder, name))
        names[:] = [name for name in names if not name.startswith(".") and name not in without]
        candidates += [Path(folder, name) for name in found if not name.startswith(".")]
    return sorted((path for path in candidates if path.is_file()), key=lambda path: path.relative_to(root).parts)


def suffixes(path: Path) -> tuple[str, str]:
    """Suffixes of a file's format and compression, such as (".jsonl", ".gz"); "" where the name has none."""
    parts = [suffix.lower() for suffix in path.suffixes[-2:]]
    compression = parts.pop() if parts and parts[-1] in files.COMPRESSIONS else ""
    return (parts[-1] if parts else ""), compression
