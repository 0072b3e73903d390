"""Headers of safetensors files: what the library reads is read alike, what it must never see is refused."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from evodevo.errors import UnsafeFileError
from evodevo.storage.tensor_header import MAX_HEADER_BYTES, MAX_TENSORS, StoredTensor, read_header, read_metadata

SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


def header_of(data: bytes) -> dict[str, StoredTensor]:
    return read_header(io.BytesIO(data), len(data), "a.safetensors")


def written(header: Any, room: int) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(room)


def entry(begin: int, end: int, shape: Any = (1,), dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


@given(st.dictionaries(st.text("abc.", min_size=1, max_size=4), SHAPES, min_size=1, max_size=4))
def test_what_the_library_writes_is_read_as_the_library_does(shapes: dict[str, tuple[int, ...]]) -> None:
    data = save({name: np.zeros(shape, np.float32) for name, shape in shapes.items()}, {"format": "np"})
    assert {name: one.shape for name, one in header_of(data).items()} == shapes
    assert {name: one.shape for name, one in load(data).items()} == shapes


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a safetensors file"),
        (b"\xff" * 64, "not a safetensors file"),
        (struct.pack("<Q", 10**9) + bytes(100), "not a safetensors file"),
        (written(b" " * (MAX_HEADER_BYTES + 1), 0), "at most 4,194,304 are read"),
        (written(b"[1]", 0), "no object"),
        (written(b'{"a": 1, "a": 2}', 0), "not a safetensors file"),
        (written({f"t{n}": entry(0, 0, (0,)) for n in range(MAX_TENSORS + 1)}, 0), "at most 20,000"),
        (written({"a": {"dtype": "F32"}}, 0), "has no place"),
        (written({"a": entry(0, 4, (True,))}, 4), "has no place"),
        (written({"a": entry(0, 4, (-1,))}, 4), "has no place"),
        (written({"a": entry(0, 8)}, 8), "has 8 bytes"),
        (written({"a": entry(0, 4), "b": entry(2, 6)}, 6), "overlap"),
        (written({"a": entry(4, 8)}, 8), "gaps"),
        (written({"a": entry(0, 4)}, 8), "states 4 bytes"),
        (written({"a": entry(0, 4 * 10**13, (10**13,))}, 8), "states 40,000,000,000,000 bytes"),
    ],
)  # fmt: skip
def test_what_is_not_exactly_there_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(UnsafeFileError, match=words):
        header_of(data)


def metadata_of(data: bytes) -> dict[str, str]:
    return read_metadata(io.BytesIO(data), len(data), "a.safetensors")


@given(st.dictionaries(st.text(min_size=1, max_size=4), st.text(max_size=6), max_size=3))
def test_texts_beside_the_tensors_come_back(texts: dict[str, str]) -> None:
    assert metadata_of(save({"a": np.zeros(2, np.float32)}, texts)) == texts


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a safetensors file"),
        (written(b"[1]", 0), "no object"),
        (written({"__metadata__": [1]}, 0), "no texts"),
        (written({"__metadata__": {"a": 1}}, 0), "no texts"),
    ],
)
def test_metadata_that_are_no_texts_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(UnsafeFileError, match=words):
        metadata_of(data)
