"""A transformer over a text as a row of components: the structure of a path that reads, as plain data, and its cost.

The papers use images only; a system carries any modality (docs/spec/munet.md#tasks). Tasks hand out bytes,
and a path makes tokens of them itself, so that it can read the texts of any task: the bytes as they are, or subwords of
a tokenizer that is stored with the path's embedding. ``multitask/paths/text/model.py`` builds the parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from evodevo.multitask.paths.blocks_spec import (
    EMBEDDING,
    BlockStructure,
    parameters_by_role,
    work_behind_embedding,
)
from evodevo.operators.cost import Work

KIND = "text_path"
BYTES = 256
LENGTH = "ds_length"
"""Hyperparameter: tokens of a text that are read. What the resolution is to images."""
READS = "tokens:bytes"
"""The modality of samples that such a path can read; see ``tasks.modalities``."""


class TextStructure(BlockStructure):
    """A path of kind ``text_path``; see ``BlockStructure`` for what it shares with others.

    Attributes:
        length: largest number of tokens of a text that are read.
        tokenizer: ``bytes``, or ``bpe``: subwords that were trained on the texts of the path's first task, its root's.
        vocabulary: number of ids of the embedding; 256 for bytes.
    """

    length: int = Field(ge=1, le=65_536)
    tokenizer: Literal["bytes", "bpe"] = "bytes"
    vocabulary: int = Field(default=BYTES, ge=BYTES, le=65_536)

    @model_validator(mode="after")
    def _known_ids(self) -> Self:
        if (self.tokenizer == "bytes") != (self.vocabulary == BYTES):
            raise ValueError(
                f"the tokenizer 'bytes' has a vocabulary of {BYTES}, and 'bpe' a larger one, for example 4096; got "
                f"{self.tokenizer!r} with {self.vocabulary}"
            )
        return self

    @property
    def tokens(self) -> int:
        """Those of a text, and the class token."""
        return 1 + self.length

    @property
    def input_spec(self) -> dict[str, Any]:
        return {
            "modality": "tokens",
            "bytes": "utf-8",
            "tokenizer": self.tokenizer,
            "vocabulary": self.vocabulary,
            "length": self.length,
        }

    def front(self, role: str) -> dict[str, Any]:
        if role == EMBEDDING:
            return {"tokenizer": self.tokenizer, "vocabulary": self.vocabulary}
        return {"length": self.length}


PRESETS: Mapping[str, TextStructure] = {
    "tiny": TextStructure(width=32, heads=2, hidden=64, layers=2, length=64),
    "small": TextStructure(width=192, heads=3, hidden=768, layers=3, length=128),
}
"""Name -> a headless structure. ``small`` has the blocks of µNet's ViT-Ti/16; ``tiny`` is for tests."""

HYPERPARAMETERS: Mapping[str, str] = {"num_layers": "layers", LENGTH: "length"}
"""Hyperparameter of a path -> the field of its structure that it decides."""


def role_parameters(structure: TextStructure) -> dict[str, int]:
    """Role -> parameters of its component.

    Raises:
        UsageError: a block is a layer that does not exist at this width.
    """
    return parameters_by_role(structure, structure.vocabulary * structure.width)


def path_work(structure: TextStructure) -> Work:
    """FLOPs of one sample, as this implementation computes them; looking a token up is no arithmetic.

    A text that fills the path's length counts: shorter ones are padded.
    """
    return work_behind_embedding(structure)
