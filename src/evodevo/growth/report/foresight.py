"""Whether a strategist is called learned, in words."""

from __future__ import annotations

from evodevo.growth.report.data import GrowthHistory


def foresight_words(growth: GrowthHistory) -> list[str]:
    """A sentence on how well the memory of a strategist foresees gains; nothing where it foresees none."""
    seen = growth.foresight
    if seen is None:
        return []
    memory = f"The memory of {growth.strategist}"
    if not seen["rows"]:
        elsewhere = seen.get("elsewhere", 0)
        words = (
            f"has {elsewhere} gains, none of them of this data" if elsewhere else "had no measured gain: prior alone"
        )
        return [f"{memory} {words}. Not learned."]
    counted = f"{seen['rows']} gains of {seen['runs']} run{'' if seen['runs'] == 1 else 's'} on this data"
    if seen["correlation"] is None:
        return [f"{memory} has {counted}, too few for a correlation. Not learned."]
    correlation = f"{seen['correlation']:+.2f} ({counted}). {called(growth).capitalize()}."
    return [f"Rank correlation of gains with what {growth.strategist} foresees of them, runs held out: {correlation}"]


def called(growth: GrowthHistory) -> str:
    """``learned`` or ``not learned``; empty for a strategist that foresees no gain."""
    if growth.foresight is None:
        return ""
    return "learned" if growth.foresight["learned"] else "not learned"
