"""Convolutional paths as a kind of path: see ``paths.kinds``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import (
    BLOCK_WIDTH,
    IMAGE_SIZE,
    NUM_LAYERS,
    SHIFT,
    Hyperparameter,
    Hyperparameters,
    Version,
    family_hyperparameters,
)
from evodevo.multitask.paths.blocks_spec import BLOCK
from evodevo.multitask.paths.convolution.spec import (
    HYPERPARAMETERS,
    KIND,
    PRESETS,
    ConvolutionStructure,
    path_work,
    role_parameters,
    structure_of,
)
from evodevo.multitask.paths.kinds import SinglepathKind
from evodevo.multitask.roots.files import BUILTIN, builtin_root, structure_in
from evodevo.settings import validate

if TYPE_CHECKING:
    from torch import nn

    from evodevo.multitask.evaluate_settings import PathRequest
    from evodevo.multitask.paths.built import BuiltPath, FrozenPart
    from evodevo.storage.blobs import BlobPool
    from evodevo.tasks.base import SampleTask
    from evodevo.training.precision import Precision

_MORE_BLOCKS = 3
_IMAGE_SIZES = (16, 20, 24, 28, 32, 40, 48, 64)
_WIDTHS = (0.5, 1.0, 1.5, 2.0)
_RATE, _MOMENTUM = 0.1, 0.9
"""Defaults that learn in one pass what those of a transformer do not learn in ten; docs/results.md."""

SHIFTS: dict[str, Any] = {"values": [0.0, 0.05, 0.1, 0.15, 0.2], "default": 0.1}
"""Movement of training images, of new agents alone: recorded ones have no such value; docs/results.md."""


class ConvolutionPaths(SinglepathKind):
    """See ``SinglepathKind``."""

    augments = True
    kind = KIND
    presets = PRESETS
    fields = HYPERPARAMETERS
    # Passes over a small set are few steps; a child of any task sees 4 x 8,000 samples at least.
    training: Mapping[str, Any] = {"batch": 64, "least_between": 8000}
    children = 8
    # With the papers' 0.98 a path that is 2 points worse is published for what it shares.
    scale = 0.995
    fine_tuned = 1
    unshifted = 1
    from_scratch = 1
    new_roots: Mapping[str, Mapping[str, Any]] = {preset: {"hyperparameters": {SHIFT: SHIFTS}} for preset in PRESETS}
    roots: Mapping[str, str] = {"small": "builtin:characters", "tiny": "builtin:characters_tiny"}
    shares_untrained = False

    def build(self, request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
        from evodevo.multitask.paths.convolution.model import build_convolution_path

        return build_convolution_path(request, pool, precision)

    def freeze(self, path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
        from evodevo.multitask.paths.convolution.model import freeze_convolution_path

        return freeze_convolution_path(path, digests, pool, head)

    def make_root(self, request: PathRequest, pool: BlobPool) -> Mapping[str, nn.Module]:
        from evodevo.multitask.paths.convolution.model import make_convolution_root

        return make_convolution_root(request, pool)

    def structure_of(self, path: Path) -> ConvolutionStructure:
        return structure_of(path)

    def structure(self, values: Mapping[str, Any], what: str) -> ConvolutionStructure:
        return validate(ConvolutionStructure, dict(values), what=what)

    def parameters(self, structure: ConvolutionStructure) -> dict[str, int]:
        return role_parameters(structure)

    def flops(self, structure: ConvolutionStructure) -> float:
        return float(path_work(structure).total)

    def hyperparameters(self, size: str, version: Version) -> Hyperparameters:
        return convolution_hyperparameters(size, version)

    def needs(self, structure: ConvolutionStructure) -> frozenset[str]:
        return frozenset({"image"})

    def checkpoint(self, folder: str) -> ConvolutionStructure:
        file = builtin_root(folder)
        if file is None:
            raise UsageError(
                f"a convolutional path begins with a root of the package, {BUILTIN}NAME; {folder} was given."
            )
        return self.structure(structure_in(file), folder)

    def adapted_structure(self, structure: ConvolutionStructure, width: float) -> ConvolutionStructure:
        return structure if structure.adapters else structure.changed(adapters=width)

    def resizable(self, structure: ConvolutionStructure, role: str) -> str:
        """Blocks that differ in the channels inside of them alone are made of each other."""
        if not role.startswith(BLOCK):
            return ""
        signature = structure.signature(role)
        return canonical.dumps({**signature, "block": {**signature["block"], "hidden": None}})


def convolution_hyperparameters(size: str, version: Version = "paper") -> Hyperparameters:
    """The hyperparameters of an agent of convolutional paths: those of vision paths with another learning rate and
    momentum, and the width inside of blocks.

    Args:
        size: a row of ``PRESETS``.
        version: version of the lists; see ``singlepath_hyperparameters``.

    Raises:
        UsageError: no such size.
    """
    if size not in PRESETS:
        raise UsageError(f"there is no size {size!r} of convolutional paths; there are {', '.join(PRESETS)}.")
    preset = PRESETS[size]
    depths = tuple(range(preset.stages, preset.stages + _MORE_BLOCKS + 1))
    return (
        family_hyperparameters(version, {"opt_lr": _RATE, "opt_momentum": _MOMENTUM})
        .with_row(Hyperparameter(key=NUM_LAYERS, values=depths, default=preset.layers))
        .with_row(Hyperparameter(key=IMAGE_SIZE, values=_IMAGE_SIZES, default=preset.image_size))
        .with_row(Hyperparameter(key=BLOCK_WIDTH, values=_WIDTHS, default=preset.inner))
    )


CONVOLUTION = ConvolutionPaths()
