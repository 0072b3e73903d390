"""Reading of images and labels from npz and idx files, with limits against files from untrusted sources."""

from __future__ import annotations

import gzip
import itertools
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError
from evodevo.tasks.images.pixels import MAX_BYTES, Pixels

PATH_ADVICE = " Check the path and its permissions."
_IDX_BYTES = 0x08  # unsigned bytes, the only element type of MNIST and data sets like it


def read_bytes(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        DataError: The file cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.{PATH_ADVICE}") from None


def open_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an npz.

    Raises:
        DataError: The file is not an npz, unpacks to too many bytes, or has an array of Python objects, which could
            contain code.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > MAX_BYTES:
                raise DataError(f"{path} unpacks to more than {MAX_BYTES:,} bytes. Give fewer images.")
        with np.load(path, allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}
    except DataError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is not a readable .npz of plain arrays: {error}") from None


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
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as stream:
                data = stream.read(MAX_BYTES + 1)
        else:
            data = read_bytes(path)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked: {error}. Fetch it again.") from None
    axes = data[3] if len(data) > 3 else 0
    header = 4 + 4 * axes
    if data[:2] != b"\0\0" or not 1 <= axes <= 3 or len(data) < header or data[2] != _IDX_BYTES:
        raise DataError(f"{path} is not an idx file of bytes.")
    shape = tuple(int.from_bytes(data[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes))
    size = int(np.prod(shape, dtype=object))
    if len(data) - header != size:
        raise DataError(f"{path} states {shape}, {size:,} bytes, and holds {len(data) - header:,}. Fetch it again.")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
