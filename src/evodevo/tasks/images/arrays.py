"""Reading of images and labels from npz and idx files, with limits against files from untrusted sources."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from evodevo import files
from evodevo.errors import DataError
from evodevo.execution.limited import Answer, Function, limited
from evodevo.tasks.images.pixels import MAX_BYTES, MAX_FILE_BYTES, Pixels
from evodevo.tasks.text import corpus

ARRAYS = ".npz"
PATH_ADVICE = " Check the path and its permissions."
_IDX_BYTES = 0x08  # unsigned bytes, the only element type of MNIST and data sets like it
_CHUNK = 4 * files.MIB
MAX_ARRAYS = 1024
_MAX_AXES = 8
_ALIGNMENT = 64  # an array begins where numbers of any type may
_SECONDS, _MEMORY = 600.0, 512 * files.MIB


def read_bytes(path: Path, inside: Path | None = None) -> bytes:
    """The bytes of an image file; see ``files.read``.

    Raises:
        DataError: The file cannot be read, or is larger than any image.
    """
    return files.read(path, MAX_FILE_BYTES, inside=inside)


def is_arrays(path: Path) -> bool:
    """Whether a file is called as an npz is, also a compressed one (``.npz.gz``, ``.npz.xz``)."""
    return corpus.suffixes(path)[0] == ARRAYS


def open_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an npz, also of a compressed one, which is unpacked in a limited process.

    Raises:
        DataError: The file is not an npz, unpacks to too many bytes, or has an array of Python objects, which could
            contain code.
    """
    answer = _limited(unpack, path)
    arrays = {}
    for name, kind, shape, fortran, begin in answer.facts:
        count = math.prod(shape)
        array = np.frombuffer(answer.data, np.dtype(kind), count, begin) if count else np.empty(0, np.dtype(kind))
        arrays[str(name)] = array.reshape(shape, order="F" if fortran else "C")
    return arrays


def shapes_of(path: Path) -> dict[str, tuple[int, ...]]:
    """Array of an npz -> its shape, from the heads of the arrays alone. Raises as ``open_arrays``."""
    return {str(name): tuple(shape) for name, shape in _limited(heads, path).facts}


def _limited(function: Function, path: Path) -> Answer:
    """What a reader of npz files answers within the limits. Raises as ``open_arrays``."""
    with files.opened(path):
        pass  # what is no regular file has a message of its own
    return limited(
        function,
        (str(path), MAX_BYTES),
        what=str(path),
        fault="is not a readable .npz of plain arrays",
        seconds=_SECONDS,
        memory_bytes=_MEMORY,
        most_bytes=MAX_BYTES + _ALIGNMENT * MAX_ARRAYS,
    )


@contextmanager
def _archive(path: Path, most: int) -> Iterator[tuple[zipfile.ZipFile, list[zipfile.ZipInfo]]]:
    """The zip file in an npz and its checked members; of a compressed npz first all bytes become a temporary file,
    which nobody else sees and which ends with its process."""
    compression = corpus.suffixes(path)[1]
    with files.opened(path) as file, ExitStack() as stack:
        given: BinaryIO = file
        if compression:
            given = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(stack.enter_context(files.unpacked(path, compression, most)), given, _CHUNK)
        archive = stack.enter_context(zipfile.ZipFile(given))
        members = archive.infolist()
        # A zip in a compressed file may be a bomb in a bomb: what counts is what lies on the disk.
        _check(members, path, most, os.fstat(file.fileno()).st_size)
        yield archive, members


def heads(out: BinaryIO, name: str, most: int) -> list[tuple[str, tuple[int, ...]]]:
    """(name, shape) of each array of an npz; nothing is written. Raises as ``open_arrays``."""
    found = []
    with _archive(Path(name), most) as (archive, members):
        for member in members:
            with archive.open(member) as stream:
                array, shape, _, _ = _head(stream, member, Path(name))
                found.append((array, shape))
    return found


def unpack(out: BinaryIO, name: str, most: int) -> list[tuple[str, str, tuple[int, ...], bool, int]]:
    """Write the arrays of an npz one behind the other: (name, dtype, shape, whether in Fortran's order, begin) of each.

    Raises:
        DataError: See ``open_arrays``.
    """
    path = Path(name)
    arrays = []
    with _archive(path, most) as (archive, members):
        for member in members:
            with archive.open(member) as stream:
                out.write(bytes(-out.tell() % _ALIGNMENT))
                arrays.append(_array(stream, member, out, path))
    return arrays


