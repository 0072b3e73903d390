"""Convolutional paths as a kind of path: see ``paths.kinds``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evodevo import canonical
from evodevo.errors import UsageError
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
from evodevo.multitask.paths.component_kind import ComponentKind
from evodevo.multitask.paths.convolution.spec import (
    HYPERPARAMETERS,
    KIND,
    PRESETS,
    ConvolutionStructure,
    path_work,
    role_parameters,
)
from evodevo.multitask.roots.files import BUILTIN, root_file, structure_in

if TYPE_CHECKING:
    from evodevo.multitask.paths.builder import PathBuilder
    from evodevo.multitask.source.written import WrittenPath
    from evodevo.operators.source.sheet import SourceSheet

_MORE_BLOCKS = 3
_IMAGE_SIZES = (16, 20, 24, 28, 32, 40, 48, 64)
_WIDTHS = (0.5, 1.0, 1.5, 2.0)
_RATE, _MOMENTUM = 0.1, 0.9
"""Defaults that learn in one pass what those of a transformer do not learn in ten; docs/results.md."""

SHIFTS: dict[str, Any] = {"values": [0.0, 0.05, 0.1, 0.15, 0.2], "default": 0.1}
"""Movement of training images, of new agents alone: recorded ones have no such value; docs/results.md."""


class ConvolutionPaths(ComponentKind[ConvolutionStructure]):
    """See ``SinglepathKind``."""

    augments = True
    kind = KIND
    structures = ConvolutionStructure
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

    @property
    def builder(self) -> PathBuilder[ConvolutionStructure]:
        from evodevo.multitask.paths.convolution.builder import BUILDER

        return BUILDER

    def source(self, path: Any, sheet: SourceSheet) -> WrittenPath:
        from evodevo.multitask.source.convolution import convolution_source

        return convolution_source(path.structure, sheet)

    def parameters(self, structure: ConvolutionStructure) -> dict[str, int]:
        return role_parameters(structure)

    def flops(self, structure: ConvolutionStructure) -> float:
        return float(path_work(structure).total)

    def hyperparameters(self, size: str, version: Version) -> Hyperparameters:
        return convolution_hyperparameters(size, version)

    def needs(self, structure: ConvolutionStructure) -> frozenset[str]:
        return frozenset({"image"})

    def checkpoint(self, folder: str) -> ConvolutionStructure:
        file = root_file(folder)
        if file is None:
            raise UsageError(
                f"a convolutional path begins with a root of the package, {BUILTIN}NAME, or with a file of one, "
                f"checkpoint:FILE.safetensors; {folder} was given."
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
