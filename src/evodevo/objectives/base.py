"""The table of objectives and their interface: a number with a name, a unit and a direction, measured on a subject."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from evodevo.errors import UsageError
from evodevo.objectives.answered import Answered, AnswerScore
from evodevo.registry import Registry, table

Direction = Literal["minimise", "maximise"]
Needs = Literal["genome", "model", "trained"]
Judged = Literal["language_model", "network"]

OBJECTIVES: Registry[Objective] = table("objective", "evodevo.objectives")
_ROWS = {
    "quality": "evodevo.objectives.quality:QUALITY",
    "perplexity": "evodevo.objectives.quality:PERPLEXITY",
    "parameters": "evodevo.objectives.parameters:PARAMETERS",
    "cache": "evodevo.objectives.cache:CACHE",
    "flops": "evodevo.objectives.flops:FLOPS",
    "prefill_latency": "evodevo.objectives.latency:PREFILL_LATENCY",
    "decode_latency": "evodevo.objectives.latency:DECODE_LATENCY",
    "error": "evodevo.objectives.answers:ERROR",
    "accuracy": "evodevo.objectives.answers:ACCURACY",
    "loss": "evodevo.objectives.answers:LOSS",
    "executed_flops": "evodevo.objectives.answers:EXECUTED_FLOPS",
    "network_parameters": "evodevo.objectives.answers:NETWORK_PARAMETERS",
    "auc": "evodevo.objectives.answers:AUC",
    "f1": "evodevo.objectives.answers:F1",
    "log_loss": "evodevo.objectives.log_loss:LOG_LOSS",
    "calibration_error": "evodevo.objectives.calibration_error:CALIBRATION_ERROR",
}
for _name, _row in _ROWS.items():
    OBJECTIVES.add(_name, _row)


@dataclass(frozen=True)
class Subject:
    """The architecture, model and measurements that an objective reads.

    Attributes:
        space: Space of the genome; its ``cost`` needs no model.
        genome: Genome of the architecture.
        length: Number of tokens in the context for cache, FLOPs and latency.
        vocabulary: Number of tokens in the vocabulary; embedding and head count in FLOPs only.
        convention: Convention of the cost model.
        model: Built network; None where no objective needs it.
        held_out: Measurements of the trained network on validation data; None where no objective needs them.
        seed: Seed of objectives that train a network of their own.
        recall: Settings of the objectives of recall; None = their defaults.
    """

    space: Any
    genome: Any
    length: int
    vocabulary: int
    convention: Literal["star", "actual"] = "actual"
    model: Any = None
    held_out: Any = None
    seed: int = 0
    recall: Any = None


@dataclass(frozen=True)
class Measurement:
    """A value (NaN where there is none) and, for timed objectives, the spread between repetitions in the same unit."""

    value: float
    spread: float | None = None


@dataclass(frozen=True)
class Objective:
    """One objective.

    Attributes:
        name: Name in tables, settings and files.
        unit: Unit of the value.
        direction: Whether smaller or larger values are better.
        needs: Input of the measurement: the genome, the built model, or the trained model.
        summary: Description in one line.
        measure: Function that measures a subject.
        timed: Whether a clock measures it, so that equal runs give unequal values.
        judges: Kind of model that it applies to: a language model over a backbone genome, or a network of separate
            samples.
        metric: Metric of classes and labels whose mean over outputs it is; empty for other objectives.
        score: Function of the answers to one output that gives this metric, where the objective defines it itself.
    """

    name: str
    unit: str
    direction: Direction
    needs: Needs
    summary: str
    measure: Callable[[Subject], Measurement]
    timed: bool = False
    judges: Judged = "language_model"
    metric: str = ""
    score: Callable[[Answered], AnswerScore] | None = None

    def to_minimise(self, value: float) -> float:
        """The value as a number to minimise; applied twice, the value itself."""
        return value if self.direction == "minimise" else -value


def on_answers(
    *, name: str, unit: str, direction: Direction, summary: str, score: Callable[[Answered], AnswerScore]
) -> Objective:
    """An objective on the answers to validation samples: the mean of its score over outputs of classes and labels.

    One such row serves every driver. Each measurement of a network holds the score as a metric under the objective's
    name, so that trainings are compared by it and searches select by it; a multitask agent whose training settings
    name it as the objective selects its children by it where it is a share.
    """
    return Objective(
        name=name,
        unit=unit,
        direction=direction,
        needs="trained",
        summary=summary,
        measure=lambda subject: number(subject.held_out.metric(name)),
        judges="network",
        metric=name,
        score=score,
    )


def answer_objectives() -> list[Objective]:
    """The objectives that are a metric of answers: those of the library in the order of the table, then others."""
    names = [*_ROWS, *(name for name in OBJECTIVES if name not in _ROWS)]
    return [objective for objective in map(OBJECTIVES.get, names) if objective.metric]


def parse_objective(text: str) -> Objective:
    """The objective of a text: ``name``, ``name:minimise`` or ``name:maximise``.

    Raises:
        UsageError: The name or the direction is unknown.
    """
    name, colon, direction = text.partition(":")
    objective = OBJECTIVES.get(name)
    if not colon:
        return objective
    if direction not in get_args(Direction):
        raise UsageError(f"objective {text!r}: the direction is {direction!r}; it must be minimise or maximise.")
    return replace(objective, direction=cast(Direction, direction))


def parse_objectives(texts: Sequence[str], judged: Judged = "language_model") -> tuple[Objective, ...]:
    """The objectives of several texts, all for one kind of model.

    Raises:
        UsageError: There is none, one is unknown or given twice, or one does not apply to this kind of model.
    """
    objectives = tuple(parse_objective(text) for text in texts)
    names = [objective.name for objective in objectives]
    if not names:
        example = "quality" if judged == "language_model" else "error"
        raise UsageError(f"at least one objective is wanted, for example {example}.")
    if len(set(names)) != len(names):
        raise UsageError(f"an objective occurs twice: {', '.join(names)}.")
    wrong = [objective.name for objective in objectives if objective.judges != judged]
    if wrong:
        fitting = [name for name in OBJECTIVES.names() if OBJECTIVES.get(name).judges == judged]
        what = judged.replace("_", " ")
        raise UsageError(f"{', '.join(wrong)} cannot be asked of a {what}; what can: {', '.join(fitting)}.")
    return objectives


def number(value: float | None) -> Measurement:
    """A measurement of a number that may be missing; NaN for None."""
    return Measurement(math.nan if value is None else float(value))
