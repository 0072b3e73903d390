"""The race before a growth in words and as a table: who won, and by what that was decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evodevo.growth.report.data import GrowthHistory
from evodevo.growth.report.race import race_table, race_words

HISTORY = GrowthHistory(
    strategist="heuristic", events=(), lives=(), steps=900, decisions=0, differing=(), overhead={}, probes=()
)
# Steps, loss and expected loss: the one with the lowest loss hardly falls any more.
LOSSES: dict[str, tuple[int, float, float]] = {
    "lstm-1": (96, 2.011, 1.583),
    "mlp-1": (157, 1.992, 1.652),
    "squeeze_excite-1": (514, 1.908, 1.861),
}


def raced(*, by_trend: bool, heats: int = 1) -> GrowthHistory:
    told: dict[str, Any] = {}
    for name, (steps, loss, expected) in LOSSES.items():
        told[name] = {"steps": steps, "loss": loss} | ({"expected": expected} if by_trend else {})
    first = {"arms": [*LOSSES, "transformer-1"], "left_out": ["transformer-1"], "rungs": [told]}
    pair = {"lstm-1 + mlp-1": dict(told["lstm-1"])}
    second = {"arms": list(pair), "left_out": [], "rungs": [pair]}
    won = "lstm-1" if by_trend else "squeeze_excite-1"
    facts = {"chosen": [won], "tried": 3, "steps": 767, "share": 0.15, "instead": "", "heats": [first, second][:heats]}
    return replace(HISTORY, race=facts)


@pytest.mark.parametrize("by_trend", [True, False])
def test_the_sentence_and_the_table_name_what_decided(by_trend: bool) -> None:
    history = raced(by_trend=by_trend)
    (words,) = race_words(history)
    table = race_table(history)
    assert table is not None
    if by_trend:
        assert words.endswith(
            "a race of 3 networks in 767 steps, 15.0 % of the budget: expected loss 1.583, mlp-1 had 1.652."
        )
        assert table.columns[:4] == ("network", "steps", "loss in nats", "expected")
        assert [row[0] for row in table.rows] == ["lstm-1", "mlp-1", "squeeze_excite-1", "transformer-1"]
        assert table.rows[0][2:4] == ("2.011", "1.583")
    else:
        assert words.endswith(": loss 1.908, mlp-1 had 1.992.")
        assert "expected" not in table.columns
        assert [row[0] for row in table.rows] == ["squeeze_excite-1", "mlp-1", "lstm-1", "transformer-1"]
    assert table.rows[-1][-1] == "left out: no room in the budget"
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_pairs_are_named_where_there_were_some() -> None:
    captions = [race_table(raced(by_trend=True, heats=heats)).caption for heats in (1, 2)]  # type: ignore[union-attr]
    assert ["pairs" in caption for caption in captions] == [False, True]


def test_where_nobody_raced_there_is_a_reason_or_nothing() -> None:
    assert (race_words(HISTORY), race_table(HISTORY)) == ([], None)
    without = replace(HISTORY, race={"instead": "no room.", "heats": [], "chosen": ["mlp-1"]})
    assert race_words(without) == ["It begins with all modules: no room."]
    assert race_table(without) is None
    alone = replace(HISTORY, race={**(without.race or {}), "otherwise": "mlp"})
    assert race_words(alone) == ["It begins with mlp-1 alone: no room."]


def test_who_was_out_before_the_last_rung_is_not_compared() -> None:
    history = raced(by_trend=True)
    assert history.race is not None
    (rung,) = history.race["heats"][0]["rungs"]
    shorter = {**rung, "cnn-1": {"steps": 20, "loss": 2.2, "expected": 0.4}}
    (words,) = race_words(
        replace(history, race={**history.race, "heats": [{**history.race["heats"][0], "rungs": [shorter, rung]}]})
    )
    assert words.endswith("expected loss 1.583, mlp-1 had 1.652.")
