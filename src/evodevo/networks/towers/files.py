"""Files of pretrained models on this machine: which weights there are, and whether they are still the same ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from evodevo.errors import NotFoundError, StoreDamagedError, UnsafeFileError
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.operators.pretrained.spec import model_folder
from evodevo.tasks.base import InputSpec

WEIGHTS = "model.safetensors"
PICKLES = ("pytorch_model.bin", "tf_model.h5", "flax_model.msgpack")


class WithExtractors(Protocol):
    """A structure that says how each input is read."""

    @property
    def extractors(self) -> dict[str, ExtractorStructure]: ...
    @property
    def extractor(self) -> ExtractorStructure: ...
    def extractor_of(self, name: str) -> ExtractorStructure:
        """How an input is read."""
        ...

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """With some fields replaced."""
        ...


_Structure = TypeVar("_Structure", bound=WithExtractors)


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
    found = weights_digest(path) if digest is not None else None
    if found != digest:
        raise StoreDamagedError(
            f"{model_folder(path) / WEIGHTS} has SHA-256 {found}, and the run was made with {digest}: it is another "
            "file. Bring the file of the run back, or clear the digest to take this one."
        )


def settled(structure: _Structure) -> _Structure:
    """The structure with towers that are found from any folder, and known by their digest.

    A name in the Hugging Face cache stays what it is.

    Raises:
        StoreDamagedError: a tower has another digest than is stated.
        NotFoundError, UnsafeFileError: see ``weights_file``.
    """
    extractors = {name: _settled(one) for name, one in structure.extractors.items()}
    return structure.model_copy(update={"extractors": extractors, "extractor": _settled(structure.extractor)})


def frozen_towers(structure: WithExtractors, inputs: Sequence[InputSpec]) -> dict[str, ExtractorStructure]:
    """Input -> the tower that reads it and never learns."""
    chosen = {spec.name: structure.extractor_of(spec.name) for spec in inputs if spec.modality in ("tokens", "image")}
    return {name: one for name, one in chosen.items() if one.kind == "hugging_face" and one.train == "none"}


def _settled(extractor: ExtractorStructure) -> ExtractorStructure:
    path = extractor.path
    if extractor.kind != "hugging_face" or path is None:
        return extractor
    check_digest(path, extractor.digest)
    folder = Path(path).expanduser()
    where = str(folder.absolute()) if folder.is_dir() else path
    return extractor.model_copy(update={"path": where, "digest": weights_digest(path)})


@lru_cache(maxsize=64)
def _digest(file: Path, changed: int, size: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
