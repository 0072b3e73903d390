"""The state of generation of a backbone as a cache of transformers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from evodevo.backbone.model import Backbone, GenerationState


class EvodevoCache(Cache):  # type: ignore[misc]
    """The states of the LIVs after a text: keys, values, states of recurrences and convolutions; shared ones once.

    Args:
        backbone: Model whose states are kept.
        room: Number of tokens for which memory is allocated.
    """

    is_compileable = False

    def __init__(self, backbone: Backbone, room: int = 0) -> None:
        super().__init__(layers=[])
        self.backbone = backbone
        self.room = room
        self.state: GenerationState | None = None
        self.rows = -1

    def of(self, batch: int) -> GenerationState:
        """The state, begun where there is none yet."""
        if self.state is None:
            self.state, self.rows = self.backbone.initial_state(batch, self.room), batch
        return self.state

    def used_bytes(self) -> int:
        """Bytes of the written part."""
        return 0 if self.state is None else self.state.used_bytes()

    def __len__(self) -> int:
        return len(self.backbone.plans)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens so far, padding included; also where no layer keeps one entry per token."""
        return 0 if self.state is None else self.state.length

    def get_max_length(self, layer_idx: int | None = None) -> int:
        """-1: no bound."""
        return -1

    def get_max_cache_shape(self, layer_idx: int = 0) -> int:
        """-1: no bound."""
        return -1

    def reset(self) -> None:
        """Forget everything."""
        self.state, self.rows = None, -1

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Rows of the batch in another order, for beams."""
        if self.state is not None:
            self.state = self.state.select(beam_idx.to(self.backbone.embedding.weight.device))
            self.rows = len(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Some rows of the batch."""
        self.reorder_cache(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row several times."""
        if self.state is not None:
            self.reorder_cache(torch.arange(self.rows).repeat_interleave(repeats))

    def crop(self, tokens_to_remove: int) -> None:
        """Not possible: a recurrence keeps no earlier states."""
        raise NotImplementedError("the state of a recurrence cannot be cut; start again from the text.")

    @property
    def batch_size(self) -> int:
        """Rows of the batch; -1 before the first call."""
        return self.rows

    def __repr__(self) -> str:
        return f"EvodevoCache(tokens={self.get_seq_length()}, bytes={self.used_bytes()})"


def as_cache(value: Any, backbone: Backbone) -> EvodevoCache:
    """The cache itself; a new one in place of an empty cache of another kind.

    Raises:
        ValueError: another kind that holds something.
    """
    if isinstance(value, EvodevoCache):
        return value
    if value is None or _is_empty(value):
        return EvodevoCache(backbone)
    raise ValueError(f"past_key_values is a {type(value).__name__}; give the EvodevoCache of the last output, or none.")


def _is_empty(value: Any) -> bool:
    try:
        return int(value.get_seq_length()) == 0
    except ValueError:  # of a cache without layers of attention
        return True