def _check(members: Sequence[zipfile.ZipInfo], path: Path, most: int, size: int) -> None:
    """Check what is stated before anything is unpacked: a small file may be a decompression bomb."""
    if len(members) > MAX_ARRAYS:
        raise DataError(f"{path} has {len(members):,} arrays; at most {MAX_ARRAYS:,} are read.")
    stated = sum(member.file_size for member in members)
    packed = min(size, sum(member.compress_size for member in members))
    if stated > most:
        raise DataError(
            f"{path} unpacks to {stated:,} bytes; at most {most:,} are read. Give fewer images, or set "
            f"{files.MOST_INPUT} where there is memory for more."
        )
    if stated > files.FREE_BYTES + files.RATIO * packed:
        raise DataError(f"{path} unpacks to more than {files.RATIO} times its size, as no data do; it is not read.")
    if any(member.flag_bits & 1 for member in members):
        raise DataError(f"{path} is protected by a password; save it without one.")


def _head(stream: Any, member: zipfile.ZipInfo, path: Path) -> tuple[str, tuple[int, ...], bool, np.dtype[Any]]:
    """Name, shape, whether in Fortran's order, and element type of the array in a stream, which is then at its data."""
    name = member.filename.removesuffix(".npy")
    place = f"the array {name[:80]!r} of {path}"
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, kind = read(stream)
    if kind.hasobject or kind.kind == "V" or not kind.itemsize:
        raise DataError(f"{place} holds {str(kind)[:40]}; only numbers and texts are read, and no Python objects.")
    if len(shape) > _MAX_AXES or any(size < 0 for size in shape):
        raise DataError(f"{place} has the shape {str(shape)[:80]}, which no array has.")
    return name, tuple(shape), bool(fortran), kind


def _array(
    stream: Any, member: zipfile.ZipInfo, out: BinaryIO, path: Path
) -> tuple[str, str, tuple[int, ...], bool, int]:
    name, shape, fortran, kind = _head(stream, member, path)
    place = f"the array {name[:80]!r} of {path}"
    size, begin = math.prod(shape) * kind.itemsize, out.tell()
    if size > member.file_size:  # Python integers, because a hostile header can overflow 64 bits
        raise DataError(f"{place} states {size:,} bytes, and the file has {member.file_size:,} of it. Fetch it again.")
    left = size
    while left and (chunk := stream.read(min(_CHUNK, left))):
        out.write(chunk)
        left -= len(chunk)
    if left:
        raise DataError(f"{place} ends {left:,} bytes too early. Fetch it again.")
    return name, kind.str, shape, fortran, begin


def as_pixels(array: NDArray[Any], place: str) -> Pixels:
    """Images as (N, height, width, 1 or 3) uint8.

    Raises:
        DataError: The shape is another one, or the numbers are out of the range of a brightness.
    """
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or array.shape[3] not in (1, 3):
        raise DataError(
            f"{place} has the shape {array.shape}; wanted is (images, height, width) with or without"
            " a last axis of 1 or 3 channels."
        )
    if array.dtype == np.uint8:
        return array
    if array.size and np.issubdtype(array.dtype, np.floating) and array.min() >= 0 and array.max() <= 1:
        fractions: Pixels = np.rint(array * 255).astype(np.uint8)
        return fractions
    if np.issubdtype(array.dtype, np.integer) and array.size and array.min() >= 0 and array.max() <= 255:
        return array.astype(np.uint8)
    raise DataError(f"{place} holds {array.dtype}; wanted are whole numbers from 0 to 255, or fractions from 0 to 1.")


def joined_files(data: NDArray[Any], offsets: NDArray[Any], path: Path) -> Iterator[tuple[str, bytes]]:
    """Files that are concatenated in an array of bytes, with their names for messages.

    Args:
        data: Bytes of all files, (bytes,) uint8.
        offsets: First byte of each file, and the end of the last, (N + 1,).
        path: File of both arrays, for messages.

    Raises:
        DataError: The offsets do not fit the bytes.
    """
    ends = offsets.reshape(-1).astype(np.int64)
    if data.dtype != np.uint8 or (np.diff(ends) < 0).any() or (len(ends) and (ends[0] < 0 or ends[-1] > data.size)):
        raise DataError(f"the arrays 'jpg' (uint8) and 'offset' (ascending) of {path} do not belong together.")
    joined = data.tobytes()
    for row, (begin, end) in enumerate(itertools.pairwise(ends.tolist())):
        yield f"{row} of {path}", joined[begin:end]


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array in Yann LeCun's idx format: two zeros, type, number of axes, big-endian lengths, data.

    Raises:
        DataError: The file has another format, or another length than its header states.
    """
    with files.unpacked(path, corpus.suffixes(path)[1], MAX_BYTES) as stream:
        data = stream.read()
    axes = data[3] if len(data) > 3 else 0
    header = 4 + 4 * axes
    if data[:2] != b"\0\0" or not 1 <= axes <= 3 or len(data) < header or data[2] != _IDX_BYTES:
        raise DataError(f"{path} is not an idx file of bytes.")
    shape = tuple(int.from_bytes(data[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes))
    # Python integers, because a hostile header can overflow 64 bits.
    size = int(np.prod(shape, dtype=object))
    if len(data) - header != size:
        raise DataError(f"{path} states {shape}, {size:,} bytes, and holds {len(data) - header:,}. Fetch it again.")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
