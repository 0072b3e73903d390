"""Pretrained towers of networks: their files on this machine are known by their digests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.operators.pretrained.files import check_digest, weights_digest
from evodevo.tasks.inputs import InputSpec


class WithExtractors(Protocol):
    """A structure with an extractor for each input."""

    @property
    def extractors(self) -> dict[str, ExtractorStructure]: ...
    @property
    def extractor(self) -> ExtractorStructure: ...
    def extractor_of(self, name: str) -> ExtractorStructure:
        """Extractor of the input with this name."""
        ...

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """With some fields replaced."""
        ...


_Structure = TypeVar("_Structure", bound=WithExtractors)


def settled(structure: _Structure) -> _Structure:
    """The structure with towers that are found from any folder, and known by their digest.

    A name in the Hugging Face cache stays what it is.

    Raises:
        StoreDamagedError: a tower has another digest than is stated.
        NotFoundError, UnsafeFileError: see ``weights_file``.
    """
    extractors = {name: _settled(extractor) for name, extractor in structure.extractors.items()}
    return structure.model_copy(update={"extractors": extractors, "extractor": _settled(structure.extractor)})


def frozen_towers(structure: WithExtractors, inputs: Sequence[InputSpec]) -> dict[str, ExtractorStructure]:
    """Input -> the tower that reads it and never learns."""
    chosen = {spec.name: structure.extractor_of(spec.name) for spec in inputs if spec.modality in ("tokens", "image")}
    return {
        name: extractor
        for name, extractor in chosen.items()
        if extractor.kind == "hugging_face" and extractor.train == "none"
    }


def _settled(extractor: ExtractorStructure) -> ExtractorStructure:
    path = extractor.path
    if extractor.kind != "hugging_face" or path is None:
        return extractor
    check_digest(path, extractor.digest)
    folder = Path(path).expanduser()
    where = str(folder.absolute()) if folder.is_dir() else path
    return extractor.model_copy(update={"path": where, "digest": weights_digest(path)})
