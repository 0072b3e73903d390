"""A bag of hashed n-grams as a row of components: the structure of the path, as plain data, and its cost.

Every sequence of 3 to 6 bytes of a text has a vector, and a text the sum of its vectors over the root of their number
(after fastText: Joulin et al. 2016, 1607.01759, which takes the mean, with the n-grams of characters and the hashing of
Bojanowski et al. 2016, 1607.04606). Residual blocks of two linear maps may follow. No order beyond an n-gram is read.
Bytes are hashed, so that a path reads the texts of any task, in any language.
``multitask/paths/ngrams/model.py`` builds exactly the parameters that are stated here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.multitask.hyperparameters import BLOCK_WIDTH, NUM_LAYERS
from evodevo.multitask.paths.blocks_spec import BLOCK, EMBEDDING, HEAD, NORM, ComponentStructure
from evodevo.multitask.paths.mlp.spec import MLPStructure, path_work
from evodevo.multitask.paths.mlp.spec import role_parameters as mlp_parameters
from evodevo.multitask.paths.text.spec import LENGTH
from evodevo.operators.cost import Work

KIND = "ngram_path"
HYPERPARAMETERS: Mapping[str, str] = {NUM_LAYERS: "layers", BLOCK_WIDTH: "inner", LENGTH: "length"}
"""Hyperparameter of a path -> the field of its structure that it decides."""


class NgramStructure(ComponentStructure):
    """A path of kind ``ngram_path``.

    Attributes:
        width: numbers of a vector, and of a representation.
        buckets: vectors; n-grams of one hash share one.
        shortest, longest: bytes of an n-gram. The text has a space before and behind it, so that beginnings and ends
            of words are n-grams, too.
        length: largest number of bytes of a text that are read.
        layers: blocks behind their sum.
        inner: numbers inside of a block, as a multiple of ``width``.
        classes: classes of the head; 0 is headless, and the answer is the representation.
        norm_epsilon: epsilon of every norm.
    """

    width: int = Field(ge=1, le=65_536)
    buckets: int = Field(ge=1, le=1 << 24)
    shortest: int = Field(default=3, ge=1, le=64)
    longest: int = Field(default=6, ge=1, le=64)
    length: int = Field(default=256, ge=1, le=65_536)
    layers: int = Field(default=0, ge=0, le=1024)
    inner: float = Field(default=1.0, gt=0, le=16)
    classes: int = Field(default=0, ge=0, le=1 << 24)
    norm_epsilon: float = Field(default=1e-5, gt=0, le=1e-2)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"n-grams of {self.shortest} to {self.longest} bytes are none")
        return self

    @property
    def behind(self) -> MLPStructure:
        """What is behind the sum, as a perceptron without an embedding."""
        return MLPStructure(
            width=self.width,
            layers=self.layers,
            inner=self.inner,
            classes=self.classes,
            norm_epsilon=self.norm_epsilon,
        )

    @property
    def ngrams(self) -> int:
        """Number of n-grams of a text that fills the length, with the spaces around it."""
        return sum(max(0, self.length + 3 - size) for size in range(self.shortest, self.longest + 1))

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the components, in the order in which a sample passes them."""
        inside = [f"{BLOCK}{number}" for number in range(self.layers)]
        return (EMBEDDING, *inside, NORM, *([HEAD] if self.classes else []))

    @property
    def input_spec(self) -> dict[str, Any]:
        """Preparation of a task's samples; part of a path's identity."""
        return {"modality": "tokens", "bytes": "utf-8", "length": self.length}

    def signature(self, role: str) -> dict[str, Any]:
        """All that decides whether a component fits here: it fits where it had an equal signature.

        Raises:
            UsageError: no such role in this structure.
        """
        if role not in self.roles:
            raise UsageError(f"a path of {self.layers} layers has no component {role!r}; it has {list(self.roles)}.")
        if role == EMBEDDING:
            return {
                "width": self.width,
                "buckets": self.buckets,
                "shortest": self.shortest,
                "longest": self.longest,
            }
        return self.behind.signature(role)


PRESETS: Mapping[str, NgramStructure] = {
    "tiny": NgramStructure(width=16, buckets=4096),
    "small": NgramStructure(width=32, buckets=32_768),
}
"""Name -> a headless structure: about 66,000 and a million parameters."""


def role_parameters(structure: NgramStructure) -> dict[str, int]:
    """Role -> parameters of its component."""
    behind = mlp_parameters(structure.behind)
    return {role: behind.get(role, structure.buckets * structure.width) for role in structure.roles}


def work_of(structure: NgramStructure) -> Work:
    """FLOPs of one sample, as this implementation computes them: the sum of the vectors of a text that fills the
    length, one for each of their numbers, and the products behind it (a multiply-add counts two)."""
    return Work(structure.ngrams * structure.width + path_work(structure.behind).total)
