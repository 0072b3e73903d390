"""The root of the package as a frozen tower of images: representations that plain models read as numbers.

Its weights, 0.8 MB, are part of every model that reads through it, so that a later release with another root predicts
the same.

Legend: n samples.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from evodevo import canonical, files
from evodevo.errors import UsageError
from evodevo.estimators.automatic.features.memory import FeatureMemory, Progress, Shape, of_images, with_numbers
from evodevo.multitask.paths.convolution.spec import ConvolutionStructure, role_parameters
from evodevo.multitask.roots.files import BUILTIN, builtin_root, structure_in
from evodevo.settings import Settings, validate
from evodevo.tasks.rows.samples import Samples

USUAL = f"{BUILTIN}characters"
"""The root that takes part where nobody names a tower and samples have images."""
WEIGHTS = "root."
"""Before the names of its weights among the arrays of a model."""
MOST_LOADED = 8
"""Roots in memory at once; images of each shape have one of their own."""
MOST_PIXELS = 128
"""Largest height and width at which a root reads."""

_memories: OrderedDict[tuple[str, Shape], FeatureMemory] = OrderedDict()
"""(digest of structure and weights, shape of the images) -> memory."""


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
    def structure(self) -> ConvolutionStructure:
        """Its structure, without a head."""
        return validate(ConvolutionStructure, self.facts.structure, what=f"the structure of {self.name[:80]!r}")

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
        return with_numbers(samples, of_images(samples, self._memory, progress), {"images": (), "present": ()})

    @classmethod
    def from_state(cls, facts: RootFacts, weights: Mapping[str, NDArray[Any]]) -> Self:
        """A root that a model kept; its files may be a stranger's.

        Raises:
            UsageError: The weights are those of another structure, or it has a head, or reads larger images than any
                root.
        """
        found = cls(facts, weights)
        structure = found.structure
        if structure.image_size > MOST_PIXELS or structure.classes:
            raise UsageError(f"a root has no head, and reads images of {MOST_PIXELS} pixels at most.")
        # Before anything as large as the structure claims is made.
        count = sum(role_parameters(structure).values())
        if any(array.dtype != np.float32 for array in weights.values()) or count != sum(
            array.size for array in weights.values()
        ):
            raise UsageError(f"the weights of {facts.root[:80]!r} are not those of its structure.")
        return found

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Its facts, and its weights by the names that they have in a model."""
        arrays = {f"{WEIGHTS}{name}": array for name, array in self.weights.items()}
        return self.facts.model_dump(mode="json"), arrays

    def _memory(self, shape: Shape) -> FeatureMemory:
        from evodevo.multitask.roots.representations import RootRepresentations  # it loads torch

        key = self._digest(), shape
        if key not in _memories:
            _memories[key] = FeatureMemory(RootRepresentations(self.structure, self.weights))
            while len(_memories) > MOST_LOADED:
                _memories.popitem(last=False)
        return _memories[key]

    def _digest(self) -> str:
        """Of what is here: the digest of the facts is what a file claims."""
        digest = hashlib.sha256(canonical.dumps(self.facts.structure).encode())
        for name, array in sorted(self.weights.items()):
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def _weights(file: Path) -> dict[str, NDArray[np.float32]]:
    with safe_open(file, framework="numpy") as opened:
        return {name: opened.get_tensor(name) for name in sorted(opened.keys())}
