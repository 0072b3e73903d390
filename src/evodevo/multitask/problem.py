"""One child of a cycle as a problem for the dispatcher, and the reading of its evaluator's answer.

The answer is data from outside: it is checked against the request, and a wrong one fails that child alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.recorded import CHILD, QUALITY
from evodevo.multitask.search.score import kept_evaluation
from evodevo.multitask.settings import WorkSettings
from evodevo.search.problem import Outcome, Problem, read_answer
from evodevo.storage.blobs import checked

EVALS, IMPROVED, SIZES = "evals", "improved", "sizes"
"""Facts of an answer: validation accuracies in the order of training (None where one is not finite), whether trained
components are kept, and role -> number of parameters of each. The blobs of the answer are the components by role."""


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
        outcome = read_answer(payload)
        if outcome.reason is not None:
            return outcome
        facts = dict(outcome.extra)
        evals, improved = [_accuracy(value) for value in facts[EVALS]], bool(facts[IMPROVED])
        best = max((value for value in evals if value is not None), default=None)
        if outcome.scores.get(QUALITY) != best:
            raise UsageError(f"it says that the best of {evals} is {outcome.scores.get(QUALITY)}.")
        if improved != (self._always or kept_evaluation(evals, self._bar) is not None):
            raise UsageError(f"it says improved = {improved}; its accuracies {evals} and the bar {self._bar} do not.")
        blobs = {role: checked(digest) for role, digest in outcome.blobs.items()}
        sizes = facts.pop(SIZES, {})
        if improved and not (sizes == self._trained and blobs.keys() == sizes.keys()):
            expected = dict(sorted(self._trained.items()))
            raise UsageError(f"it trained {sizes}, with blobs of {sorted(blobs)}; asked for were {expected}.")
        return replace(outcome, extra={**facts, EVALS: evals, IMPROVED: improved}, blobs=blobs if improved else {})


def _accuracy(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{EVALS} holds {value!r}, no number.")
    return float(value) if math.isfinite(value) else None
