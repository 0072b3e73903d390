"""Bits per byte of whole documents: each token is predicted once, by windows that slide over its document.

The first window of a document begins with the token that ends the document before it and predicts as many tokens as
the model reads at once; each later one goes on by ``stride`` tokens and predicts those, so that every token but those
of the first window has at least ``length - stride`` tokens before it. Bytes are those of the documents as they are, so
that models with other tokenizers give comparable numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from evodevo.errors import UsageError
from evodevo.networks.likelihood.reader import TOKENS_AT_ONCE, Ids, Progress, Reader, no_progress


@dataclass(frozen=True)
class DocumentScores:
    """The likelihood of documents under a model; arrays have one entry per document.

    Attributes:
        nats: Negative log-likelihood of its tokens, in nats.
        tokens: Number of predicted tokens.
        bytes: Number of bytes of the text of these tokens.
        lossless: Whether decoding restores every document; where a tokenizer changes the text, its bits are too few.
    """

    nats: NDArray[np.float64]
    tokens: NDArray[np.int64]
    bytes: NDArray[np.int64]
    lossless: bool

    @property
    def bits_per_byte(self) -> float:
        """Over all documents together; infinite where a token has probability 0."""
        return float(self.nats.sum() / (math.log(2) * self.bytes.sum()))

    @property
    def perplexity(self) -> float:
        """Per token of this tokenizer: comparable only between models that share it."""
        mean = float(self.nats.sum() / self.tokens.sum())
        return math.exp(mean) if mean < 700 else math.inf


@dataclass(frozen=True)
class _Window:
    """Tokens ``begin`` to ``end`` of a document are read, and those behind ``scored - 1`` to ``end - 1`` predicted."""

    document: int
    begin: int
    scored: int
    end: int


def windows(count: int, length: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """(begin, first scored, end) of the windows over ``count`` predictions: each is scored in exactly one of them."""
    scored = 0
    while scored < count:
        end = min(count, length if scored == 0 else scored + stride)
        yield max(0, end - length), scored, end
        scored = end


def score_documents(
    reader: Reader, documents: Sequence[bytes], *, stride: int | None = None, progress: Progress = no_progress
) -> DocumentScores:
    """Measure a model on documents.

    Args:
        reader: Reader of the model.
        documents: UTF-8 texts, none of them empty.
        stride: Number of tokens by which a window goes on; None = half of the reader's length.
        progress: Function called with the numbers of finished and of all predictions.

    Raises:
        UsageError: The stride is not between 1 and the reader's length.
    """
    stride = max(1, reader.length // 2) if stride is None else stride
    if not 1 <= stride <= reader.length:
        raise UsageError(f"the stride is {stride}; it must be 1 to {reader.length}, the tokens that are read at once.")
    texts = [document.decode("utf-8") for document in documents]
    ids = [np.concatenate([np.asarray(reader.begin, np.int64), reader.tokenizer.encode(text)]) for text in texts]
    sizes = np.asarray([len(document) for document in documents])
    if not reader.begin:  # the first token has nothing before it that could predict it
        sizes = sizes - [len(reader.tokenizer.decode(row[:1]).encode()) for row in ids]
    counts = np.asarray([max(0, len(row) - 1) for row in ids])
    planned = [
        _Window(number, *window)
        for number, count in enumerate(counts.tolist())
        for window in windows(count, reader.length, stride)
    ]
    nats = np.zeros(len(documents))
    done, whole = 0, int(counts.sum())
    with torch.no_grad():
        for batch in _batches(planned):
            for window, value in zip(batch, _scored(reader, ids, batch), strict=True):
                nats[window.document] -= value
            done += sum(window.end - window.scored for window in batch)
            progress(done, whole)
    lossless = reader.tokenizer.kind != "file" or all(
        reader.tokenizer.decode(row[len(reader.begin) :]) == text for row, text in zip(ids, texts, strict=True)
    )
    return DocumentScores(nats, counts, sizes, lossless)


def _batches(planned: Sequence[_Window]) -> Iterator[list[_Window]]:
    """Windows of about equal length, longest first."""
    ordered = sorted(planned, key=lambda window: (window.begin - window.end, window.document, window.begin))
    batch: list[_Window] = []
    for window in ordered:
        if batch and (len(batch) + 1) * (batch[0].end - batch[0].begin) > TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def _scored(reader: Reader, ids: Sequence[Ids], batch: Sequence[_Window]) -> list[float]:
    """The log-likelihood of what each window predicts."""
    tokens, _ = reader.place([ids[window.document][window.begin : window.end] for window in batch])
    hidden = reader.hidden(tokens)
    places = [slice(window.scored - window.begin, window.end - window.begin) for window in batch]
    states = torch.cat([hidden[row, place] for row, place in enumerate(places)])
    targets = [ids[window.document][window.scored + 1 : window.end + 1] for window in batch]
    return [value for value, _ in reader.judge(states, targets)]
