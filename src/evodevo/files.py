"""Reading of files of any origin: regular files only, no more bytes than stated, no link out of a named folder.

Every reader of a user's file begins here: of data, settings, genomes, tokenizers, pretrained models and packs. What it
refuses is a ``DataError`` with the name of the file. Limits of data count the bytes after decompression and are raised
by the environment variable ``EVODEVO_MOST_INPUT_GIB``, for users with more data.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import math
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from evodevo.errors import DataError, UnsafeFileError, UsageError

KIB, MIB, GIB = 2**10, 2**20, 2**30
MOST_INPUT = "EVODEVO_MOST_INPUT_GIB"
RATIO = 200
"""Bytes that a compressed file may unpack to for each of its own, beyond ``FREE_BYTES``; text and images have 3 to
20."""
FREE_BYTES = 64 * MIB
NO_LIMIT = 2**62
COMPRESSIONS = (".xz", ".gz")
_UNPACKER_BYTES = 256 * MIB  # xz states the memory that its dictionary takes; the strongest preset takes 65 MiB
_CHUNK = 256 * KIB
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def most_input() -> int:
    """Most bytes of data that are read into memory: 2 GiB, or what the environment variable says.

    Raises:
        UsageError: The variable is no number of GiB.
    """
    given = os.environ.get(MOST_INPUT, "2")
    try:
        number = float(given)
    except ValueError:
        number = 0.0
    if not (math.isfinite(number) and 0 < number <= 2**20):
        raise UsageError(f"{MOST_INPUT}={given[:40]!r} is no number of GiB, such as 8.")
    return int(number * GIB)


def regular(path: Path, inside: Path | None = None) -> bool:
    """Whether a regular file is at a path, also one that a link in the same folder leads to. It is not opened.

    Raises:
        UnsafeFileError: A link leads out of ``inside``.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
    except (OSError, ValueError):  # a name that is too long, or holds NUL
        return False
    _within(path, inside)
    return True


def opened(path: Path, most: int | None = None, *, inside: Path | None = None) -> io.BufferedReader:
    """A regular file, open for reading.

    Args:
        path: The file.
        most: Most bytes that it may have; None = any number, for readers that count themselves.
        inside: Folder that the user named: a link out of it is refused. None where the file itself was named.

    Raises:
        DataError: There is none, it cannot be read, it is a folder, pipe, socket or device, or has more bytes.
        UnsafeFileError: A link leads out of the folder.
    """
    try:
        # Asked before it is opened, because opening a device may do something, and again of what was opened.
        _refuse_other_kinds(path, os.stat(path).st_mode)
        real, flags = _within(path, inside), os.O_NOFOLLOW if inside is not None else 0
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | flags)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    try:
        facts = os.fstat(descriptor)
        _refuse_other_kinds(path, facts.st_mode)
        if most is not None and facts.st_size > most:
            raise too_large(path, facts.st_size, most)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read(path: Path, most: int, *, inside: Path | None = None) -> bytes:
    """All bytes of a regular file. Raises as ``opened``."""
    with opened(path, most, inside=inside) as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise unreadable(path, error) from None
    if len(data) > most:  # it grew, or is one of the kernel's, which state no size
        raise too_large(path, len(data), most)
    return data


def sha256(path: Path, *, inside: Path | None = None) -> str:
    """SHA-256 of a regular file of any size, as 64 hexadecimal digits. Raises as ``opened``."""
    with opened(path, inside=inside) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise unreadable(path, error) from None


def read_text(path: Path, most: int, *, inside: Path | None = None) -> str:
    """The UTF-8 text of a regular file, without a byte order mark.

    Raises:
        DataError: See ``opened``; or it is no UTF-8.
    """
    data = read(path, most, inside=inside)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path} looks like UTF-16. Convert it: iconv -f UTF-16 -t UTF-8.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start} is 0x{data[error.start]:02x}). Convert it.") from None


