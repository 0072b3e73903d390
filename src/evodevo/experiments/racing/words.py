"""A race in words: who leads while it runs, and who won; no torch here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Facts = Mapping[str, Any]


def place_words(heat: int, rung: int, rungs: int) -> str:
    """``race, rung 1 of 3``; later heats have their number."""
    return f"race, {f'heat {heat}, ' if heat > 1 else ''}rung {rung} of {rungs}"


def first_words(place: str, name: str, told: Facts, number: int, count: int) -> str:
    """Who leads before all have been judged: ``race, rung 1 of 3: mlp-1 leads after 2 of 6 networks, loss 0.823``."""
    return f"{place}: {name} leads after {number} of {count} networks, {_scores(told)}"


def rung_words(place: str, name: str | None, told: Facts, left: int, count: int) -> str:
    """Who leads after a rung: ``race, rung 1 of 3: mlp-1 leads 6 networks, loss 0.823; 3 go on``.

    Args:
        place: Which rung; see ``place_words``.
        name: The leader; None where no network could be trained.
        told: Its facts in the rung.
        left: Number of networks that go on to a further rung; 0 after the last one.
        count: Number of networks in the rung.
    """
    if name is None:
        return f"{place}: none of {count} networks could be trained"
    on = f"; {left} {'goes' if left == 1 else 'go'} on" if left else ""
    return f"{place}: {name} leads {count} {'network' if count == 1 else 'networks'}, {_scores(told)}{on}"


def winner_words(race: Facts) -> str:
    """Who won, by what, and among how many.

    Args:
        race: Facts of a race with ``tried`` above 0; see ``module_zoo.procedures.race.train_race``.
    """
    last, won = last_of(race), " + ".join(race["chosen"])
    scores = {name: score for name, told in last.items() if (score := score_of(told)) is not None}
    size = f"{race['tried']} networks in {race['steps']:,} steps, {100 * race['share']:.1f} % of the budget"
    if won not in scores:
        return f"{won}; no network of a race of {size} could be trained"
    # Scores of shorter rungs, in which others ended, do not compare.
    beaten = sorted((scores[name], name) for name in longest_of(race) if name != won and name in scores)
    second = f", {beaten[0][1]} had {beaten[0][0]:.3f}" if beaten else ""
    what = "expected loss" if "expected" in last[won] else "loss"
    return f"{won}, the winner of a race of {size}: {what} {scores[won]:.3f}{second}"


def longest_of(race: Facts) -> set[str]:
    """Networks of the last rung of each heat."""
    return {name for heat in race["heats"] for name in heat["rungs"][-1]}


def last_of(race: Facts) -> dict[str, Facts]:
    """Network -> steps and loss after its last rung."""
    return {name: told for heat in race["heats"] for rung in heat["rungs"] for name, told in rung.items()}


def score_of(told: Facts) -> float | None:
    """What decided: the expected loss where it is recorded, else the loss; None where there was none."""
    score: float | None = told.get("expected", told["loss"])
    return score


def _scores(told: Facts) -> str:
    expected = told.get("expected")
    return f"loss {told['loss']:.3f}" + ("" if expected is None else f", expected {expected:.3f}")
