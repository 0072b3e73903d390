"""What stands between the senses and the heads of an opponent of the zoo."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn

from evodevo.module_zoo.senses.model import Sense


@dataclass(frozen=True)
class Thought:
    """What a trunk made of a batch.

    Attributes:
        tokens: (B, S, d).
        mask: (B, S), true at real positions; None where all are.
        pooled: (B, d), what the heads read.
        sides: what each modality alone says, (B, d) each, for trunks that learn from it.
        terms: name -> scalar with gradient that counts while training, weight included.
    """

    tokens: Tensor
    mask: Tensor | None
    pooled: Tensor
    sides: tuple[Tensor, ...] = ()
    terms: Mapping[str, Tensor] = field(default_factory=dict)


class Trunk(nn.Module, ABC):
    """From one or two senses, image side first, to a thought.

    In evaluation the thought of a sample depends on that sample alone; what stands at masked positions has no
    influence.
    """

    @abstractmethod
    def forward(self, senses: Sequence[Sense]) -> Thought: ...
