"""Parts of models as blobs: one format and one writer, whatever a part belongs to.

A part is the state of one module: its tensors by their names in it, as a safetensors file named by its SHA-256. Parts
of a checkpoint, components of a multitask system, modules that a growth keeps and the weights of a saved classifier are
such files, so that equal parts are stored once and a part of one is read as a part of another. A checkpoint packs its
small parts in one blob (``packed_name``). Nothing is pickled, and no name in a file selects code.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from typing import Protocol

import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from evodevo.errors import UnsafeFileError, UsageError
from evodevo.storage.tensor_header import MAX_TENSORS, read_header


class BlobStore(Protocol):
    """Storage of blobs: a store of evodevo, or anything with these two methods."""

    def put_bytes(self, data: bytes) -> str:
        """Store the bytes and return their SHA-256 as 64 hexadecimal digits."""
        ...

    def get(self, digest: str) -> bytes:
        """The bytes with that SHA-256."""
        ...


def part_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """The file of a part; equal tensors under equal names give equal bytes, whatever their order or device.

    Raises:
        UsageError: A tensor is not finite, or there are more than 20,000.
    """
    if len(tensors) > MAX_TENSORS:
        raise UsageError(
            f"a blob of {len(tensors):,} tensors cannot be read again; at most {MAX_TENSORS:,} fit in one."
        )
    for name, tensor in tensors.items():
        if not is_finite(tensor):
            raise UsageError(f"the tensor {name!r} holds NaN or infinity; such a model is not kept.")
    # Copies, because safetensors refuses tensors that share memory.
    own = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    return save_safetensors(own)


def part_digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the file of a part, which is the name of its blob, as 64 hexadecimal digits."""
    return hashlib.sha256(part_bytes(tensors)).hexdigest()


def save_part(store: BlobStore, tensors: Mapping[str, Tensor]) -> str:
    """Store a part; returns its digest. Errors as ``part_bytes``."""
    return store.put_bytes(part_bytes(tensors))


def load_part(store: BlobStore, digest: str, what: str) -> dict[str, Tensor]:
    """The tensors of a stored part, on the CPU.

    Args:
        store: Storage of the blobs.
        digest: Digest of the part, or of a blob in which a checkpoint packs several.
        what: Name of the part in messages.

    Raises:
        UnsafeFileError: The blob is no such file.
    """
    return read_tensors(store.get(digest), what)


def packed_name(part: str, name: str) -> str:
    """The name of a part's tensor in a blob that packs several parts."""
    return f"{part}/{name}"


def read_tensors(data: bytes, what: str) -> dict[str, Tensor]:
    """The tensors of a safetensors blob of any origin, after a check of its header.

    Raises:
        UnsafeFileError: The bytes are not safetensors, the header is over 4 MiB, or has more than 20,000 tensors.
    """
    read_header(io.BytesIO(data), len(data), what)
    try:
        tensors: dict[str, Tensor] = load_safetensors(data)
    except Exception as error:  # a Rust error without a stable Python type; KeyError for a dtype torch lacks
        raise UnsafeFileError(f"{what} is not a valid safetensors file: {str(error)[:200]}") from None
    return tensors


def is_finite(tensor: Tensor) -> bool:
    """Whether a tensor has no NaN and no infinity; integers have none."""
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
