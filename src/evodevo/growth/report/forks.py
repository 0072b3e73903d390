"""The forks of a growth, in words and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.growth.forks.plan import NOTHING_EDITED, forks_planned
from evodevo.report.word_tables import TextTable

COLUMNS = (
    "event",
    "edit",
    "steps with it",
    "without",
    "gain in nats",
    "interval",
    "noise",
    "decision",
    "published gain",
    "GFLOP",
)
FOLLOWED = "gain later"
FOLLOWED_WORDS = (
    "Gain later: the same after copies of both sides were trained on (forks.follow), with the interval of the samples "
    "alone."
)
TEXTS = ("edit", "interval", "decision", "published gain")


Forks = Mapping[str, Any]
"""Plan of the forks of a training and each of them, as its facts have them."""


def fork_words(forks: Forks | None, nothing: str = NOTHING_EDITED) -> list[str]:
    """A sentence on what was tried and kept, or on why there were no forks; nothing where none were wanted.

    Args:
        forks: The forks of a training; None where none were wanted.
        nothing: See ``growth.forks.plan.forks_planned``.
    """
    if forks is None:
        return []
    if forks["instead"]:
        edits = forks.get("edits", True)
        return [forks_planned(forks["most"], forks["steps"], forks["instead"], edits=edits, nothing=nothing)]
    tried = [row for row in forks["tried"] if row["spent"]]
    kept = sum(row["kept"] for row in tried)
    share = f" They took {100 * forks['share']:.1f} % of the budget." if "share" in forks else ""
    return [f"{kept} of {len(tried)} forks kept their edits, of {forks['most']} that the budget allowed.{share}"]


def fork_table(forks: Forks | None) -> TextTable | None:
    """A row per fork; None where there was none."""
    if forks is None or not forks["tried"]:
        return None
    level = f"{100 * forks['level']:g} %" if "level" in forks else "the level of the settings"
    equal = "equal time" if forks.get("unit") == "seconds" else "equal FLOPs"
    caption = (
        f"Gain: fall of the loss on the architecture split by the edit, after {equal} on the same batches; kept "
        f"where the interval begins above 0 (one-sided at {level} on either end). Noise: standard deviation of a "
        "difference by the order of the batches alone. The published gain is that on samples that did not choose. "
        "GFLOP of both sides, other orders and judgements."
    )
    rows = [_row(fork) for fork in forks["tried"]]
    if not any("followed" in fork for fork in forks["tried"]):
        return TextTable(COLUMNS, rows, caption, TEXTS)
    rows = [(*row, _gain(fork.get("followed"))) for row, fork in zip(rows, forks["tried"], strict=True)]
    return TextTable((*COLUMNS, FOLLOWED), rows, f"{caption} {FOLLOWED_WORDS}", (*TEXTS, FOLLOWED))


def _row(fork: Mapping[str, Any]) -> tuple[str, ...]:
    chose, published, noise = fork["chose"], fork["published"], fork["noise"]
    return (
        str(fork["event"]),
        ", ".join(fork["edits"]),
        *(f"{steps:,}" for steps in fork["steps"]),
        "–" if chose is None else f"{chose['gain']:+.4f}",
        _interval(chose),
        "–" if noise is None else f"{noise:.4f}",
        "kept" if fork["kept"] else f"refused: {fork['reason']}",
        _gain(published),
        f"{(fork['spent'] + fork['winner_flops']) / 1e9:.3g}",
    )


def _gain(gain: Mapping[str, Any] | None) -> str:
    return "–" if gain is None else f"{gain['gain']:+.4f} ({_interval(gain)})"


def _interval(gain: Mapping[str, float] | None) -> str:
    return "–" if gain is None else f"{gain['lower']:+.4f} to {gain['upper']:+.4f}"
