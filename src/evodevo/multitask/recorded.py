"""Under which words results of paths are recorded, and which of them decides. Nothing here loads numpy or torch.

Source: docs/spec/munet.md#kept-weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evodevo.errors import StoreDamagedError
from evodevo.storage.base import EvaluationRow, IndividualRow, as_written

QUALITY, SCORE = "quality", "score"
"""Scores of an evaluation: validation accuracy, and accuracy with its discount at the cycle's view."""
KEPT, DISCARDED, FAILED = "kept", "discarded", "failed"
"""Outcomes of children."""
CHILD = "child"
"""Fidelity of the evaluation that decides about a path. Others, on test data, are recorded under other names, and
nothing that selects ever reads them."""
WITHDRAWN = "agent.withdrawn"
"""Type of the event by which an agent ends."""
TEST, ACCURACY = "test", "accuracy"
"""Fidelity of a measurement on a test split, and its score."""
CPU_SECONDS = "cpu_seconds"
"""Fact of an evaluator's answer: CPU time of the process that evaluated, in seconds."""


def deciding(results: Iterable[EvaluationRow]) -> EvaluationRow | None:
    """The result of a path's training, failed or done; one whose worker was lost does not count.

    Raises:
        StoreDamagedError: What was decided about it is not what evodevo writes.
    """
    final = [
        result
        for result in results
        if result.fidelity == CHILD
        and (result.state == "done" or (result.state == "failed" and result.reason != "lost"))
    ]
    if not final:
        return None
    result = final[-1]
    if result.fact("fate", _fate, None) is None or result.fact("evals", _accuracies, None) is None:
        raise StoreDamagedError(f"evaluation {result.id} does not say what became of it. Next: evodevo store check.")
    result.fact("answer", dict, {})
    return result


def supports_in(row: IndividualRow) -> tuple[str, ...]:
    """The agents of the paths inside a multipath one, but for its main path; empty for another path.

    Raises:
        StoreDamagedError: its genome is none that evodevo writes.
    """
    with as_written(f"individual {row.id}", "a genome"):
        return tuple(str(path["agent"]) for path in row.genome_envelope["genes"]["paths"][1:])


def weights_of(result: EvaluationRow) -> tuple[float, ...] | None:
    """The recorded mean weight of each path of a multipath model, the main one first; None where there is none.

    Raises:
        StoreDamagedError: It is something else.
    """
    return result.fact("weights", lambda value: None if value is None else tuple(map(number, value)), None)


def cpu_seconds_of(result: EvaluationRow) -> float | None:
    """CPU time of an evaluation, in seconds; None where it was not recorded.

    Raises:
        StoreDamagedError: It is something else.
    """

    def read(answer: Any) -> float | None:
        return number(answer[CPU_SECONDS]) if CPU_SECONDS in answer else None

    return result.fact("answer", read, None)


def number(value: Any) -> float:
    """A number of JSON.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{str(value)[:50]!r} is no number")
    return float(value)


def text(value: Any) -> str | None:
    """A text of JSON, or none.

    Raises:
        TypeError: It is something else.
    """
    if not (value is None or isinstance(value, str)):
        raise TypeError(f"{str(value)[:50]!r} is no text")
    return value


def _accuracies(values: Any) -> list[float | None]:
    if not isinstance(values, list):
        raise TypeError("no list of accuracies")
    return [None if value is None else number(value) for value in values]


def _fate(value: Any) -> str:
    if value not in (KEPT, DISCARDED, FAILED):
        raise ValueError(f"{str(value)[:50]!r} is no outcome")
    return str(value)


def value_of(result: EvaluationRow | None, score: str) -> float | None:
    """A score of an evaluation, where there is one."""
    return None if result is None or score not in result.scores else result.scores[score].value
