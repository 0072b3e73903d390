"""The end of a search whose evaluations fail."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.errors import EvaluationsFailedError
from evodevo.search.problem import INFEASIBLE, Outcome


def judge_failures(own: Sequence[Outcome], limit: float | None, run: str) -> None:
    """Refuse a search with too few results.

    Args:
        own: Outcomes of the search's individuals, without baselines.
        limit: Largest share of failed evaluations, 0 to 1; None = any but all.
        run: Id of the run.

    Raises:
        EvaluationsFailedError: No evaluation succeeded, or the share is above the limit.
    """
    judged = [outcome for outcome in own if outcome.reason != INFEASIBLE]
    failed = [outcome for outcome in judged if outcome.reason is not None]
    if own and len(failed) == len(judged):
        reasons = sorted({outcome.reason or "" for outcome in own if outcome.reason})
        # The last line of a traceback has the exception and its message.
        last = next((outcome.detail.splitlines()[-1] for outcome in reversed(own) if outcome.detail), "nothing")
        raise EvaluationsFailedError(
            f"none of {len(own)} evaluations succeeded ({', '.join(reasons)}). The last one says: {last[-300:]!r}. "
            f"Look at them with: evodevo show {run}"
        )
    share = len(failed) / len(judged) if judged else 0.0
    if limit is not None and share > limit:
        raise EvaluationsFailedError(
            f"{len(failed)} of {len(judged)} evaluations failed ({share:.0%}); at most {limit:.0%} are allowed "
            f"(max_failed_share). Look at them with: evodevo show {run}"
        )
