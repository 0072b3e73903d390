"""Bags of hashed n-grams as a kind of path: see ``paths.kinds``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.hyperparameters import (
    BLOCK_WIDTH,
    NUM_LAYERS,
    Hyperparameter,
    Hyperparameters,
    Version,
    family_hyperparameters,
)
from evodevo.multitask.paths.blocks_spec import BLOCK
from evodevo.multitask.paths.component_kind import ComponentKind
from evodevo.multitask.paths.ngrams.spec import (
    HYPERPARAMETERS,
    KIND,
    PRESETS,
    NgramStructure,
    role_parameters,
    work_of,
)
from evodevo.multitask.paths.text.spec import LENGTH, READS

if TYPE_CHECKING:
    from evodevo.multitask.paths.builder import PathBuilder
    from evodevo.multitask.source.written import WrittenPath
    from evodevo.operators.source.sheet import SourceSheet

_MOST_BLOCKS = 3
_WIDTHS = (0.5, 1.0, 2.0, 4.0)
_LENGTHS = (64, 128, 256, 512, 1024)
_RATE, _MOMENTUM = 0.5, 0.9


class NgramPaths(ComponentKind[NgramStructure]):
    """See ``SinglepathKind``."""

    kind = KIND
    structures = NgramStructure
    presets = PRESETS
    fields = HYPERPARAMETERS
    training: Mapping[str, Any] = {"batch": 64, "least_between": 8000}
    children = 8
    scale = 0.995
    fine_tuned = 1
    from_scratch = 1
    shares_untrained = False

    @property
    def builder(self) -> PathBuilder[NgramStructure]:
        from evodevo.multitask.paths.ngrams.builder import BUILDER

        return BUILDER

    def source(self, path: Any, sheet: SourceSheet) -> WrittenPath:
        from evodevo.multitask.source.ngrams import ngram_source

        return ngram_source(path.structure, sheet)

    def parameters(self, structure: NgramStructure) -> dict[str, int]:
        return role_parameters(structure)

    def flops(self, structure: NgramStructure) -> float:
        return float(work_of(structure).total)

    def hyperparameters(self, size: str, version: Version) -> Hyperparameters:
        return ngram_hyperparameters(size, version)

    def needs(self, structure: NgramStructure) -> frozenset[str]:
        return frozenset({READS})

    def resizable(self, structure: NgramStructure, role: str) -> str:
        """Blocks that differ in the width inside of them alone are made of each other."""
        return canonical.dumps({**structure.signature(role), "hidden": None}) if role.startswith(BLOCK) else ""


def ngram_hyperparameters(size: str, version: Version = "paper") -> Hyperparameters:
    """The hyperparameters of an agent of such paths: those of vision paths with another learning rate and momentum, the
    bytes that are read and the width inside of blocks; without those that prepare images.

    Args:
        size: a row of ``PRESETS``.
        version: version of the lists; see ``singlepath_hyperparameters``.

    Raises:
        UsageError: no such size.
    """
    if size not in PRESETS:
        raise UsageError(f"there is no size {size!r} of paths over n-grams; there are {', '.join(PRESETS)}.")
    preset = PRESETS[size]
    return (
        family_hyperparameters(version, {"opt_lr": _RATE, "opt_momentum": _MOMENTUM}, images=False)
        .with_row(Hyperparameter(key=NUM_LAYERS, values=tuple(range(_MOST_BLOCKS + 1)), default=preset.layers))
        .with_row(Hyperparameter(key=BLOCK_WIDTH, values=_WIDTHS, default=preset.inner))
        .with_row(Hyperparameter(key=LENGTH, values=_LENGTHS, default=preset.length))
    )


NGRAMS = NgramPaths()
