"""The task ``language``: prediction of the next token of real text.

Shapes: B windows in a batch, L context length; a window has L + 1 tokens, the first L are inputs and the last L
targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo import canonical
from evodevo.errors import DataError
from evodevo.randomness import generator
from evodevo.settings import NEW, Settings
from evodevo.tasks import splits
from evodevo.tasks.base import SPLITS, OutputSpec, SampleTask, Split
from evodevo.tasks.baselines import CountModel, fit_bigram, fit_unigram
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.text import corpus, tokenizers
from evodevo.tasks.text.token_cache import ArrayStream, CachedTokens, TokenCache, recall

FEWEST_CONTEXTS = 32
"""Windows of a validation or test split below which a score says little."""


class LanguageSettings(Settings):
    """Source of the text, tokenizer, and length of a window."""

    data: str | None = Field(default=None, description="a file or folder of text; none is Python's standard library")
    field: str = Field(default="text", min_length=1, description="JSON key or parquet column of the text")
    tokenizer: str = Field(
        default="bytes", description="'bytes', 'bpe' (trained on the corpus), or the path of a tokenizer.json"
    )
    vocabulary: int = Field(default=4096, gt=256, le=65_536, description="number of token ids of 'bpe'")
    context_length: int = Field(default=256, ge=1, le=2**20, description="number of predicted tokens in a window")
    max_bytes: int | None = Field(default=None, ge=1, description="largest sum of bytes of the documents")
    split: splits.Rule = Field(
        default="legacy",
        description="rule of the split: whole documents, by position in each, or auto: by document where there are "
        "enough; legacy: that of runs which were stored before, with README files and however small",
        json_schema_extra={NEW: "auto"},
    )


class LanguageTask(SampleTask):
    """Windows of text in three splits of documents, with the input ``text`` and the output ``next``.

    Training windows begin at any token; validation and test windows never predict a token twice.

    Args:
        settings: Settings of the task.
        key: 64 hexadecimal digits over the corpus, the tokenizer and the split; equal in every process.
        entry: Tokens and bytes of each split, the tokenizer, and the description of the source.

    Raises:
        DataError: A split is shorter than one window.
    """

    name: ClassVar[str] = "language"
    overlapping: ClassVar[bool] = True
    settings_class: ClassVar[type[Settings]] = LanguageSettings

    def __init__(self, settings: LanguageSettings, key: str, entry: CachedTokens) -> None:
        self.settings = settings
        self.key = key
        self.tokenizer = tokenizers.from_bytes(entry.tokenizer)
        self.context_length = settings.context_length
        self.inputs, self.outputs = windows_of(self.tokenizer.vocabulary, settings.context_length)
        self.group_names = {}
        self.digest = canonical.digest({"task": self.name, "key": key, "context_length": settings.context_length})
        self._info = entry.info
        self._tokens: dict[Split, NDArray[Any]] = {split: entry.arrays[f"tokens_{split}"] for split in SPLITS}
        self._bytes: dict[Split, NDArray[np.uint8]] = {split: entry.arrays[f"bytes_{split}"] for split in SPLITS}
        self._check_lengths()

    @classmethod
    def open(cls, settings: LanguageSettings, cache_folder: Path | None = None, key: str | None = None) -> LanguageTask:
        return cls(settings, *recall(settings, cache_folder, key, _prepare))

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return self.tokenizer.vocabulary

    def tokens(self, split: Split) -> NDArray[Any]:
        """All tokens of a split, a separator after each document. Shape ``(tokens,)``, unsigned, read-only."""
        return self._tokens[split]

    def text(self, split: Split) -> NDArray[np.uint8]:
        """All bytes of a split, NUL after each document. Shape ``(bytes,)``, read-only."""
        return self._bytes[split]

    def count(self, split: Split) -> int:
        return len(self._tokens[split]) - self.context_length if split == "train" else self.windows_in(split)

    def windows_in(self, split: Split) -> int:
        """Number of windows of a split in which no token is predicted twice."""
        return (len(self._tokens[split]) - 1) // self.context_length

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        windows = self.windows(split, indices)
        return {"text": windows[:, :-1], "next/target": windows[:, 1:]}

    def draw(self, split: Split, seed: int, step: int, size: int) -> NDArray[np.int64]:
        return generator(seed, step, f"windows/{split}").integers(0, self.count(split), size=size)

    def windows(self, split: Split, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Token ids of windows and of the next token. Shape (B, L + 1)."""
        starts = indices if split == "train" else indices * self.context_length
        rows: NDArray[np.int64] = self._tokens[split][starts[:, None] + np.arange(self.context_length + 1)]
        return rows.astype(np.int64)

    def spread(self, split: Split, tokens: int | None = None) -> NDArray[np.int64]:
        """Windows in which no token is predicted twice, spread evenly over a split, equal at every call.

        Args:
            split: Name of the split.
            tokens: Largest number of predicted tokens (but at least one window); None is the whole split, except for a
                rest shorter than a window.

        Returns:
            Indices in ascending order, shape ``(windows,)``.
        """
        available = self.windows_in(split)
        wanted = available if tokens is None else min(available, max(1, tokens // self.context_length))
        indices = np.arange(wanted) * available // wanted
        return indices * self.context_length if split == "train" else indices

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {}

    def show(self, split: Split, index: int) -> dict[str, str]:
        window = self.windows(split, np.asarray([index]))[0]
        return {"text": self.tokenizer.decode(window[:-1]), "next": self.tokenizer.decode(window[-1:])}

    def encode(self, name: str, text: str) -> NDArray[np.int64]:
        return self.tokenizer.encode(text)[: self.context_length]

    def decode(self, name: str, tokens: NDArray[np.int64]) -> str:
        return self.tokenizer.decode(tokens)

    def bytes_per_token(self, split: Split) -> float:
        """Mean number of bytes of text per token of the split, separators included."""
        return len(self._bytes[split]) / len(self._tokens[split])

    def predicted_bytes(self, split: Split, indices: NDArray[np.int64]) -> float:
        """Number of bytes of text that the predicted tokens of these windows represent.

        Exact where each token represents fixed bytes (bytes, byte-level BPE), else by the split's mean.
        """
        if self._token_lengths is None:
            return len(indices) * self.context_length * self.bytes_per_token(split)
        return float(self._token_lengths[self.windows(split, indices)[:, 1:]].sum())

    def baselines(self, split: Split, indices: NDArray[np.int64] | None = None) -> dict[str, float]:
        """Bits per byte of the count models on a split, or on exactly the bytes predicted in these windows of it."""
        streams = [self._bytes[split]] if indices is None else self._window_bytes(split, self.windows(split, indices))
        return {model.name: model.bits_per_byte(streams) for model in self._count_models}

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "context_length": self.context_length,
            "tokenizer": self.tokenizer.describe(),
            "tokens": {split: len(self._tokens[split]) for split in SPLITS},
            "bytes": {split: len(self._bytes[split]) for split in SPLITS},
            "contexts": {split: self.windows_in(split) for split in SPLITS},
            "bytes_per_token": self.bytes_per_token("train"),
            **self._info,
        }

    @cached_property
    def _count_models(self) -> tuple[CountModel, ...]:
        texts = self._bytes["train"], self._bytes["validation"]
        return fit_unigram(*texts), fit_bigram(*texts)

    @cached_property
    def _token_bytes(self) -> list[bytes] | None:
        return self.tokenizer.token_bytes()

    @cached_property
    def _token_lengths(self) -> NDArray[np.int64] | None:
        table = self._token_bytes
        return None if table is None else np.asarray([len(piece) for piece in table], dtype=np.int64)

    def _window_bytes(self, split: Split, windows: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
        table = self._token_bytes
        if table is None:
            return [self._bytes[split]]
        # The last byte of a window's first token is the context of the first predicted byte.
        texts = (table[row[0]][-1:] + b"".join(table[i] for i in row[1:]) for row in windows.tolist())
        return [np.frombuffer(text, dtype=np.uint8) for text in texts]

    def _check_lengths(self) -> None:
        for split in SPLITS:
            if len(self._tokens[split]) <= self.context_length:
                raise DataError(
                    f"the corpus is too small: its {split} split has {len(self._tokens[split]):,} tokens "
                    f"({self._info['documents'][split]:,} documents of {self._info['source']}), and a context length "
                    f"of {self.context_length:,} needs at least {self.context_length + 1:,}. Give more text, or a "
                    f"context length of at most {max(1, min(map(len, self._tokens.values())) - 1):,}."
                )
            if self.settings.split == "legacy" or split == "train" or self.count(split) >= FEWEST_CONTEXTS:
                continue
            few = self._info["split_rule"] == splits.BY_DOCUMENT
            raise DataError(
                f"the {split} split of {self._info['source']} is too small to judge by: {len(self._tokens[split]):,} "
                f"tokens are {self.count(split)} contexts of {self.context_length:,}, and at least {FEWEST_CONTEXTS} "
                f"are needed ({self._info['split_rule']}). Give more text, "
                + ("cut inside documents (evaluation.language.split=position), " if few else "")
                + f"or a context length of at most {max(1, (len(self._tokens[split]) - 1) // FEWEST_CONTEXTS):,}."
            )


def windows_of(vocabulary: int, length: int) -> tuple[tuple[InputSpec], tuple[OutputSpec]]:
    """The input and the output of a network that reads windows of ``length`` tokens and predicts each next token."""
    text = InputSpec("text", "tokens", length=length, vocabulary=vocabulary)
    return (text,), (OutputSpec("next", "tokens", vocabulary, of=text.name),)


def _prepare(settings: LanguageSettings, cache: TokenCache) -> tuple[str, CachedTokens]:
    """Read the corpus, and look its tokens up in the cache by content, or make them."""
    documents = corpus.read(
        settings.data,
        field=settings.field,
        max_bytes=settings.max_bytes,
        everything=settings.split == "legacy",
        spool=cache.folder,
    )
    given, identity = tokenizers.choose(settings.tokenizer, settings.vocabulary)
    try:
        parts = splits.split(documents.documents, settings.split)
    except DataError as error:
        raise DataError(f"{documents.source}: {error}") from None
    key = canonical.digest({"corpus": documents.digest, "tokenizer": identity, "split": parts.rule, "version": 1})
    entry = cache.get(key)
    if entry is not None:
        # The place and what was left out there are not those of whoever prepared the same documents first.
        return key, replace(entry, info={**entry.info, **documents.describe()})
    tokenizer = given or tokenizers.train_bpe(parts.documents["train"], settings.vocabulary)
    info = {
        **documents.describe(),
        "corpus_digest": documents.digest,
        "documents": {split: len(parts.documents[split]) for split in SPLITS},
        "split_rule": parts.rule,
        "lossless": _lossless(tokenizer, parts.documents["validation"]),
    }
    streams: dict[str, ArrayStream] = {}
    for split in SPLITS:
        texts = parts.documents[split]
        streams[f"tokens_{split}"] = ArrayStream(tokenizer.dtype, partial(tokenizer.encode_some, texts))
        streams[f"bytes_{split}"] = ArrayStream(np.dtype(np.uint8), partial(tokenizers.byte_stretches, texts))
    if documents.is_on_disk:
        return key, cache.write(key, streams, tokenizer.to_bytes(), info)
    arrays = {name: stream.whole() for name, stream in streams.items()}
    return key, cache.put(key, CachedTokens(arrays, tokenizer.to_bytes(), info))


def _lossless(tokenizer: tokenizers.Tokenizer, documents: Sequence[bytes]) -> bool:
    """Whether decoding restores the text; a user's tokenizer may normalise it, and bits per byte are then too low."""
    texts = (document.decode("utf-8") for document in documents)
    return tokenizer.kind != "file" or all(tokenizer.decode(tokenizer.encode(text)) == text for text in texts)
