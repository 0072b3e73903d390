"""Text paths as a kind of path: see ``paths.kinds``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evodevo.errors import UsageError
from evodevo.multitask.hyperparameters import (
    NUM_LAYERS,
    Hyperparameter,
    Hyperparameters,
    Version,
    family_hyperparameters,
)
from evodevo.multitask.paths.component_kind import ComponentKind
from evodevo.multitask.paths.text.spec import (
    HYPERPARAMETERS,
    KIND,
    LENGTH,
    PRESETS,
    READS,
    TextStructure,
    path_work,
    role_parameters,
)

if TYPE_CHECKING:
    from evodevo.multitask.paths.builder import PathBuilder
    from evodevo.multitask.source.written import WrittenPath
    from evodevo.operators.source.sheet import SourceSheet

_RANGES: Mapping[str, tuple[int, tuple[int, ...]]] = {"tiny": (3, (16, 32, 64, 128)), "small": (6, (64, 128, 256, 512))}
"""Size -> blocks at most, and how many tokens may be read."""


class TextPaths(ComponentKind[TextStructure]):
    """See ``SinglepathKind``."""

    kind = KIND
    structures = TextStructure
    presets = PRESETS
    fields = HYPERPARAMETERS

    @property
    def builder(self) -> PathBuilder[TextStructure]:
        from evodevo.multitask.paths.text.builder import BUILDER

        return BUILDER

    def source(self, path: Any, sheet: SourceSheet) -> WrittenPath:
        from evodevo.multitask.source.text import text_source

        return text_source(path.structure, sheet)

    def parameters(self, structure: TextStructure) -> dict[str, int]:
        return role_parameters(structure)

    def flops(self, structure: TextStructure) -> float:
        return float(path_work(structure).total)

    def hyperparameters(self, size: str, version: Version) -> Hyperparameters:
        return text_hyperparameters(size, version)

    def needs(self, structure: TextStructure) -> frozenset[str]:
        return frozenset({READS})

    def check_root(self, structure: TextStructure, how: str) -> None:
        if structure.tokenizer == "bpe" and how != "pretrain":
            raise UsageError(
                "the tokenizer 'bpe' is trained on the texts of a root's task; use --root pretrain:NAME, or take bytes."
            )


def text_hyperparameters(size: str, version: Version = "paper") -> Hyperparameters:
    """The hyperparameters of an agent of text paths: as for images, with the length instead of the resolution, and
    without those of image augmentation.

    Args:
        size: a row of ``PRESETS``.
        version: version of the lists and defaults; see ``singlepath_hyperparameters``.

    Raises:
        UsageError: no such size.
    """
    if size not in _RANGES:
        raise UsageError(f"there is no size {size!r} of text paths; there are {', '.join(_RANGES)}.")
    most, lengths = _RANGES[size]
    preset = PRESETS[size]
    return (
        family_hyperparameters(version, images=False)
        .with_row(Hyperparameter(key=NUM_LAYERS, values=tuple(range(most + 1)), default=preset.layers))
        .with_row(Hyperparameter(key=LENGTH, values=lengths, default=preset.length))
    )


TEXT = TextPaths()
