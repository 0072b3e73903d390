"""Vision paths as a kind of path: see ``paths.kinds``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evodevo.multitask.hyperparameters import Hyperparameters, Version, singlepath_hyperparameters
from evodevo.multitask.paths.component_kind import ComponentKind
from evodevo.multitask.paths.vision.checkpoint import checkpoint_structure
from evodevo.multitask.paths.vision.spec import (
    HYPERPARAMETERS,
    KIND,
    PRESETS,
    VisionStructure,
    path_flops,
    role_parameters,
)

if TYPE_CHECKING:
    from evodevo.multitask.paths.builder import PathBuilder
    from evodevo.multitask.source.written import WrittenPath
    from evodevo.operators.source.sheet import SourceSheet


_RATE = "opt_lr"
_RATES: Mapping[str, float] = {"tiny": 0.2, "Ti3": 0.1}
"""Preset -> learning rate with which it learns from random weights what it does not at the papers' 0.02, a rate for
pretrained ones (docs/results.md#extend-on-small-images-2026-11-25)."""


def _at_rate(preset: str, rate: float) -> Mapping[str, Any]:
    values = list(singlepath_hyperparameters(preset).by_key[_RATE].values)
    return {"hyperparameters": {_RATE: {"values": values, "default": rate}}}


class VisionPaths(ComponentKind[VisionStructure]):
    """See ``SinglepathKind``."""

    augments = True
    kind = KIND
    structures = VisionStructure
    presets = PRESETS
    fields = HYPERPARAMETERS
    new_roots: Mapping[str, Mapping[str, Any]] = {preset: _at_rate(preset, rate) for preset, rate in _RATES.items()}

    @property
    def builder(self) -> PathBuilder[VisionStructure]:
        from evodevo.multitask.paths.vision.builder import BUILDER

        return BUILDER

    def source(self, path: Any, sheet: SourceSheet) -> WrittenPath:
        from evodevo.multitask.source.vision import vision_source

        return vision_source(path.structure, sheet)

    def parameters(self, structure: VisionStructure) -> dict[str, int]:
        return role_parameters(structure)

    def flops(self, structure: VisionStructure) -> float:
        return float(path_flops(structure))

    def hyperparameters(self, size: str, version: Version) -> Hyperparameters:
        return singlepath_hyperparameters(size, version)

    def needs(self, structure: VisionStructure) -> frozenset[str]:
        return frozenset({"image"})

    def checkpoint(self, folder: str) -> VisionStructure:
        return checkpoint_structure(folder)


VISION = VisionPaths()
