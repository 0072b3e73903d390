"""Results of a language model on a set of questions and on texts: values without torch, and their JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.experiments.correct_bits import pack, unpack
from evodevo.randomness import generator
from evodevo.tasks.questions.accuracy import Accuracy
from evodevo.tasks.questions.question import QuestionSet

_DRAWS = 2000
_MOST_DOCUMENTS = 4096
"""Documents up to which the numbers of each are kept for comparisons in pairs."""


@dataclass(frozen=True)
class QuestionsResult:
    """Answers to a set of questions.

    Attributes:
        name: Name of the set.
        digest: Digest of the questions that were asked.
        chance: Accuracy of a uniform draw among the options.
        main: Name of the metric that tables show: ``acc_norm`` for HellaSwag and ARC-Challenge, else ``acc``.
        metrics: Metric -> accuracy.
        groups: Group -> accuracy in the main metric.
        credits: Metric -> credit of each question, 0 to 1.
        perplexity: Perplexity per token of continuations; None for choices.
        shortened: Number of questions whose context lost its beginning.
    """

    name: str
    digest: str
    chance: float
    main: str
    metrics: Mapping[str, Accuracy]
    groups: Mapping[str, Accuracy] = field(default_factory=dict)
    credits: Mapping[str, NDArray[np.float64]] = field(default_factory=dict, repr=False, compare=False)
    perplexity: float | None = None
    shortened: int = 0

    @classmethod
    def of(
        cls,
        asked: QuestionSet,
        credits: Mapping[str, NDArray[np.float64]],
        perplexity: float | None = None,
        shortened: int = 0,
    ) -> QuestionsResult:
        """The result of the credits of a set's questions; the other arguments are fields."""
        main = asked.main_metric
        return cls(
            name=asked.name,
            digest=asked.digest,
            chance=asked.chance,
            main=main,
            metrics={name: Accuracy.of(values) for name, values in credits.items()},
            groups={name: Accuracy.of(credits[main][places]) for name, places in asked.groups().items()},
            credits=credits,
            perplexity=perplexity,
            shortened=shortened,
        )

    @property
    def score(self) -> Accuracy:
        """The accuracy in the main metric."""
        return self.metrics[self.main]

    def to_json(self) -> dict[str, Any]:
        """JSON, from which ``from_json`` makes it again."""
        return {
            "task": self.name,
            "digest": self.digest,
            "chance": self.chance,
            "main": self.main,
            "metrics": {name: metric.to_json() for name, metric in self.metrics.items()},
            "groups": {name: metric.to_json() for name, metric in self.groups.items()},
            "credits": {name: pack(values) for name, values in self.credits.items()},
            "perplexity": self.perplexity,
            "shortened": self.shortened,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> QuestionsResult:
        """The result that ``to_json`` was called on; credits keep 1/254.

        Raises:
            LookupError, TypeError, UnsafeFileError: No such values.
        """
        return cls(
            values["task"],
            values["digest"],
            values["chance"],
            values["main"],
            {name: Accuracy(**metric) for name, metric in values["metrics"].items()},
            {name: Accuracy(**metric) for name, metric in values["groups"].items()},
            {name: unpack(packed) for name, packed in values["credits"].items()},
            values["perplexity"],
            values["shortened"],
        )


@dataclass(frozen=True)
class TextResult:
    """Prediction of texts.

    Attributes:
        name: Name in tables.
        digest: Digest of the documents.
        bits_per_byte: Bits per byte over all documents.
        low, high: 95 % interval by a bootstrap over documents; None for a single one.
        perplexity: Perplexity per token.
        documents: Number of documents.
        tokens: Number of predicted tokens.
        bytes: Number of bytes of the documents.
        lossless: Whether the tokenizer restores the text.
        each: Nats and bytes of each document, (documents, 2); empty where there are more than 4,096.
    """

    name: str
    digest: str
    bits_per_byte: float
    low: float | None
    high: float | None
    perplexity: float
    documents: int
    tokens: int
    bytes: int
    lossless: bool = True
    each: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)), repr=False, compare=False)

    @classmethod
    def of(
        cls, name: str, digest: str, perplexity: float, tokens: int, each: NDArray[np.float64], lossless: bool
    ) -> TextResult:
        """The result of (documents, 2) nats and bytes."""
        interval = ratio_interval(each[:, 0] / math.log(2), each[:, 1])
        low, high = interval if interval is not None else (None, None)
        bits = float(each[:, 0].sum() / math.log(2) / each[:, 1].sum())
        kept = each if len(each) <= _MOST_DOCUMENTS else np.zeros((0, 2))
        return cls(name, digest, bits, low, high, perplexity, len(each), tokens, int(each[:, 1].sum()), lossless, kept)

    def to_json(self) -> dict[str, Any]:
        """JSON, from which ``from_json`` makes it again."""
        names = ("digest", "bits_per_byte", "low", "high", "perplexity", "documents", "tokens", "bytes", "lossless")
        return {"text": self.name, **{name: getattr(self, name) for name in names}, "each": self.each.tolist()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TextResult:
        """The result that ``to_json`` was called on.

        Raises:
            LookupError, TypeError, ValueError: No such values.
        """
        each = np.asarray(values["each"], dtype=np.float64).reshape(-1, 2)
        rest = {name: value for name, value in values.items() if name not in ("text", "each")}
        return cls(name=values["text"], each=each, **rest)


Result = QuestionsResult | TextResult


def result_of(values: Mapping[str, Any]) -> Result:
    """The result of its JSON."""
    return TextResult.from_json(values) if "text" in values else QuestionsResult.from_json(values)


@dataclass(frozen=True)
class Gap:
    """The difference of two models on the same questions or texts: the first one's value minus the other's.

    Attributes:
        value: Difference of the two values.
        low, high: 95 % interval by a bootstrap over questions or documents.
    """

    value: float
    low: float
    high: float

    @property
    def decided(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0

    def to_json(self) -> dict[str, float]:
        """The fields by name."""
        return {"value": self.value, "low": self.low, "high": self.high}


def gap(ours: Result, theirs: Result) -> Gap | None:
    """The paired difference of two results on the same data; None where there is nothing to pair."""
    if ours.digest != theirs.digest:
        return None
    if isinstance(ours, TextResult) and isinstance(theirs, TextResult):
        if len(ours.each) != len(theirs.each) or not len(ours.each):
            return None
        interval = ratio_interval((ours.each[:, 0] - theirs.each[:, 0]) / math.log(2), ours.each[:, 1])
        return None if interval is None else Gap(ours.bits_per_byte - theirs.bits_per_byte, *interval)
    if isinstance(ours, QuestionsResult) and isinstance(theirs, QuestionsResult):
        if ours.main not in ours.credits or ours.main not in theirs.credits:
            return None
        differences = ours.credits[ours.main] - theirs.credits[ours.main]
        interval = ratio_interval(differences, np.ones(len(differences)))
        # Exact means, since credits of the store are rounded.
        return None if interval is None else Gap(ours.score.value - theirs.metrics[ours.main].value, *interval)
    return None


def ratio_interval(values: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[float, float] | None:
    """95 % interval of sum(values) / sum(weights), by a bootstrap over their pairs (Efron 1979); None for fewer than 2.

    The same at every call.
    """
    count = len(values)
    if count < 2 or not np.isfinite(values).all():
        return None
    # Pairs that are alike are drawn together: of right and wrong answers there are few kinds.
    kinds, counts = np.unique(np.column_stack([values, weights]), axis=0, return_counts=True)
    rng = generator(0, "bootstrap of documents")
    ratios = []
    block = max(1, (1 << 22) // len(kinds))
    for start in range(0, _DRAWS, block):
        drawn = rng.multinomial(count, counts / count, size=min(block, _DRAWS - start))
        sums = drawn @ kinds
        ratios.append(sums[:, 0] / sums[:, 1])
    low, high = np.quantile(np.concatenate(ratios), [0.025, 0.975])
    return float(low), float(high)
