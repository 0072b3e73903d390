"""Encoders of texts: a weighted mean of embeddings, and a recurrent network.

Legend: B samples, L words, M terms of a sample, V terms, d width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from evodevo.estimators.automatic.networks.texts import TERM_WEIGHTS, TERMS, TEXT
from evodevo.operators.lstm import run_lstm
from evodevo.tasks.text.words import PADDING, UNKNOWN

EMBEDDING_STD = 0.1


class WeightedTerms(nn.Module):
    """A weighted sum of embeddings of terms; as a linear map on the weights of terms, where it begins with zeros.

    Args:
        terms: V.
        width: d.
        word_dropout: Share of the terms of a training sample that are left out.
        std: Standard deviation of the first embeddings.

    Attributes:
        width: d.
    """

    def __init__(self, terms: int, width: int, word_dropout: float, std: float) -> None:
        super().__init__()
        self.width = width
        self.word_dropout = word_dropout
        self.embedding = nn.EmbeddingBag(terms + 1, width, mode="sum", padding_idx=0)
        with torch.no_grad():
            self.embedding.weight.normal_(std=std)
            self.embedding.weight[0].zero_()
        self.missing = nn.Parameter(torch.zeros(width))

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Vectors (B, d)."""
        weights = batch[TERM_WEIGHTS].to(self.missing.dtype)
        if self.training and self.word_dropout:
            weights = nn.functional.dropout(weights, self.word_dropout)
        summed = self.embedding(batch[TERMS], per_sample_weights=weights)
        return torch.where(batch[f"{TEXT}/present"][:, None], summed, self.missing)


class RecurrentTexts(nn.Module):
    """An LSTM over the words, both ways; mean and maximum over the words.

    Args:
        words: Number of word ids.
        width: d, of embeddings and of each direction.
        dropout: Dropout on embeddings.
        word_dropout: Share of the words of a training sample that become the unknown word.

    Attributes:
        width: Entries of a vector, 4 d.
    """

    def __init__(self, words: int, width: int, dropout: float, word_dropout: float) -> None:
        super().__init__()
        self.width = 4 * width
        self.word_dropout = word_dropout
        self.embedding = nn.Embedding(words, width, padding_idx=PADDING)
        with torch.no_grad():
            self.embedding.weight.normal_(std=EMBEDDING_STD)
            self.embedding.weight[PADDING].zero_()
        self.dropout = nn.Dropout(dropout)
        self.recurrence = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.missing = nn.Parameter(torch.zeros(self.width))

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Vectors (B, 4 d)."""
        tokens, mask = batch[TEXT], batch[f"{TEXT}/mask"]
        if self.training and self.word_dropout:
            hit = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            tokens = torch.where(hit & mask, UNKNOWN, tokens)
        lengths = mask.sum(1)
        longest = int(lengths.max().clamp(min=1))
        x = self.dropout(self.embedding(tokens[:, :longest]))
        # A text without words is read as one padding word, and replaced below.
        packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        h = pad_packed_sequence(run_lstm(self.recurrence, packed)[0], batch_first=True, total_length=longest)[0]
        real = mask[:, :longest, None]
        mean = (h * real).sum(1) / lengths.clamp(min=1)[:, None]
        highest = h.masked_fill(~real, -1).amax(1)  # outputs lie in (-1, 1)
        return torch.where(batch[f"{TEXT}/present"][:, None], torch.cat([mean, highest], 1), self.missing)
