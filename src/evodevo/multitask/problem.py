"""One child of a cycle as a problem for the dispatcher, and the reading of its evaluator's answer.

The answer is data from outside: it is checked against what was asked, and a wrong one fails that child alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.recorded import CHILD, QUALITY
from evodevo.multitask.search.score import kept_evaluation
from evodevo.multitask.settings import WorkSettings
from evodevo.search.problem import Outcome, Problem
from evodevo.storage.blobs import checked

EVALS, IMPROVED = "evals", "improved"
"""Facts of an outcome: validation accuracies in the order of training (None where one is not finite), and whether the
trained components are kept."""


class ChildProblem(Problem):
    """The training and measurement of one child; its genome is that of its path, as plain data.

    Args:
        entry: Name of the evaluator.
        request: Input of the evaluator beside path and seed, plain data.
        trained: Role of each component to train -> number of its parameters.
        bar: Validation accuracy that the child must exceed, 0 to 1; None = any.
        always: Whether the components are kept whatever the accuracy.
        work: Limits of the evaluation.
    """

    goals = ()
    """Empty, because a root that answers no task has no accuracy; ``read`` checks what there is."""
    fidelity = CHILD

    def __init__(
        self,
        entry: str,
        request: Mapping[str, Any],
        trained: Mapping[str, int],
        bar: float | None,
        always: bool,
        work: WorkSettings,
    ) -> None:
        self.entry = entry
        self.seconds, self.memory_bytes = work.seconds, work.memory_bytes
        self._request, self._trained, self._bar, self._always = request, trained, bar, always

    def payload(self, genome: Any, seed: int, resume: str | None = None) -> bytes:
        more = {} if resume is None else {"resume": resume}
        return canonical.dumps({"path": genome, "seed": seed, "bar": self._bar, **self._request, **more}).encode()

    def read(self, payload: bytes) -> Outcome:
        """The outcome: ``quality`` is the best accuracy, the blobs are the trained components by role.

        Raises:
            UsageError: The answer contradicts the request or itself.
        """
        answer = canonical.loads(payload, what="the answer of an evaluator", max_bytes=48 * 2**20)
        if not isinstance(answer, dict):
            raise UsageError("an evaluator of paths answers with a JSON object.")
        seconds = _number(answer.pop("seconds", 0.0), "seconds") or 0.0
        reason, detail = answer.pop("reason", None), str(answer.pop("detail", ""))
        accuracies, improved = answer.pop(EVALS, []), bool(answer.pop(IMPROVED, False))
        quality, components = answer.pop(QUALITY, ...), answer.pop("components", None) or {}
        if reason is not None:
            return Outcome(reason=str(reason), detail=detail, extra=answer, seconds=seconds)
        evals = [_number(value, EVALS) for value in accuracies]
        best = max((value for value in evals if value is not None), default=None)
        if quality is not ... and _number(quality, QUALITY) != best:
            raise UsageError(f"it says that the best of {evals} is {quality}.")
        if improved != (self._always or kept_evaluation(evals, self._bar) is not None):
            raise UsageError(f"it says improved = {improved}; its accuracies {evals} and the bar {self._bar} do not.")
        blobs = {role: checked(part["digest"]) for role, part in components.items()}
        sizes = {role: int(part["parameters"]) for role, part in sorted(components.items())}
        if improved and sizes != dict(self._trained):
            raise UsageError(f"it trained {sizes}; asked for were {dict(sorted(self._trained.items()))}.")
        return Outcome(
            scores={} if best is None else {QUALITY: best},
            extra={**answer, EVALS: evals, IMPROVED: improved},
            blobs=blobs if improved else {},
            seconds=seconds,
        )


def _number(value: Any, what: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{what} holds {value!r}, no number.")
    return float(value) if math.isfinite(value) else None
