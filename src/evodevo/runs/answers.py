"""Answers of a trained network to a user's own samples; no torch here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from evodevo.errors import UsageError

LIKELY = 0.5


@dataclass(frozen=True)
class OutputPrediction:
    """The answer of one output to one sample.

    Attributes:
        kind: class, or labels.
        probabilities: class or label -> its probability, in the task's order; those of classes sum to 1.
    """

    kind: str
    probabilities: Mapping[str, float]

    @property
    def chosen(self) -> tuple[str, ...]:
        """The likeliest class, or all labels with a probability above one half."""
        if self.kind == "class":
            return (max(self.probabilities, key=lambda name: self.probabilities[name]),)
        return tuple(name for name, probability in self.probabilities.items() if probability > LIKELY)


@dataclass(frozen=True)
class Prediction:
    """All answers to one sample.

    Attributes:
        answers: answer of each output.
        absent: inputs that the sample lacks; the network's learned tokens replace them.
        weights: for a zoo, module -> its router weight, 0 to 1.
        executed: for a zoo, modules that were run.
    """

    answers: Mapping[str, OutputPrediction]
    absent: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    executed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields by name, as ``evodevo predict --json`` gives them."""
        return {
            "answers": {
                name: {"kind": answer.kind, "chosen": list(answer.chosen), "probabilities": dict(answer.probabilities)}
                for name, answer in self.answers.items()
            },
            "absent": list(self.absent),
            "modules": {
                name: {"weight": weight, "executed": name in self.executed} for name, weight in self.weights.items()
            },
        }


class Predicts(Protocol):
    """The answers of one individual; see ``runs.predict.Predictor``."""

    def sample(self, values: Mapping[str, str]) -> Prediction:
        """The answers to one sample."""

    def rows(self, path: str | Path) -> Iterator[Prediction]:
        """The answers to all rows of a table."""


def continues_texts(individual: str) -> UsageError:
    """The error of asking a network for classes that has none; ``individual`` is its id."""
    return UsageError(
        f"{individual} continues texts; it has no classes to choose from. Let it write: "
        f"evodevo generate {individual} --prompt …"
    )
