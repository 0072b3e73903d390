"""Vision paths as a kind of path: see ``paths.kinds``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import Hyperparameters, Version, singlepath_hyperparameters
from evodevo.multitask.paths.kinds import SinglepathKind
from evodevo.multitask.paths.vision.checkpoint import checkpoint_structure
from evodevo.multitask.paths.vision.spec import (
    HYPERPARAMETERS,
    PRESETS,
    VisionStructure,
    path_flops,
    role_parameters,
    structure_of,
)
from evodevo.settings import validate

if TYPE_CHECKING:
    from torch import nn

    from evodevo.multitask.evaluate_settings import PathRequest
    from evodevo.multitask.paths.built import BuiltPath, FrozenPart
    from evodevo.storage.blobs import BlobPool
    from evodevo.tasks.base import SampleTask
    from evodevo.training.precision import Precision


_RATE = "opt_lr"
_RATES: Mapping[str, float] = {"tiny": 0.2, "Ti3": 0.1}
"""Preset -> learning rate with which it learns from random weights what it does not at the papers' 0.02, a rate for
pretrained ones (docs/results.md#extend-on-small-images-2026-11-25)."""


def _at_rate(preset: str, rate: float) -> Mapping[str, Any]:
    values = list(singlepath_hyperparameters(preset).by_key[_RATE].values)
    return {"hyperparameters": {_RATE: {"values": values, "default": rate}}}


class VisionPaths(SinglepathKind):
    """See ``SinglepathKind``."""

    augments = True
    kind = "vision_path"
    presets = PRESETS
    fields = HYPERPARAMETERS
    new_roots: Mapping[str, Mapping[str, Any]] = {preset: _at_rate(preset, rate) for preset, rate in _RATES.items()}

    def build(self, request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
        from evodevo.multitask.paths.vision.evaluate import build_vision_path

        return build_vision_path(request, pool, task, precision)

    def freeze(self, path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
        from evodevo.multitask.paths.vision.evaluate import freeze_vision_path

        return freeze_vision_path(path, digests, pool, head)

    def make_root(self, request: PathRequest, pool: BlobPool) -> Mapping[str, nn.Module]:
        from evodevo.multitask.paths.vision.evaluate import make_vision_root

        return make_vision_root(request, pool)

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
