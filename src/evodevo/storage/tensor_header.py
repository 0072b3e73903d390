"""The header of a safetensors file of any origin, checked before any library sees the file."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

from evodevo import canonical
from evodevo.errors import UnsafeFileError, UsageError

MAX_TENSORS = 20_000
MAX_HEADER_BYTES = 4 * 2**20
_BEGIN = 8  # a file begins with the header's size as an unsigned 64-bit integer, then the header as JSON
_MAX_AXES = 16
_BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}


class StoredTensor(NamedTuple):
    """A tensor in a file: name of its type, and its shape."""

    kind: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def read_header(file: BinaryIO, size: int, what: str) -> dict[str, StoredTensor]:
    """Name -> tensor, of a file that is at its beginning.

    Args:
        file: The file.
        size: Number of its bytes.
        what: Its name, for messages.

    Raises:
        UnsafeFileError: It is not safetensors, its header is over 4 MiB or has more than 20,000 tensors, or what the
            header states is not exactly what follows.
    """
    header, length = _read(file, size, what)
    header.pop("__metadata__", None)
    if len(header) > MAX_TENSORS:
        raise UnsafeFileError(f"{what} has {len(header):,} tensors; at most {MAX_TENSORS:,} are read.")
    return _checked(header, size - _BEGIN - length, what)


def read_metadata(file: BinaryIO, size: int, what: str) -> dict[str, str]:
    """The texts by name that a file holds beside its tensors; empty where it holds none. Arguments as ``read_header``.

    Raises:
        UnsafeFileError: It is not safetensors, its header is over 4 MiB, or what it holds there is no table of texts.
    """
    header, _ = _read(file, size, what)
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise UnsafeFileError(f"{what} is not a valid safetensors file: its metadata are no texts.")
    return metadata


def _read(file: BinaryIO, size: int, what: str) -> tuple[dict[str, Any], int]:
    """The header as it is written, unchecked, and its length in bytes."""
    begin = file.read(_BEGIN)
    length = struct.unpack("<Q", begin)[0] if len(begin) == _BEGIN else 0
    if not 2 <= length <= size - _BEGIN:
        raise UnsafeFileError(
            f"{what} is not a safetensors file. Only safetensors is read; convert the file where it was made."
        )
    if length > MAX_HEADER_BYTES:
        raise UnsafeFileError(f"{what} has a header of {length:,} bytes; at most {MAX_HEADER_BYTES:,} are read.")
    try:
        header = canonical.loads(file.read(length), what=what)
    except UsageError as error:
        raise UnsafeFileError(f"{what} is not a safetensors file: {error}") from None
    if not isinstance(header, dict):
        raise UnsafeFileError(f"{what} is not a safetensors file: its header is no object.")
    return header, length


def _checked(header: Mapping[str, Any], room: int, what: str) -> dict[str, StoredTensor]:
    tensors: dict[str, StoredTensor] = {}
    places = []
    for name, entry in header.items():
        values = entry if isinstance(entry, dict) else {}
        kind, shape, offsets = (values.get(key, [-1]) for key in ("dtype", "shape", "data_offsets"))
        if not (_sizes(shape, _MAX_AXES) and _sizes(offsets, 2) and len(offsets) == 2 and isinstance(kind, str)):
            raise UnsafeFileError(
                f"{what} is not a valid safetensors file: the tensor {name[:80]!r} has no place in it."
            )
        tensors[name] = StoredTensor(kind, tuple(shape))
        begin, end = offsets
        bits = _BITS.get(kind)
        if bits is not None and end - begin != tensors[name].elements * bits // 8:
            raise UnsafeFileError(
                f"{what} is not a valid safetensors file: the tensor {name[:80]!r} of the shape {tuple(shape)} has "
                f"{end - begin:,} bytes."
            )
        places.append((begin, end))
    at = 0
    for begin, end in sorted(places):
        if begin != at or end < begin:
            raise UnsafeFileError(f"{what} is not a valid safetensors file: its tensors overlap, or leave gaps.")
        at = end
    if at != room:
        raise UnsafeFileError(f"{what} states {at:,} bytes of tensors and holds {room:,}. Fetch it again.")
    return tensors


def _sizes(value: Any, most: int) -> bool:
    return isinstance(value, list) and len(value) <= most and all(type(item) is int and item >= 0 for item in value)
