"""The task ``proofs``: whether a statement follows from facts and rules.

Source: paper 6.3 and 6.4; docs/spec/h_model.md#experiments.

In a closed world a statement is true where it has a proof and false where it has none; its negation the other way
round. In an open world negations are stated and proven like other statements, and a statement without a proof of itself
or of its negation is unknown. The depth of a question is the number of rules that its shortest proof applies one after
the other or, where the answer is the absence of a proof, the depth of the search that shows it.

Shapes: B samples, L tokens of the longest sample; a token is a word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.settings import Settings
from evodevo.tasks.base import NO_TARGET, SPLITS, Batch, InputSpec, OutputSpec, SampleTask, Split, check_key
from evodevo.tasks.generated import RULE
from evodevo.tasks.reasoning import theory_text
from evodevo.tasks.reasoning.proof_questions import NOT_ASKED
from evodevo.tasks.reasoning.proof_samples import ProofsSettings, draw

_VERSION = 2
_BASELINE_SAMPLES = 5_000


class ProofsTask(SampleTask):
    """Questions about theories, with equally frequent answers at each depth.

    No theory is in two splits, or twice in one: the split is a function of its meaning, whatever order and wording its
    sentences have. Theories do not depend on the question: each has a chain of rules as deep as the split's deepest
    question, which works for one entity and fails at its first fact for another.

    In the form ``language``, the output ``answer`` is of kind tokens, its targets are the next tokens, and
    ``answer/position`` (B,) is the position at which the answer is predicted: an answer is right where
    ``logits[b, position[b]]`` is largest at ``target[b, position[b]]``, over the whole vocabulary or, as in the form
    ``answer``, over ``answer_tokens``. Where a training theory has several ``questions``, they follow each other in the
    text; the target at each question mark is its answer, which is in no later position of the text.

    Args:
        settings: Settings of the task.

    Raises:
        UsageError: Theories of these sizes almost never have such questions.
    """

    name: ClassVar[str] = "proofs"
    settings_class: ClassVar[type[Settings]] = ProofsSettings

    answer_tokens: tuple[int, ...]
    """Token ids of the answers' words, in the order of the group ``answer``."""

    def __init__(self, settings: ProofsSettings) -> None:
        self.settings = settings
        self.key = canonical.digest({"task": self.name, "version": _VERSION, "settings": settings.decisive()})
        self.digest = self.key
        self._samples = {split: draw(settings, split) for split in SPLITS}
        language = settings.form == "language"
        longest = max(part.tokens.shape[1] for part in self._samples.values()) - 1
        vocabulary = len(theory_text.VOCABULARY)
        self.inputs = (InputSpec("text", "tokens", length=longest, vocabulary=vocabulary),)
        self.outputs = (
            OutputSpec("answer", "tokens", vocabulary, of="text")
            if language
            else OutputSpec("answer", "class", len(settings.answers), names=settings.answers),
        )
        self.answer_tokens = tuple(theory_text.ID[word] for word in settings.answers)
        self._depths = tuple(sorted({*settings.depths_train, *settings.depths_test}))
        self.group_names = {"depth": tuple(map(str, self._depths)), "answer": settings.answers}

    @classmethod
    def open(cls, settings: ProofsSettings, cache_folder: Path | None = None, key: str | None = None) -> ProofsTask:
        task = cls(settings)
        check_key(task.key, key, "the generator of proofs")
        return task

    def count(self, split: Split) -> int:
        return self.settings.samples.of(split)

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        samples = self._samples[split]
        lengths = samples.lengths[indices] - 1  # the last word is the answer, which is no input
        columns = np.arange(self.inputs[0].length)
        mask = columns < lengths[:, None]
        tokens = np.zeros((len(indices), len(columns) + 1), np.int64)
        tokens[:, : samples.tokens.shape[1]] = samples.tokens[indices]
        batch = {"text": np.where(mask, tokens[:, :-1], 0), "text/mask": mask}
        if self.settings.form == "answer":
            return {**batch, "answer/target": samples.answers[indices]}
        counted = mask if self.settings.loss == "all" else np.zeros_like(mask)
        target = np.where(counted, tokens[:, 1:], NO_TARGET)
        replies = samples.replies[indices]
        # Both arrays have a sample's questions from left to right, so that question marks and answers pair up.
        target[batch["text"] == theory_text.ID["?"]] = np.asarray(self.answer_tokens)[replies[replies != NOT_ASKED]]
        return {**batch, "answer/target": target, "answer/position": lengths - 1}

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        samples = self._samples[split]
        return {"depth": np.searchsorted(self._depths, samples.depths[indices]), "answer": samples.answers[indices]}

    def show(self, split: Split, index: int) -> dict[str, str]:
        samples = self._samples[split]
        tokens = samples.tokens[index, : samples.lengths[index] - 1]
        return {"text": theory_text.text(tokens), "answer": self.settings.answers[samples.answers[index]]}

    def encode(self, name: str, text: str) -> NDArray[np.int64]:
        return theory_text.tokens(text)[: self.inputs[0].length]

    def decode(self, name: str, tokens: NDArray[np.int64]) -> str:
        return theory_text.text(tokens)

    def baselines(self, split: Split) -> dict[str, float]:
        """Accuracy of the commonest answer, and of logistic regression on word counts."""
        from sklearn.linear_model import LogisticRegression

        train, judged = self._samples["train"], self._samples[split]
        model = LogisticRegression(max_iter=1000).fit(
            _word_counts(train.tokens[:_BASELINE_SAMPLES], train.lengths[:_BASELINE_SAMPLES]),
            train.answers[:_BASELINE_SAMPLES],
        )
        common = np.bincount(train.answers).argmax()
        guessed = model.predict(_word_counts(judged.tokens, judged.lengths))
        return {
            "majority": float((judged.answers == common).mean()),
            "word counts": float((judged.answers == guessed).mean()),
        }

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "source": "generated",
            "world": self.settings.world,
            "form": self.settings.form,
            "samples": {split: self.count(split) for split in SPLITS},
            "depths": {split: list(self.settings.depths(split)) for split in SPLITS},
            "split_rule": f"{RULE} (of what a theory says)",
            "length": self.inputs[0].length,
            "mean_length": {split: float(self._samples[split].lengths.mean() - 1) for split in SPLITS},
            "vocabulary": len(theory_text.VOCABULARY),
        }


def _word_counts(tokens: NDArray[np.uint8], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """Number of occurrences of each word in theory and question, (N, vocabulary), without the answer, the last word."""
    read = np.where(np.arange(tokens.shape[1]) < lengths[:, None] - 1, tokens, 0)
    counts = np.zeros((len(read), len(theory_text.VOCABULARY)), np.float32)
    np.add.at(counts, (np.arange(len(read))[:, None], read), 1)
    counts[:, 0] = 0
    return counts
