"""Pretrained towers of networks: their files on this machine are known by their digests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.spec import ExtractorStructure, ZooStructure
from evodevo.networks.spec import NetworkSpec
from evodevo.operators.pretrained.files import check_digest, weights_digest

_Structure = TypeVar("_Structure", ZooStructure, BaselineStructure)


def settled(structure: _Structure) -> _Structure:
    """The structure with towers that are found from any folder, and known by their digest.

    A name in the Hugging Face cache stays what it is.

    Raises:
        StoreDamagedError: a tower has another digest than is stated.
        NotFoundError, UnsafeFileError: see ``weights_file``.
    """
    extractors = {name: _settled(one) for name, one in structure.extractors.items()}
    return structure.model_copy(update={"extractors": extractors, "extractor": _settled(structure.extractor)})


def settled_network(network: NetworkSpec) -> NetworkSpec:
    """Likewise; networks without extractors stay as they are."""
    structure = network.structure
    if isinstance(structure, ZooStructure):
        return network.model_copy(update={"structure": settled(structure)})
    if isinstance(structure, BaselineStructure):
        return network.model_copy(update={"structure": settled(structure)})
    return network


def frozen_towers(network: NetworkSpec, inputs: Sequence[Any]) -> dict[str, ExtractorStructure]:
    """Input -> the tower that reads it and never learns.

    Args:
        network: of any kind; those without extractors have none.
        inputs: of the task, ``InputSpec``.
    """
    structure = network.structure
    if not isinstance(structure, ZooStructure | BaselineStructure):
        return {}
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
