"""A score is a finite number or a status, never both, never NaN."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert

from evodevo.errors import UsageError
from evodevo.storage import Evaluation, Score, Store
from evodevo.storage.schema import score_table
from evodevo.testing.storages import FIDELITY, grown


@given(number=st.floats())
def test_any_float_is_a_number_or_a_status(number: float) -> None:
    score = Score.of(number)
    assert (score.value is None) == (not math.isfinite(number)) == (score.status != "ok")
    assert score.value is None or score.value == number
    assert score.value is None or math.copysign(1, score.value) == (1 if number == 0 else math.copysign(1, number))


@pytest.mark.parametrize(
    ("value", "status"),
    [(math.nan, "ok"), (math.inf, "ok"), (None, "ok"), (1.0, "nan"), (None, "unknown"), (math.nan, "nan")],
)
def test_a_score_that_is_both_or_neither_is_refused(value: float | None, status: Any) -> None:
    with pytest.raises(UsageError):
        Score(value, status)


def test_the_database_itself_refuses_such_a_score() -> None:
    wrong: list[tuple[Any, str]] = [(number, "ok") for number in (math.inf, -math.inf, math.nan, None, "1.x")]
    with Store.memory() as store:
        lease, (one, *_) = grown(store)
        evaluation = Evaluation(one.id, FIDELITY, 0)
        store.finish_evaluation(lease, evaluation)
        for value, status in [*wrong, (1.0, "nan"), (None, "odd")]:
            row = {"evaluation_id": evaluation.id, "objective": "loss", "value": value, "status": status}
            with pytest.raises(UsageError, match="refuses this record"), store._database.writing() as connection:
                connection.execute(insert(score_table), row)
        assert store.evaluations()[0].scores == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "running"},
        {"state": "failed"},
        {"state": "done", "reason": "timeout"},
        {"seconds": math.nan},
        {"seconds": -1.0},
    ],
)
def test_an_outcome_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Evaluation("a" * 12, FIDELITY, 0, **wrong)
