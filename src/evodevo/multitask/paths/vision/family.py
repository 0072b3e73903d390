"""Vision paths as a family: see ``spaces.path_families``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import Hyperparameters, Version, singlepath_hyperparameters
from evodevo.multitask.paths.families import PathFamily
from evodevo.multitask.paths.vision.checkpoint import checkpoint_structure
from evodevo.multitask.paths.vision.cost import path_flops, role_parameters
from evodevo.multitask.paths.vision.spec import HYPERPARAMETERS, PRESETS, VisionStructure, structure_of
from evodevo.settings import validate


class VisionPaths(PathFamily):
    """See ``PathFamily``."""

    augments = True
    kind = "vision_path"
    presets = PRESETS
    fields = HYPERPARAMETERS

    def structure_of(self, path: Path) -> VisionStructure:
        return structure_of(path)

    def structure(self, values: Mapping[str, Any], what: str) -> VisionStructure:
        return validate(VisionStructure, dict(values), what=what)

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
