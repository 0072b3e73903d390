"""Interface of a baseline's trunk, the part between encoders and heads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn

from evodevo.module_zoo.encoders.model import EncodedModality


@dataclass(frozen=True)
class TrunkOutput:
    """Output of a trunk for a batch.

    Attributes:
        tokens: Token embeddings, (B, S, d).
        mask: Real positions, (B, S); None where all are.
        pooled: Input of the heads, (B, d).
        sides: Output of each modality alone, (B, d) each, for trunks with losses on them.
        terms: Losses by name in training, scalars with gradient, weight included.
    """

    tokens: Tensor
    mask: Tensor | None
    pooled: Tensor
    sides: tuple[Tensor, ...] = ()
    terms: Mapping[str, Tensor] = field(default_factory=dict)


class Trunk(nn.Module, ABC):
    """Maps one or two encoded modalities, image first, to a ``TrunkOutput``.

    In evaluation the output of a sample depends on that sample alone; values at masked positions have no
    influence.
    """

    @abstractmethod
    def forward(self, senses: Sequence[EncodedModality]) -> TrunkOutput: ...
