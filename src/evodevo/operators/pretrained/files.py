"""Weights of pretrained models on this machine: which file holds them, and its digest."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from evodevo.errors import NotFoundError, StoreDamagedError, UnsafeFileError
from evodevo.operators.pretrained.spec import model_folder

WEIGHTS = "model.safetensors"
PICKLES = ("pytorch_model.bin", "tf_model.h5", "flax_model.msgpack")


def weights_file(folder: Path) -> Path:
    """The safetensors file of a model.

    Raises:
        UnsafeFileError: there is a pickle only.
        NotFoundError: there is nothing.
    """
    file = folder / WEIGHTS
    if file.is_file():
        return file
    pickles = [name for name in PICKLES if (folder / name).is_file()]
    if pickles:
        raise UnsafeFileError(
            f"{folder} holds {pickles[0]} and no {WEIGHTS}. Such a file can run code when it is read, so it is not; "
            "load the model where you trust it and save it with safe_serialization=True."
        )
    raise NotFoundError(f"no {WEIGHTS} in {folder}; a model in several files must be saved as one first.")


def weights_digest(path: str) -> str:
    """SHA-256 of the safetensors file of a model, a folder or a name in the local Hugging Face cache.

    Raises:
        NotFoundError, UnsafeFileError: see ``weights_file``.
    """
    file = weights_file(model_folder(path)).resolve()
    facts = file.stat()
    return _digest(file, facts.st_mtime_ns, facts.st_size)


def check_digest(path: str, digest: str | None) -> None:
    """A model's safetensors file must have this SHA-256; None does not ask.

    Raises:
        StoreDamagedError: it has another.
        NotFoundError, UnsafeFileError: see ``weights_file``.
    """
    actual = weights_digest(path) if digest is not None else None
    if actual != digest:
        raise StoreDamagedError(
            f"{model_folder(path) / WEIGHTS} has SHA-256 {actual}, and the run was made with {digest}: it is another "
            "file. Bring the file of the run back, or clear the digest to take this one."
        )


@lru_cache(maxsize=64)
def _digest(file: Path, changed: int, size: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
