"""A hybrid counts as living only where the router gives it weight: being there is not enough."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from evodevo.growth.report.data import UNUSED, GrowthHistory, Life, Sight
from evodevo.growth.report.tables import GrownRow, decisions_table, hybrids_table, summaries


def hybrid(name: str, *weights: float, gone: int | None = None) -> Life:
    """One whose mean router weights were seen in this order; none where it was never seen."""
    sights = tuple(Sight(10.0 * at, None, at, {"usage": weight}) for at, weight in enumerate(weights))
    return Life(name, "hybrid", operation="hybridise", parents=("a", "b"), born=1, gone=gone, sights=sights)


# (hybrid, what the table states, whether it counts as living)
LIVES = (
    (hybrid("used", 0.3), "lives", True),
    (hybrid("at-the-limit", UNUSED), "lives", True),
    (hybrid("below-it", 0.99 * UNUSED), "there without weight", False),
    (hybrid("idle", 0.0), "there without weight", False),
    (hybrid("idle-in-the-end", 0.4, 0.0), "there without weight", False),
    (hybrid("used-in-the-end", 0.0, 0.4), "lives", True),
    (hybrid("never-seen"), "there, never probed", False),
    (hybrid("gone-and-never-seen", gone=2), "", False),
    (hybrid("gone", 0.5, gone=2), "", False),
)


def row_of(*lives: Life) -> GrownRow:
    growth = GrowthHistory(
        strategist="heuristic",
        events=(),
        lives=(Life("a", "mlp"), Life("b", "cnn"), *lives),
        steps=100,
        decisions=4,
        differing=(),
        overhead={},
    )
    individual: Any = SimpleNamespace(id="x", genome=SimpleNamespace(group="arm", seed=0))
    return GrownRow("arm", ((individual, growth),))


@pytest.mark.parametrize(("life", "words", "lives"), LIVES)
def test_each_hybrid_counts_by_its_last_weight(life: Life, words: str, lives: bool) -> None:
    row = row_of(life)
    table = hybrids_table([row])
    assert table is not None
    (cells,) = table.rows
    became = dict(zip(table.columns, cells, strict=True))["what became of it"]
    assert became == words or (not words and became != "lives" and not became.startswith("there"))
    assert table.caption.startswith(f"{int(lives)} of 1 hybrids live")
    (decided,) = decisions_table([row]).rows
    assert f"{int(lives)} of 1" in decided
    assert summaries([row])["arm"]["hybrids_living"] == int(lives)


def test_the_sentence_counts_those_with_weight_and_names_the_limit() -> None:
    row = row_of(*(life for life, _, _ in LIVES))
    table = hybrids_table([row])
    assert table is not None
    living = sum(lives for _, _, lives in LIVES)
    there = sum(life.gone is None for life, _, _ in LIVES)
    assert 0 < living < there < len(LIVES), "some are there without weight, and some are gone"
    assert re.match(rf"{living} of {len(LIVES)} hybrids live in the end, with at least {UNUSED:.0%} ", table.caption)
    assert f"{living} of {len(LIVES)}" in decisions_table([row]).rows[0]
    assert summaries([row])["arm"]["hybrids_living"] == living
