"""A language model with its tokenizer, as everything that measures likelihoods needs it.

Legend: B rows, T tokens, V vocabulary, N scored tokens, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.networks.base import Network
from evodevo.networks.continuation import LanguageModel
from evodevo.tasks.text.tokenizers import Tokenizer
from evodevo.training.precision import Precision, decide

Ids = NDArray[np.int64]
Progress = Callable[[int, int], None]
"""Called with the amount that is done, and the whole."""

TOKENS_AT_ONCE = 8192
"""Tokens of one batch, padding included."""
_LOGITS_AT_ONCE = 1 << 24


def no_progress(done: int, whole: int) -> None:
    """A listener that does nothing."""


@dataclass
class Reader:
    """A language model that reads texts.

    Attributes:
        model: The model, in evaluation mode, on the device of ``precision``.
        tokenizer: Its tokenizer.
        length: Largest number of tokens that the model reads at once.
        precision: Device and number format.
    """

    model: LanguageModel
    tokenizer: Tokenizer
    length: int
    precision: Precision

    @classmethod
    def of(cls, network: Network, tokenizer: Tokenizer, length: int | None = None, device: str = "cpu") -> Reader:
        """A reader for a trained network, which is moved to the device and put into evaluation mode.

        Args:
            network: Network of one text that predicts its next tokens.
            tokenizer: The tokenizer that it was trained with.
            length: Number of tokens that it reads at once; None = the context length of its training.
            device: Name of the device: auto, cpu, cuda, cuda:N.

        Raises:
            UsageError: The network writes no text, its vocabulary is not the tokenizer's, or the length is below 2.
        """
        precision = decide(device)
        model = network.to(precision.device).eval().writer()
        spec = network.input_specs[0]
        if spec.vocabulary != tokenizer.vocabulary:
            raise UsageError(
                f"the model has {spec.vocabulary:,} token ids and the tokenizer {tokenizer.vocabulary:,}; give the "
                "tokenizer that the model was trained with."
            )
        length = spec.length if length is None else length
        if length < 2:
            raise UsageError(f"the context has {length} tokens; at least 2 are needed.")
        return cls(model, tokenizer, length, precision)

    @property
    def begin(self) -> list[int]:
        """Token ids before the first token of a text: the end of a document, where the tokenizer has such a token."""
        return [] if self.tokenizer.separator is None else [self.tokenizer.separator]

    def forks(self) -> bool:
        """Whether the state of the model can be taken over into several continuations, and prompts may be padded."""
        return hasattr(self.model.initial_state(1, 1), "select")

    def place(self, rows: list[Ids], *, left: bool = False) -> tuple[Tensor, Tensor]:
        """Rows of tokens as one tensor (B, T), padded with 0, and its mask (B, T), true at tokens."""
        width = max(map(len, rows))
        tokens = np.zeros((len(rows), width), np.int64)
        mask = np.zeros((len(rows), width), np.bool_)
        for row, ids in enumerate(rows):
            place = slice(width - len(ids), width) if left else slice(0, len(ids))
            tokens[row, place], mask[row, place] = ids, True
        return self.precision.tensor(tokens), self.precision.tensor(mask)

    def hidden(self, tokens: Tensor, *, mask: Tensor | None = None, state: Any = None) -> Tensor:
        """Input of the head, (B, T, D)."""
        with self.precision.autocast():
            return self.model.hidden(tokens, mask=mask, state=state)

    def judge(self, hidden: Tensor, targets: Sequence[Ids]) -> list[tuple[float, bool]]:
        """Log-likelihood of each stretch of targets in nats, and whether all of it is what greedy decoding writes.

        Args:
            hidden: Input of the head at the position before each target, (N, D).
            targets: Stretches of tokens, N in all.
        """
        wanted = self.precision.tensor(np.concatenate(targets))
        size = max(1, _LOGITS_AT_ONCE // self.tokenizer.vocabulary)
        values, greedy = [], []
        for start in range(0, len(wanted), size):
            with self.precision.autocast():
                logits = self.model.logits(hidden[start : start + size])
            chunk = wanted[start : start + size]
            values.append(logits.double().log_softmax(-1).gather(1, chunk[:, None]).squeeze(1))
            greedy.append(logits.argmax(-1) == chunk)
        ends = np.cumsum([len(stretch) for stretch in targets])[:-1]
        sums = np.split(torch.cat(values).cpu().numpy(), ends)
        right = np.split(torch.cat(greedy).cpu().numpy(), ends)
        return [(float(part.sum()), bool(hits.all())) for part, hits in zip(sums, right, strict=True)]


def reader_of(model: Any, tokenizer: Any, length: int | None = None, device: str = "cpu") -> Reader:
    """``Reader.of`` for a model and a tokenizer as ``Individual.load`` and ``Individual.tokenizer`` return them.

    Raises:
        UsageError: As ``Reader.of``, or no network.
    """
    if not isinstance(model, Network):
        raise UsageError(f"a {type(model).__name__} is no network that predicts text.")
    return Reader.of(model, cast(Tokenizer, tokenizer), length, device)
