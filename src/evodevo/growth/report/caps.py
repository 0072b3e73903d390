"""The falls of a cap in a growth, in words and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.growth.report.data import GrowthHistory
from evodevo.growth.resources import number_words
from evodevo.report.word_tables import TextTable

COLUMNS = ("event", "network", "right after the removal", "after each rung", "steps", "what became of it")
TEXTS = ("network", "after each rung", "what became of it")


def cap_words(growth: GrowthHistory) -> list[str]:
    """A sentence on each fall; nothing where no cap fell."""
    return [] if growth.caps is None else [_words(fall) for fall in growth.caps["falls"]]


def cap_table(growth: GrowthHistory) -> TextTable | None:
    """A row per smaller network that was looked at, the best of each fall first; None where there was no choice."""
    rows = [row for fall in (growth.caps or {"falls": ()})["falls"] for row in _rows(fall)]
    caption = (
        "Loss in nats on the architecture split of each network under the cap: right after the modules went, and after "
        "each rung of the race in which it took part. In a rung all cost the same FLOPs."
    )
    return TextTable(COLUMNS, rows, caption, TEXTS) if rows else None


def _words(fall: Mapping[str, Any]) -> str:
    limits = ", ".join(f"{number_words(value)} {name}" for name, value in fall["limits"].items())
    begin = f"At event {fall['event']}, {100 * fall['share']:.0f} % of the budget, the cap fell to {limits}"
    if not fall["excess"]:
        return f"{begin}; nothing had to go."
    chosen, count = " + ".join(fall["chosen"]), len(fall["networks"])
    if count == 1:
        return f"{begin}; {chosen} was the only network under it."
    raced = sum(bool(network["losses"]) for network in fall["networks"])
    if fall["instead"]:
        best = f"the lowest loss of {count} networks right after the removal (no race: {fall['instead']})"
    else:
        best = f"the best of {raced} that raced, of {count} that were looked at"
    return f"{begin}; {chosen} went on, {best}."


def _rows(fall: Mapping[str, Any]) -> list[tuple[str, ...]]:
    if len(fall["networks"]) < 2:
        return []
    last = sorted(fall["networks"], key=lambda network: _rank(network, fall["chosen"]))
    return [
        (
            str(fall["event"]),
            " + ".join(network["modules"]),
            _loss(network["before"]),
            ", ".join(_loss(loss) for loss in network["losses"]) or "–",
            f"{network['steps']:,}",
            "went on" if network["modules"] == fall["chosen"] else "was left",
        )
        for network in last
    ]


def _rank(network: Mapping[str, Any], chosen: list[str]) -> tuple[bool, int, float]:
    """The one that went on first, then by how far it came, then by its last loss."""
    loss = [network["before"], *network["losses"]][-1]
    return network["modules"] != chosen, -len(network["losses"]), float("inf") if loss is None else loss


def _loss(loss: float | None) -> str:
    return "–" if loss is None else f"{loss:.4f}"
