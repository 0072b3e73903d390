"""The configuration of the model type ``evodevo``: a genome, the sizes that it leaves open, a vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedConfig

from evodevo.backbone.spec import BackboneStructure
from evodevo.errors import UsageError
from evodevo.settings import validate

SCHEMA = 1
"""Version of the written form of genome and space."""


class EvodevoConfig(PreTrainedConfig):  # type: ignore[misc]
    """A backbone.

    Args:
        genome: genome as text.
        space: settings of its space, as plain data.
        vocab_size: number of token ids.
        tied: whether the head is the embedding; it is then stored once, under one name.
        context_length: number of tokens of a window of its training.
        genome_schema: version of the genome's written form.
        use_cache: whether a call outside training returns a cache by default.
    """

    model_type = "evodevo"
    keys_to_ignore_at_inference = ("past_key_values",)

    def __init__(
        self,
        genome: str = "transformer++",
        space: Mapping[str, Any] | None = None,
        vocab_size: int = 256,
        tied: bool = False,
        context_length: int = 2048,
        genome_schema: int = SCHEMA,
        use_cache: bool = True,
        **others: Any,
    ) -> None:
        self.genome = genome
        self.space = dict(space or {})
        self.vocab_size = vocab_size
        self.tied = tied
        self.context_length = context_length
        self.genome_schema = genome_schema
        self.use_cache = use_cache
        structure = self.structure()
        self.hidden_size = structure.space.dimensions.width
        self.num_hidden_layers = len(structure.plans())
        self.max_position_embeddings = context_length
        # No second name for one tensor: transformers has nothing to tie.
        super().__init__(**{**others, "tie_word_embeddings": False})

    def structure(self) -> BackboneStructure:
        """Genome and sizes, checked.

        Raises:
            UsageError: another version, settings that are unknown, or a genome that is not of the space.
        """
        if self.genome_schema != SCHEMA:
            raise UsageError(
                f"genome_schema of the configuration is {self.genome_schema}; this evodevo reads {SCHEMA}. Install the"
                " evodevo that wrote it, or a newer one."
            )
        values = {"space": self.space, "genome": self.genome, "tied": self.tied}
        return validate(BackboneStructure, values, what="configuration of the model")
