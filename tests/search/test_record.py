"""Outcomes survive the store."""

from __future__ import annotations

import math

import pytest

from evodevo.search.problem import Outcome
from evodevo.search.record import is_final, to_evaluation, to_outcome
from evodevo.storage import Store
from evodevo.testing.storages import grown


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(scores={"a": 0.1, "b": -1e300}, cost={"parameters": 5}, extra={"spreads": {"a": 0.5}}, seconds=2.5),
        Outcome(reason="nan", scores={"a": math.inf, "b": -math.inf}, detail="not finite"),
        Outcome(
            reason="infeasible", detail="too large", violation=1.5, cost={"parameters": 50}, extra={"log": "words"}
        ),
    ],
)
def test_what_is_written_is_read(outcome: Outcome) -> None:
    with Store.memory() as store:
        lease, (one, *_) = grown(store)
        assert store.finish_evaluation(lease, to_evaluation(one.id, "quick", 3, 1, outcome))
        (row,) = store.evaluations(lease.run_id)
        found = to_outcome(row)
        assert (found.reason, found.detail, found.violation) == (outcome.reason, outcome.detail, outcome.violation)
        assert found.scores == outcome.scores
        assert (found.cost, found.seconds) == (outcome.cost, outcome.seconds)
        assert outcome.extra.items() <= found.extra.items()
        assert is_final(row)


def test_a_value_that_is_not_a_number_is_read_as_such() -> None:
    with Store.memory() as store:
        lease, (one, *_) = grown(store)
        outcome = Outcome(reason="nan", scores={"a": math.nan, "b": 1.0})
        store.finish_evaluation(lease, to_evaluation(one.id, "quick", 3, 1, outcome))
        found = to_outcome(store.evaluations(lease.run_id)[0])
        assert math.isnan(found.scores["a"])
        assert found.scores["b"] == 1.0


@pytest.mark.parametrize(("reason", "final"), [("lost", False), ("killed", False), ("timeout", True), ("nan", True)])
def test_what_somebody_else_killed_is_not_final(reason: str, final: bool) -> None:
    with Store.memory() as store:
        lease, (one, *_) = grown(store)
        store.start_evaluation(lease, one.id, "quick", 3)
        assert not is_final(store.evaluations(lease.run_id)[0]), "nor is one that runs"
        store.finish_evaluation(lease, to_evaluation(one.id, "quick", 3, 1, Outcome(reason=reason)))
        assert is_final(store.evaluations(lease.run_id)[0]) == final