@contextmanager
def unpacked(path: Path, compression: str = "", most: int | None = None) -> Iterator[BinaryIO]:
    """A stream of a file's bytes, decompressed while it is read; its reads raise ``DataError`` too.

    Args:
        path: The file.
        compression: ``.gz``, ``.xz`` or nothing.
        most: Most bytes after decompression; None = ``most_input()``.

    Raises:
        DataError: See ``opened``; the file is damaged, or unpacks to more than ``most`` or, beyond ``FREE_BYTES``, more
            than ``RATIO`` times its own size.
    """
    most = most_input() if most is None else most
    with opened(path, None if compression else most) as packed:
        inner: io.RawIOBase | io.BufferedIOBase
        if compression == ".gz":
            inner = gzip.GzipFile(fileobj=packed)
        elif compression == ".xz":
            inner = _Xz(packed)
        else:
            inner = packed
        yield io.BufferedReader(_Counted(inner, path, packed if compression else None, most), _CHUNK)


def refuse_links_outside(root: Path) -> None:
    """Check that what is linked from a folder lies in it.

    Raises:
        DataError: A link leads out of the folder, which would read what the user did not name.
    """
    inside = root.resolve()
    for folder, names, found in os.walk(root):
        for path in sorted(Path(folder, name) for name in (*names, *found) if os.path.islink(Path(folder, name))):
            if not path.resolve().is_relative_to(inside):
                raise DataError(
                    f"{path} is a link to {path.resolve()}, outside the folder {root}. Copy what it leads to into the "
                    "folder, or remove the link."
                )


def unreadable(path: Path, error: Exception) -> DataError:
    """The error for a file that the system or a decompressor cannot read."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return DataError(f"{str(path)[:400]} cannot be read: {reason}. Check the path and its permissions.")


def too_large(path: Path, size: int, most: int) -> DataError:
    """The error for a file with more bytes than its kind may have."""
    return DataError(f"{path} has {size:,} bytes; at most {most:,} are read.")


def _refuse_other_kinds(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise DataError(f"{path} is {kind}, and a file is wanted.")


def _within(path: Path, inside: Path | None) -> Path:
    """The path without links, where it must lie in a folder."""
    if inside is None:
        return path
    real, root = path.resolve(), inside.resolve()
    if not real.is_relative_to(root):
        raise UnsafeFileError(f"{path} leads to {real}, outside of {root}. Copy the file into the folder.")
    return real


class _Counted(io.RawIOBase):
    """Bytes of another stream, up to a number of them and a multiple of what was read from the packed file."""

    def __init__(self, inner: io.RawIOBase | io.BufferedIOBase, path: Path, packed: BinaryIO | None, most: int) -> None:
        self._inner, self._path, self._packed, self._most, self._count = inner, path, packed, most, 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: object) -> int:
        try:
            count = int(self._inner.readinto(target) or 0)  # type: ignore[arg-type]
            place = 0 if self._packed is None else self._packed.tell()
        except (OSError, EOFError, lzma.LZMAError, zlib.error, MemoryError) as error:
            raise unreadable(self._path, error) from None
        self._count += count
        if self._count > self._most:
            raise DataError(
                f"{self._path} has more than {self._most:,} bytes{'' if self._packed is None else ', unpacked'}. Give "
                f"fewer or smaller files, or set {MOST_INPUT} where there is memory for more."
            )
        if self._packed is not None and self._count > FREE_BYTES + RATIO * place:
            raise DataError(
                f"{self._path} unpacks to more than {RATIO} times its size, as no data do; it is not read further. "
                "Unpack it yourself if you trust it."
            )
        return count


class _Xz(io.RawIOBase):
    """The bytes in an xz file; as ``lzma.LZMAFile``, with a limit on the memory that the file asks for."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed, self._rest, self._whole = packed, b"", False
        self._unpacker = lzma.LZMADecompressor(memlimit=_UNPACKER_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, target: object) -> int:
        view = memoryview(target).cast("B")  # type: ignore[arg-type]
        while True:
            if self._unpacker.eof:
                # Streams may follow each other, with zeros between them.
                self._rest = (self._unpacker.unused_data or self._packed.read(_CHUNK)).lstrip(b"\0")
                if not self._rest:
                    self._rest = self._packed.read(_CHUNK).lstrip(b"\0")
                if not self._rest:
                    return 0
                self._unpacker = lzma.LZMADecompressor(memlimit=_UNPACKER_BYTES)
            if self._unpacker.needs_input and not self._rest:
                self._rest = self._packed.read(_CHUNK)
                if not self._rest:
                    raise EOFError("the compressed file ends before its end was marked")
            data = self._unpacker.decompress(self._rest, len(view))
            self._rest = b""
            if data:
                view[: len(data)] = data
                return len(data)
