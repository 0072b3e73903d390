"""The task ``text_labels``: classes of texts, the user's or generated ones about topics.

Source: paper 6.7; docs/spec/h_model.md#experiments.

A file may have several columns of texts (a context and a question): the text of a sample is theirs, a line each, and
samples whose first column is equal stay in one split.

Shapes: B samples, L tokens at most, the first ones of each text.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from evodevo import canonical
from evodevo.errors import DataError, quoted_list
from evodevo.settings import NEW, Settings
from evodevo.tasks.base import SPLITS, OutputSpec, SampleTask, Split
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.sample_splits import assign, fingerprint
from evodevo.tasks.text import labelled_text, tokenizers
from evodevo.tasks.text.column_names import split_names
from evodevo.tasks.text.labelled_text import LabelledTexts
from evodevo.tasks.text.token_cache import CachedTokens, TokenCache, recall
from evodevo.tasks.text.topics import TopicSettings, generate

_VERSION = 1
_SHOWN_CHARACTERS = 400
MOST_GROUPS = 64
_MOST_CUT_OF_AUTOMATIC, _LONGEST_AUTOMATIC, _LENGTH_STEP = 0.02, 512, 8


class TextLabelsSettings(Settings):
    """Source of the texts, tokenizer, and length."""

    data: str | None = Field(
        default=None, description="a .jsonl, .csv or .parquet file, or a folder; none is generated topics"
    )
    validation: str | None = Field(default=None, description="path of the validation split, if separate")
    test: str | None = Field(default=None, description="path of the test split, if separate")
    text: str = Field(
        default="text", min_length=1, description="column of the texts, or several with commas between them"
    )
    label: str = Field(default="label", min_length=1, description="column of the labels")
    group: str | None = Field(
        default=None,
        min_length=1,
        exclude_if=lambda value: value is None,
        description="column by whose values accuracy is reported too, at most 64 of them",
    )
    everything: bool = Field(
        default=True,
        exclude_if=bool,
        json_schema_extra={NEW: False},
        description="whether README and licence files in folders of classes are texts too",
    )
    tokenizer: str = Field(default="bpe", description="'bpe' (trained on the texts), 'bytes', or a tokenizer.json")
    vocabulary: int = Field(default=4096, gt=256, le=65_536, description="number of token ids of 'bpe'")
    length: int | None = Field(
        default=64,
        ge=1,
        le=65_536,
        json_schema_extra={NEW: None},
        description="largest number of tokens of a text; none is one that cuts at most 2 % of the texts, up to 512",
    )
    most_cut: float = Field(
        default=1.0,
        ge=0,
        le=1,
        exclude_if=lambda value: value == 1.0,
        json_schema_extra={NEW: 0.2},
        description="largest share of training texts that are cut, 0 to 1; data with more are refused",
    )
    topics: TopicSettings = TopicSettings()

    @model_validator(mode="after")
    def _splits_need_data(self) -> Self:
        if self.data is None and (self.validation is not None or self.test is not None):
            raise ValueError("validation and test go with data, which is not given")
        if self.data is None and self.group is not None:
            raise ValueError("group is a column of data, which is not given")
        return self


class TextLabelsTask(SampleTask):
    """One class per text. Training texts that are in a held-out split too are left out.

    Args:
        settings: Settings of the task.
        key: 64 hexadecimal digits over the texts, the tokenizer and the split; equal in every process.
        entry: Tokens, texts and labels of each split, the tokenizer, and the description of the source.

    Raises:
        DataError: The length cuts more training texts than the settings allow.
    """

    name: ClassVar[str] = "text_labels"
    settings_class: ClassVar[type[Settings]] = TextLabelsSettings

    def __init__(self, settings: TextLabelsSettings, key: str, entry: CachedTokens) -> None:
        self.settings = settings
        self.key = key
        self.tokenizer = tokenizers.from_bytes(entry.tokenizer)
        lengths = entry.arrays["tokens_each_train"]
        self.length = fitting_length(lengths) if settings.length is None else settings.length
        _check_cut(lengths, self.length, settings)
        self.digest = canonical.digest({"task": self.name, "key": key, "length": self.length})
        self.classes: tuple[str, ...] = tuple(entry.info["classes"])
        self.inputs = (InputSpec("text", "tokens", length=self.length, vocabulary=self.tokenizer.vocabulary),)
        self.outputs = (OutputSpec("label", "class", len(self.classes), names=self.classes),)
        self.group_names = {name: tuple(values) for name, values in entry.info.get("groups", {}).items()}
        self._info = entry.info
        self._arrays = entry.arrays
        self._starts = {split: _starts(entry.arrays[f"tokens_each_{split}"]) for split in SPLITS}

    @classmethod
    def open(
        cls, settings: TextLabelsSettings, cache_folder: Path | None = None, key: str | None = None
    ) -> TextLabelsTask:
        return cls(settings, *recall(settings, cache_folder, key, _prepare))

    def count(self, split: Split) -> int:
        return len(self._arrays[f"labels_{split}"])

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        columns = np.arange(self.length)
        lengths = self._arrays[f"tokens_each_{split}"][indices]
        mask = columns < lengths[:, None]
        positions = np.where(mask, self._starts[split][indices][:, None] + columns, 0)
        tokens = np.where(mask, self._arrays[f"tokens_{split}"][positions].astype(np.int64), 0)
        return {"text": tokens, "text/mask": mask, "label/target": self._labels(split)[indices]}

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {name: self._arrays[f"groups_{split}"][indices].astype(np.int64) for name in self.group_names}

    def show(self, split: Split, index: int) -> dict[str, str]:
        text = self.texts(split)[index].decode("utf-8")
        shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} …"
        return {"text": shown, "label": self.classes[self._labels(split)[index]]}

    def encode(self, name: str, text: str) -> NDArray[np.int64]:
        return self.tokenizer.encode(text)[: self.length]

    def baselines(self, split: Split) -> dict[str, float]:
        """Accuracy of the commonest training class, and of logistic regression on tf-idf of whole texts."""
        common = np.bincount(self._labels("train"), minlength=len(self.classes)).argmax()
        labels = self._labels(split)
        return {
            "majority": float((labels == common).mean()),
            "tf-idf": float((self._word_model.predict(self.texts(split)) == labels).mean()),
        }

    def describe(self) -> dict[str, Any]:
        lengths = self._arrays["tokens_each_train"]
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "length": self.length,
            "tokenizer": self.tokenizer.describe(),
            "samples": {split: self.count(split) for split in SPLITS},
            "class_counts": {
                split: {name: int((self._labels(split) == index).sum()) for index, name in enumerate(self.classes)}
                for split in SPLITS
            },
            "tokens_per_text": float(lengths.mean()),
            "share_cut": float((lengths > self.length).mean()),
            **self._info,
        }

    @cached_property
    def _word_model(self) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        # scikit-learn's default pattern ignores words of one letter, and a corpus may have no others.
        words = TfidfVectorizer(sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
        return make_pipeline(words, LogisticRegression(C=10.0, max_iter=1000)).fit(
            self.texts("train"), self._labels("train")
        )

    def _labels(self, split: Split) -> NDArray[np.int64]:
        return self._arrays[f"labels_{split}"].astype(np.int64)

    def texts(self, split: Split) -> list[bytes]:
        """All texts of a split, uncut, as UTF-8."""
        whole = self._arrays[f"bytes_{split}"].tobytes()
        ends = np.cumsum(self._arrays[f"bytes_each_{split}"], dtype=np.int64).tolist()
        return [whole[start:end] for start, end in pairwise([0, *ends])]


def _prepare(settings: TextLabelsSettings, cache: TokenCache) -> tuple[str, CachedTokens]:
    """Read the texts, and look their tokens up in the cache by content, or make them."""
    source = _generated(settings.topics) if settings.data is None else _read(settings)
    given, identity = tokenizers.choose(settings.tokenizer, settings.vocabulary)
    classes = sorted(set(source.labels))
    if len(classes) < 2:
        what = f"only the class {classes[0]!r}" if classes else "no text"
        raise DataError(
            f"{source.source} holds {what} ({source.empty:,} empty texts were left out); at least two classes are "
            f"needed. Is {settings.label!r} the column of labels?"
        )
    number = {name: index for index, name in enumerate(classes)}
    labels = np.asarray([number[name] for name in source.labels], np.uint32)
    units: dict[str, Any] = {}
    if source.first:
        units = {"units": source.first, "unit_name": split_names(settings.text)[0]}
    parts = assign(source.texts, source.pools, classes=labels.tolist(), **units)
    content = fingerprint(
        *source.texts, *(value.encode() for pair in zip(source.labels, source.pools, strict=True) for value in pair)
    )
    identities = {
        "task": "text_labels",
        "version": _VERSION,
        "content": content.hex(),
        "tokenizer": identity,
        "split": parts.rule,
        "lengths": {split: len(parts.places[split]) for split in SPLITS},
    }
    if source.first:
        identities["units"] = fingerprint(*source.first).hex()
    if settings.group is not None:
        identities["groups"] = fingerprint(*(value.encode() for value in (settings.group, *source.groups))).hex()
    key = canonical.digest(identities)
    entry = cache.get(key)
    if entry is not None:
        return key, entry
    texts = {split: [source.texts[index] for index in parts.places[split].tolist()] for split in SPLITS}
    _check_classes(labels, parts.places, classes)
    tokenizer = given or tokenizers.train_bpe(texts["train"], settings.vocabulary)
    arrays: dict[str, NDArray[Any]] = {}
    for split in SPLITS:
        encoded = [tokenizer.encode(text.decode("utf-8")) for text in texts[split]]
        arrays[f"tokens_{split}"] = np.concatenate(encoded).astype(np.min_scalar_type(tokenizer.vocabulary - 1))
        arrays[f"tokens_each_{split}"] = np.asarray([len(tokens) for tokens in encoded], np.uint32)
        arrays[f"bytes_{split}"] = np.frombuffer(b"".join(texts[split]), np.uint8)
        arrays[f"bytes_each_{split}"] = np.asarray([len(text) for text in texts[split]], np.uint32)
        arrays[f"labels_{split}"] = labels[parts.places[split]]
    info: dict[str, Any] = {
        "source": source.source,
        "classes": classes,
        "empty_texts": source.empty,
        "texts_dropped": parts.dropped,
        "texts_repeated": parts.repeated,
        "split_rule": parts.rule,
    }
    if settings.group is not None:
        names = _group_values(settings.group, source)
        info["groups"] = {settings.group: names}
        numbers = np.asarray([names.index(value) for value in source.groups], np.uint32)
        arrays |= {f"groups_{split}": numbers[parts.places[split]] for split in SPLITS}
    return key, cache.put(key, CachedTokens(arrays, tokenizer.to_bytes(), info))


def fitting_length(lengths: NDArray[Any]) -> int:
    """The least multiple of 8 that cuts at most 2 % of texts, 512 at most.

    Args:
        lengths: Tokens of each text, shape (texts,).
    """
    enough = int(np.quantile(lengths, 1 - _MOST_CUT_OF_AUTOMATIC, method="higher"))
    return min(_LONGEST_AUTOMATIC, -(-enough // _LENGTH_STEP) * _LENGTH_STEP)


def _check_cut(lengths: NDArray[Any], length: int, settings: TextLabelsSettings) -> None:
    share = float((lengths > length).mean())
    if share > settings.most_cut:
        raise DataError(
            f"{share:.0%} of the training texts have more than {length:,} tokens and would be cut, at most "
            f"{settings.most_cut:.0%} may; half of them have at most {int(np.median(lengths)):,}, the longest has "
            f"{int(lengths.max()):,}. Set a greater length, or most_cut=1 to read their beginnings."
        )


def _group_values(column: str, source: LabelledTexts) -> list[str]:
    """The distinct values of the groups: numbers by size, else in alphabetical order."""
    names = sorted(set(source.groups))
    if len(names) > MOST_GROUPS:
        raise DataError(f"{column!r} has {len(names):,} values; a table by group has at most {MOST_GROUPS}.")
    try:
        return sorted(names, key=float)
    except ValueError:
        return names


def _check_classes(labels: NDArray[Any], indices: dict[Split, NDArray[np.int64]], classes: list[str]) -> None:
    taught = set(labels[indices["train"]].tolist())
    for split in SPLITS:
        unseen = sorted(set(labels[indices[split]].tolist()) - taught)
        if unseen:
            raise DataError(
                f"the {split} split has classes that no training text has: "
                f"{quoted_list(repr(classes[index]) for index in unseen[:8])}. Add training texts of these classes, or "
                "leave them out."
            )


def _read(settings: TextLabelsSettings) -> LabelledTexts:
    def place(path: str | None) -> Path | None:
        return None if path is None else Path(path).expanduser()

    data = place(settings.data)
    assert data is not None
    fields = labelled_text.TextFields(
        split_names(settings.text), settings.label, settings.group, everything=settings.everything
    )
    return labelled_text.read(data, fields, validation=place(settings.validation), test=place(settings.test))


def _generated(settings: TopicSettings) -> LabelledTexts:
    pools, labels, texts = zip(*generate(settings), strict=True)
    encoded = tuple(text.encode() for text in texts)
    return LabelledTexts(f"{settings.classes} generated topics", encoded, labels, pools, empty=0)


def _starts(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Index of the first token of each text. Shape (texts,)."""
    ends = np.cumsum(lengths, dtype=np.int64)
    starts: NDArray[np.int64] = ends - lengths
    return starts
