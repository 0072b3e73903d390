"""Under which words results of paths are recorded, and which of them decides. Nothing here loads numpy or torch.

Source: docs/spec/munet.md#kept-weights.
"""

from __future__ import annotations

from collections.abc import Iterable

from evodevo.storage.base import EvaluationRow

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


def deciding(results: Iterable[EvaluationRow]) -> EvaluationRow | None:
    """The result of a path's training, failed or done; one whose worker was lost does not count."""
    final = [
        result
        for result in results
        if result.fidelity == CHILD
        and (result.state == "done" or (result.state == "failed" and result.reason != "lost"))
    ]
    return final[-1] if final else None


def value_of(result: EvaluationRow | None, score: str) -> float | None:
    """A score of an evaluation, where there is one."""
    return None if result is None or score not in result.scores else result.scores[score].value
