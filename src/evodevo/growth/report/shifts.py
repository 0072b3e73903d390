"""The shift of the data in a growth, in words and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.growth.report.data import GrowthHistory
from evodevo.report.word_tables import TextTable

COLUMNS = ("network", "modules", "after each rung", "steps", "what became of it")
TEXTS = ("network", "modules", "after each rung", "what became of it")


def shift_words(growth: GrowthHistory) -> list[str]:
    """A sentence on the shift; nothing where the data did not shift."""
    shift = growth.shift
    if shift is None:
        return []
    begin = f"At event {shift['event']}, {100 * shift['at']:.0f} % of the budget, {shift['new']} appeared"
    if shift["instead"]:
        return [f"{begin}; the network went on as it was (no race: {shift['instead']})."]
    count = len(shift["networks"])
    return [f"{begin}; {shift['chosen']} was the best of {count} networks that raced on the new data."]


def shift_table(growth: GrowthHistory) -> TextTable | None:
    """A row per network that raced, the one that went on first; None where none did."""
    shift = growth.shift
    if shift is None or not shift["networks"]:
        return None
    ranked = sorted(shift["networks"], key=lambda network: _rank(network, shift["chosen"]))
    expected = any(network.get("expected") is not None for network in ranked)
    rows = [
        (
            network["name"],
            " + ".join(network["modules"]),
            ", ".join(_loss(loss) for loss in network["losses"]),
            f"{network['steps']:,}",
            *([_loss(network.get("expected"))] if expected else []),
            "went on" if network["name"] == shift["chosen"] and not shift["instead"] else "was left",
        )
        for network in ranked
    ]
    left = f" {shift['left_out']} more had no room." if shift["left_out"] else ""
    caption = (
        "Loss in nats on the architecture split of the new data, after each rung of the race at the shift. In a rung "
        f"all cost the same FLOPs, on the same batches.{left}"
    )
    decided = " The loss to which the fall of each leads decided." if expected else ""
    columns = (*COLUMNS[:-1], *(["expected"] if expected else []), COLUMNS[-1])
    return TextTable(columns, rows, caption + decided, TEXTS)


def _rank(network: Mapping[str, Any], chosen: str) -> tuple[bool, int, float]:
    """The one that went on first, then by how far it came, then by its last loss."""
    loss = network.get("expected", network["losses"][-1])
    return network["name"] != chosen, -len(network["losses"]), float("inf") if loss is None else loss


def _loss(loss: float | None) -> str:
    return "–" if loss is None else f"{loss:.4f}"
