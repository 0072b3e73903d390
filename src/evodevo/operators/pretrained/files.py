"""Weights of pretrained models on this machine: which file holds them, and its digest."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from evodevo import files
from evodevo.errors import DataError, NotFoundError, StoreDamagedError, UnsafeFileError
from evodevo.operators.pretrained.spec import CONFIG, model_folder, read_config, root_of
from evodevo.storage.tensor_header import StoredTensor, read_header

WEIGHTS = "model.safetensors"
PICKLES = ("pytorch_model.bin", "tf_model.h5", "flax_model.msgpack")
_SMALL = 2**20


def weights_file(folder: Path) -> Path:
    """The safetensors file of a model.

    Raises:
        UnsafeFileError: there is a pickle only.
        NotFoundError: there is nothing.
    """
    file = folder / WEIGHTS
    if files.regular(file, root_of(folder)):
        return file
    pickles = [name for name in PICKLES if (folder / name).is_file()]
    if pickles:
        raise UnsafeFileError(
            f"{folder} holds {pickles[0]} and no {WEIGHTS}. Such a file can run code when it is read, so it is not; "
            "load the model where you trust it and save it with safe_serialization=True."
        )
    raise NotFoundError(f"no {WEIGHTS} in {folder}; a model in several files must be saved as one first.")


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Name -> type and shape of the weights of a model, from the header of its file.

    Raises:
        DataError: The header is none, or states what is not there.
        NotFoundError, UnsafeFileError: See ``weights_file``.
    """
    file = weights_file(folder)
    with files.opened(file, inside=root_of(folder)) as opened:
        try:
            return read_header(opened, os.fstat(opened.fileno()).st_size, str(file))
        except UnsafeFileError as error:
            raise DataError(f"the weights are not readable: {error}") from None


def check_stated(folder: Path, part: str | None = None) -> None:
    """Check that a configuration states no larger model than its weights are: it would be built before they are read.

    Args:
        folder: Folder of the model.
        part: Key of the part that is read, of a model that has two.

    Raises:
        DataError: It states more than twice as many parameters, or the weights cannot be read.
        NotFoundError, UnsafeFileError: See ``stored_tensors`` and ``read_config``.
    """
    config = read_config(folder)
    sizes = config.get(part) or {} if part is not None else config

    def size(*names: str) -> int:
        found = (sizes[name] for name in names if type(sizes.get(name)) is int)
        return max(0, next(found, 0))

    width, hidden, layers = (
        size("hidden_size", "dim"),
        size("intermediate_size", "hidden_dim"),
        size("num_hidden_layers", "n_layers"),
    )
    grid = size("image_size") // max(1, size("patch_size"))
    rows = size("vocab_size") + size("max_position_embeddings") + grid**2 + size("patch_size") ** 2
    stated = layers * (4 * width**2 + 2 * width * hidden) + rows * width
    stored = sum(tensor.elements for tensor in stored_tensors(folder).values())
    if stated > 2 * stored + _SMALL:
        raise DataError(
            f"{folder / CONFIG} states a model of {stated:,} parameters, and {WEIGHTS} has {stored:,}; the files do "
            "not belong together."
        )


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
    return files.sha256(file)
