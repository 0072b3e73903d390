"""The race before a growth, in words and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.experiments.racing.words import last_of, longest_of, score_of, winner_words
from evodevo.experiments.remarks import begun_without
from evodevo.growth.report.data import GrowthHistory
from evodevo.report.word_tables import TextTable

COLUMNS = ("network", "steps", "loss in nats", "after each rung", "what became of it")


def race_words(growth: GrowthHistory) -> list[str]:
    """A sentence on who raced and who won, or on why nobody raced; nothing where no race was wanted."""
    return [] if growth.race is None else [start_words(growth.race)]


def start_words(race: Mapping[str, Any]) -> str:
    """The sentence, from the facts of a race that was wanted."""
    return f"It begins with {begun_without(race) if race['instead'] else winner_words(race)}."


def race_table(growth: GrowthHistory) -> TextTable | None:
    """Who raced, in order of the last loss; None where nobody did."""
    race = growth.race
    if race is None or race["instead"]:
        return None
    raced = "Modules alone" + (", then pairs with the best two" if len(race["heats"]) > 1 else "")
    return table_of_race(race, " + ".join(race["chosen"]), raced)


def table_of_race(race: Mapping[str, Any], won: str, raced: str) -> TextTable:
    """A row for each network of a race, in order of the last loss.

    Args:
        race: Facts with ``heats`` (``experiments.racing.race.TrainingRace``) and ``share``, of the budget, 0 to 1.
        won: Name of the winner.
        raced: Who raced, in words, for the caption.
    """
    rungs: dict[str, list[str]] = {}
    for heat in race["heats"]:
        for rung in heat["rungs"]:
            for name, told in rung.items():
                rungs.setdefault(name, []).append(_loss(told["loss"]))
    longest = longest_of(race)

    def place(name: str, loss: float | None) -> tuple[bool, bool, bool, float]:
        return name != won, name not in longest, loss is None, loss or 0.0

    rows = []
    last = last_of(race)
    expected = any("expected" in told for told in last.values())
    for name, told in sorted(last.items(), key=lambda pair: place(pair[0], score_of(pair[1]))):
        became = "won" if name == won else "lost" if name in longest else f"out after rung {len(rungs[name])}"
        scores = (_loss(told["loss"]), *([_loss(told["expected"])] if expected else []))
        rows.append((name, f"{told['steps']:,}", *scores, ", ".join(rungs[name]), became))
    left_out = [name for heat in race["heats"] for name in heat["left_out"]]
    none = ("–",) * (3 if expected else 2)
    rows += [(name, "0", *none, "left out: no room in the budget") for name in left_out]
    decided = " The loss to which the fall of each leads in eight times as many steps decided." if expected else ""
    caption = (
        f"{raced}, at equal cost in each rung; loss on the architecture split.{decided} "
        f"The race took {100 * race['share']:.1f} % of the budget."
    )
    columns = (*COLUMNS[:3], *(["expected"] if expected else []), *COLUMNS[3:])
    return TextTable(columns, rows, caption, ("after each rung", "what became of it"))


def _loss(loss: float | None) -> str:
    return "–" if loss is None else f"{loss:.3f}"
