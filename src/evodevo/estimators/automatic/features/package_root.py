"""The root of the package as a frozen tower of images: representations that plain models read as numbers.

Its weights, 0.8 MB, are part of every model that reads through it, so that a later release with another root predicts
the same.

Legend: n samples.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from evodevo import files
from evodevo.errors import UsageError
from evodevo.estimators.automatic.features.memory import FeatureMemory, Progress, of_images, with_numbers
from evodevo.multitask.roots.files import BUILTIN, builtin_root, structure_in
from evodevo.settings import Settings
from evodevo.tasks.rows.samples import Samples

USUAL = f"{BUILTIN}characters"
"""The root that takes part where nobody names a tower and samples have images."""
WEIGHTS = "root."
"""Before the names of its weights among the arrays of a model."""
MOST_LOADED = 2

_memories: OrderedDict[str, FeatureMemory] = OrderedDict()
"""Digest of a root -> its memory."""


class RootFacts(Settings):
    """A root, as a model keeps it beside the weights.

    Attributes:
        root: Its name, ``builtin:NAME``.
        digest: SHA-256 of the file that it was read from.
        structure: Its structure, a ``ConvolutionStructure``.
    """

    root: str
    digest: str
    structure: dict[str, Any]


@dataclass(frozen=True, eq=False)
class RootReading:
    """A root that reads images.

    Attributes:
        facts: Its name and structure.
        weights: ``role.name`` -> array.
    """

    facts: RootFacts
    weights: Mapping[str, NDArray[np.float32]]
    reads: ClassVar[tuple[Literal["tokens", "image"], ...]] = ("image",)

    @classmethod
    def of(cls, word: str, samples: Samples) -> Self:
        """The root of a name, for samples with images.

        Raises:
            UsageError: There is no such root, or there are no images.
        """
        file = builtin_root(word)
        assert file is not None, "the word begins as those of roots do"
        if not samples.images:
            raise UsageError(f"the tower {word} reads images, and the data have no column of them.")
        return cls(RootFacts(root=word, digest=files.sha256(file), structure=structure_in(file)), _weights(file))

    @property
    def name(self) -> str:
        """Its name."""
        return self.facts.root

    @property
    def identity(self) -> dict[str, str]:
        """What decides about its features."""
        return {"weights": self.facts.digest}

    def read(self, samples: Samples, progress: Progress | None = None) -> Samples:
        """The samples with its representations of their images among their numbers, in the place of the images.

        Args:
            samples: Samples (n, F).
            progress: Called with the progress; what it raises ends the reading.
        """
        return with_numbers(
            samples, of_images(samples, lambda _: self._memory(), progress), {"images": (), "present": ()}
        )

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Its facts, and its weights by the names that they have in a model."""
        arrays = {f"{WEIGHTS}{name}": array for name, array in self.weights.items()}
        return self.facts.model_dump(mode="json"), arrays

    def _memory(self) -> FeatureMemory:
        from evodevo.multitask.paths.convolution.spec import ConvolutionStructure
        from evodevo.multitask.roots.representations import RootRepresentations  # it loads torch
        from evodevo.settings import validate

        key = self.facts.digest
        if key not in _memories:
            structure = validate(ConvolutionStructure, self.facts.structure, what=f"the structure of {self.name}")
            _memories[key] = FeatureMemory(RootRepresentations(structure, self.weights))
            while len(_memories) > MOST_LOADED:
                _memories.popitem(last=False)
        return _memories[key]


def _weights(file: Path) -> dict[str, NDArray[np.float32]]:
    with safe_open(file, framework="numpy") as opened:
        return {name: opened.get_tensor(name) for name in sorted(opened.keys())}
