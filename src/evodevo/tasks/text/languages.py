"""The task ``languages``: prediction of the next token in several languages, with the language of each window.

Source: paper 6.6; docs/spec/h_model.md#experiments. The script of a language is that of most of its letters,
by Unicode blocks.

Shapes: B samples, L input tokens of a window, and as many targets.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo import canonical
from evodevo.errors import DataError
from evodevo.settings import NEW, Settings
from evodevo.tasks import splits
from evodevo.tasks.base import SPLITS, OutputSpec, SampleTask, Split
from evodevo.tasks.baselines import fit_bigram
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.sample_splits import fingerprint
from evodevo.tasks.text import language_sources, tokenizers
from evodevo.tasks.text.column_names import split_names
from evodevo.tasks.text.language import FEWEST_CONTEXTS
from evodevo.tasks.text.synthetic_languages import SyntheticSettings, generate
from evodevo.tasks.text.token_cache import CachedTokens, TokenCache, recall

_VERSION = 1
_SCRIPT_BYTES = 100_000  # bytes of training text from which a language's script is determined


class LanguagesSettings(Settings):
    """Source of the texts, tokenizer, and length of a window."""

    data: str | None = Field(
        default=None,
        description="a folder by language, rows of language and text, or a column per language; none is invented ones",
    )
    language: str = Field(default="lang", min_length=1, description="column of the languages")
    text: str = Field(
        default="text",
        min_length=1,
        description="column of the texts; several with commas between them are a language each, with its name",
    )
    tokenizer: str = Field(default="bytes", description="'bytes', 'bpe' (trained on the texts), or a tokenizer.json")
    vocabulary: int = Field(default=4096, gt=256, le=65_536, description="number of token ids of 'bpe'")
    context_length: int = Field(default=64, ge=1, le=65_536, description="number of predicted tokens in a window")
    synthetic: SyntheticSettings = SyntheticSettings()
    split: splits.Rule = Field(
        default="legacy",
        description="rule of the split of each language: whole documents, by position in each, or auto: by document "
        "where there are enough; legacy: that of runs which were stored before, with README files and however small",
        json_schema_extra={NEW: "auto"},
    )


class LanguagesTask(SampleTask):
    """Windows of one language each, equally many per language, in three splits of documents.

    Sample p of a split is a window of language p modulo the number of languages. Training windows begin at any token,
    spread evenly over a longer language; validation and test windows never predict a token twice.

    Groups: ``language``, and ``script``, which separates a probe that reads the language from one that reads the
    alphabet.

    Args:
        settings: Settings of the task.
        key: 64 hexadecimal digits over the texts, the tokenizer and the split; equal in every process.
        entry: Tokens and bytes of each split, language after language, the tokenizer, and the description of the
            source.

    Raises:
        DataError: A language has less than a window in a split.
    """

    name: ClassVar[str] = "languages"
    settings_class: ClassVar[type[Settings]] = LanguagesSettings

    def __init__(self, settings: LanguagesSettings, key: str, entry: CachedTokens) -> None:
        self.settings = settings
        self.key = key
        self.tokenizer = tokenizers.from_bytes(entry.tokenizer)
        self.context_length = settings.context_length
        self.digest = canonical.digest({"task": self.name, "key": key, "context_length": settings.context_length})
        vocabulary = self.tokenizer.vocabulary
        self.inputs = (InputSpec("text", "tokens", length=settings.context_length, vocabulary=vocabulary),)
        self.outputs = (OutputSpec("next", "tokens", vocabulary, of="text"),)
        self._info = entry.info
        self.languages: tuple[str, ...] = tuple(entry.info["scripts"])
        scripts = tuple(sorted(set(entry.info["scripts"].values())))
        self._script_of = np.asarray([scripts.index(entry.info["scripts"][name]) for name in self.languages])
        self.group_names = {"language": self.languages, "script": scripts}
        self._tokens = {split: _cut(entry, f"tokens_{split}") for split in SPLITS}
        self._bytes = {split: _cut(entry, f"bytes_{split}") for split in SPLITS}
        self._check_lengths()
        self._windows = {split: self._window_counts(split) for split in SPLITS}

    @classmethod
    def open(
        cls, settings: LanguagesSettings, cache_folder: Path | None = None, key: str | None = None
    ) -> LanguagesTask:
        return cls(settings, *recall(settings, cache_folder, key, _prepare))

    def count(self, split: Split) -> int:
        return min(self._windows[split]) * len(self.languages)

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        windows = self.windows(split, indices)
        return {"text": windows[:, :-1], "next/target": windows[:, 1:]}

    def windows(self, split: Split, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Token ids of windows and of the next token. Shape (B, L + 1)."""
        result = np.empty((len(indices), self.context_length + 1), np.int64)
        languages, starts = self._starts(split, indices)
        columns = np.arange(self.context_length + 1)
        for number, stream in enumerate(self._tokens[split]):
            rows = np.flatnonzero(languages == number)
            result[rows] = stream[starts[rows, None] + columns]
        return result

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        languages, _ = self._starts(split, indices)
        return {"language": languages, "script": self._script_of[languages]}

    def show(self, split: Split, index: int) -> dict[str, str]:
        window = self.windows(split, np.asarray([index]))[0]
        return {"text": self.tokenizer.decode(window[:-1]), "next": self.tokenizer.decode(window[-1:])}

    def encode(self, name: str, text: str) -> NDArray[np.int64]:
        return self.tokenizer.encode(text)[: self.context_length]

    def decode(self, name: str, tokens: NDArray[np.int64]) -> str:
        return self.tokenizer.decode(tokens)

    def predicted_bytes(self, split: Split, indices: NDArray[np.int64]) -> float:
        """Number of bytes that the predicted tokens of these windows represent, the divisor of bits per byte.

        Exact where each token represents fixed bytes (bytes, byte-level BPE), else by each language's mean.
        """
        if self._token_lengths is not None:
            return float(self._token_lengths[self.windows(split, indices)[:, 1:]].sum())
        streams = zip(self._bytes[split], self._tokens[split], strict=True)
        means = np.asarray([len(text) / len(tokens) for text, tokens in streams])
        languages, _ = self._starts(split, indices)
        return float(means[languages].sum() * self.context_length)

    def baselines(self, split: Split) -> dict[str, float]:
        """Bits per byte of bigram models, one for all languages and one for each; means over languages."""
        train, held_out, judged = self._bytes["train"], self._bytes["validation"], self._bytes[split]
        together = fit_bigram(np.concatenate(train), np.concatenate(held_out))
        apart = [fit_bigram(*texts) for texts in zip(train, held_out, strict=True)]
        return {
            "bigram": float(np.mean([together.bits_per_byte([text]) for text in judged])),
            "bigram per language": float(
                np.mean([model.bits_per_byte([text]) for model, text in zip(apart, judged, strict=True)])
            ),
        }

    def describe(self) -> dict[str, Any]:
        def sizes(streams: dict[Split, list[NDArray[Any]]]) -> dict[str, dict[str, int]]:
            return {
                split: {name: len(stream) for name, stream in zip(self.languages, streams[split], strict=True)}
                for split in SPLITS
            }

        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "context_length": self.context_length,
            "tokenizer": self.tokenizer.describe(),
            "samples": {split: self.count(split) for split in SPLITS},
            "tokens": sizes(self._tokens),
            "bytes": sizes(self._bytes),
            "baseline_unit": "bits per byte",
            **self._info,
        }

    @cached_property
    def _token_lengths(self) -> NDArray[np.int64] | None:
        table = self.tokenizer.token_bytes()
        return None if table is None else np.asarray([len(piece) for piece in table], dtype=np.int64)

    def _starts(self, split: Split, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Language and first token of windows. Shapes (B,), (B,)."""
        counts = self._windows[split]
        each = min(counts)
        languages, index = indices % len(counts), indices // len(counts)
        starts = index * np.asarray(counts)[languages] // each
        # Training windows may begin at any token; held-out ones only at multiples of L, so that no token is predicted
        # twice.
        return languages, starts if split == "train" else starts * self.context_length

    def _window_counts(self, split: Split) -> list[int]:
        """Number of windows of each language."""
        lengths = [len(stream) for stream in self._tokens[split]]
        if split == "train":
            return [length - self.context_length for length in lengths]
        return [(length - 1) // self.context_length for length in lengths]

    def _check_lengths(self) -> None:
        shortest, split, name = min(
            (len(stream), split, name)
            for split in SPLITS
            for name, stream in zip(self.languages, self._tokens[split], strict=True)
        )
        if shortest <= self.context_length:
            raise DataError(
                f"the language {name!r} is too small: its {split} split has {shortest:,} tokens, and a context length "
                f"of {self.context_length:,} needs at least {self.context_length + 1:,}. Give more text of it, or a "
                f"context length of at most {max(1, shortest - 1):,}."
            )
        for held_out in ("validation", "test"):
            windows = min(self._window_counts(held_out)) * len(self.languages)
            if self.settings.split != "legacy" and windows < FEWEST_CONTEXTS:
                raise DataError(
                    f"the {held_out} split of {self._info['source']} is too small to judge by: {windows} contexts of "
                    f"{self.context_length:,}, equally many per language, and at least {FEWEST_CONTEXTS} are needed "
                    f"({self._info['split_rule']}). Give more text of the shortest language, cut inside documents "
                    "(split=position), or set a shorter context length."
                )


def _cut(entry: CachedTokens, name: str) -> list[NDArray[Any]]:
    """The part of each language in a stream."""
    ends = np.cumsum(entry.info["sizes"][name]).tolist()
    return [entry.arrays[name][start:end] for start, end in pairwise([0, *ends])]


def _prepare(settings: LanguagesSettings, cache: TokenCache) -> tuple[str, CachedTokens]:
    """Read the texts, and look their tokens up in the cache by content, or make them."""
    if settings.data is None:
        source, documents = "six invented languages", generate(settings.synthetic)
    else:
        path = Path(settings.data).expanduser()
        source = str(path)
        documents = language_sources.read(
            path,
            language=settings.language,
            text=split_names(settings.text),
            everything=settings.split == "legacy",
        )
    given, identity = tokenizers.choose(settings.tokenizer, settings.vocabulary)
    parts = {name: splits.split(texts, settings.split) for name, texts in documents.items()}
    key = canonical.digest(
        {
            "task": "languages",
            "version": _VERSION,
            "documents": {name: fingerprint(*texts).hex() for name, texts in documents.items()},
            "tokenizer": identity,
            "split": {name: part.rule for name, part in parts.items()},
        }
    )
    entry = cache.get(key)
    if entry is not None:
        return key, entry
    tokenizer = given or tokenizers.train_bpe(
        [text for part in parts.values() for text in part.documents["train"]], settings.vocabulary
    )
    arrays: dict[str, NDArray[Any]] = {}
    sizes: dict[str, list[int]] = {}
    for split in SPLITS:
        texts = [part.documents[split] for part in parts.values()]
        for name, streams in (
            (f"tokens_{split}", [tokenizer.encode_documents(documents_of) for documents_of in texts]),
            (f"bytes_{split}", [tokenizers.byte_stream(documents_of) for documents_of in texts]),
        ):
            arrays[name], sizes[name] = np.concatenate(streams), [len(stream) for stream in streams]
    info = {
        "source": source,
        "scripts": {
            name: script(b" ".join(part.documents["train"])[:_SCRIPT_BYTES].decode("utf-8", "ignore"))
            for name, part in parts.items()
        },
        "documents": {name: {split: len(part.documents[split]) for split in SPLITS} for name, part in parts.items()},
        "split_rule": " / ".join(sorted({part.rule for part in parts.values()})),
        "sizes": sizes,
    }
    return key, cache.put(key, CachedTokens(arrays, tokenizer.to_bytes(), info))


# Blocks of letters in wide use, as (first, last) code points of the Unicode charts.
_BLOCKS: dict[str, tuple[tuple[int, int], ...]] = {
    "Latin": ((0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x1E00, 0x1EFF)),
    "Greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrillic": ((0x400, 0x52F),),
    "Armenian": ((0x530, 0x58F),),
    "Hebrew": ((0x590, 0x5FF),),
    "Arabic": ((0x600, 0x6FF), (0x750, 0x77F), (0xFB50, 0xFDFF), (0xFE70, 0xFEFC)),
    "Devanagari": ((0x900, 0x97F),),
    "Bengali": ((0x980, 0x9FF),),
    "Tamil": ((0xB80, 0xBFF),),
    "Thai": ((0xE00, 0xE7F),),
    "Georgian": ((0x10A0, 0x10FF),),
    "Ethiopic": ((0x1200, 0x137F),),
    "Kana": ((0x3040, 0x30FF),),
    "Han": ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F)),
    "Hangul": ((0x1100, 0x11FF), (0xAC00, 0xD7AF)),
}
OTHER = "other"


def script(text: str) -> str:
    """The script of most letters of a text; "other" where no letter belongs to a known one.

    Japanese is "Kana" where kana outnumber Chinese characters, else "Han", because only blocks are counted.
    """
    counts: Counter[str] = Counter()
    for letter, times in Counter(text).items():
        if letter.isalpha():
            counts[_script_of(ord(letter))] += times
    del counts[OTHER]
    # Ties are broken by name, so that the result does not depend on the order of the text.
    return min(counts, key=lambda name: (-counts[name], name), default=OTHER)


def _script_of(code: int) -> str:
    for name, blocks in _BLOCKS.items():
        if any(first <= code <= last for first, last in blocks):
            return name
    return OTHER
