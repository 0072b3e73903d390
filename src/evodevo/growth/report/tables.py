"""Edits, decisions and births in the arms of an experiment whose networks could grow, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from evodevo.experiments.comparison import ComparisonTable, Spread
from evodevo.experiments.trials import Variant
from evodevo.growth.recipes.growing import PLANNED
from evodevo.growth.report.data import UNUSED, GrowthHistory, Life
from evodevo.growth.report.foresight import called
from evodevo.growth.report.reading import growth_of
from evodevo.growth.report.text import death_words
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.gains.record import LEARNED
from evodevo.report.word_tables import TextTable
from evodevo.runs.archive import Individual

RULES = ("random", "heuristic", "fixed")
"""Strategists that learn nothing: what one that learns is compared with."""


@dataclass(frozen=True)
class GrownRow:
    """An arm whose networks could grow.

    Attributes:
        name: name of the arm, with its cell.
        grown: its trainings, each with its recorded growth.
    """

    name: str
    grown: tuple[tuple[Individual, GrowthHistory], ...]

    @property
    def strategist(self) -> str:
        """Names of the strategists."""
        return ", ".join(dict.fromkeys(growth.strategist for _, growth in self.grown))

    @property
    def called(self) -> str:
        """The names of the strategists, with whether each is called learned where it foresees gains."""
        words = [(growth.strategist, called(growth)) for _, growth in self.grown]
        return ", ".join(dict.fromkeys(f"{name} ({learned})" if learned else name for name, learned in words))

    def spread(self, read: Callable[[GrowthHistory], float | None]) -> Spread | None:
        """A number of each training, over seeds."""
        return Spread.of(read(growth) for _, growth in self.grown)

    @property
    def decisions(self) -> tuple[int, int]:
        """(unlike the heuristic, all) of all trainings."""
        return sum(len(growth.differing) for _, growth in self.grown), sum(growth.decisions for _, growth in self.grown)

    @property
    def hybrids(self) -> list[tuple[Individual, GrowthHistory, Life]]:
        """Hybrids of all trainings."""
        return [(individual, growth, life) for individual, growth in self.grown for life in growth.hybrids]


def grown_rows(table: ComparisonTable) -> list[GrownRow]:
    """The arms that could grow, in their order."""
    rows = [(row.group, [(individual, growth_of(individual)) for individual in row.trainings]) for row in table.rows]
    grown = [
        (name, tuple((individual, growth) for individual, growth in pairs if growth is not None))
        for name, pairs in rows
    ]
    return [GrownRow(name, pairs) for name, pairs in grown if pairs]


def arms_table(rows: Sequence[GrownRow]) -> TextTable:
    """Numbers of edits of the networks of each arm."""
    columns = ("arm", "strategist", "seeds", "begins with", "events", "grown", "spawned", "hybrids", "pruned",
               "replaced", "rewarmed", "edits", "refused", "left")  # fmt: skip
    caption = (
        "Per training, mean ± standard deviation over seeds. Begins with: all modules that are planned, or the winner "
        "of the race (of so many seeds). Replaced: pruned to make room for a newborn. Refused: over a cap, or "
        "impossible to build. Left: modules in the end. Called learned: the gains of held-out runs on the same data "
        f"are foreseen with a rank correlation above {LEARNED:g}."
    )
    return TextTable(columns, [_done(row) for row in rows], caption, ("strategist", "begins with"))


def decisions_table(rows: Sequence[GrownRow]) -> TextTable:
    """Decisions of the arms' strategists, their rewards, and their cost."""
    columns = ("arm", "decisions", "unlike heuristic", "reward", "hybrids that live", "FLOPs of growth",
               "time of growth")  # fmt: skip
    caption = (
        "Decisions of all trainings; unlike the heuristic where the strategist has it as its prior. Reward: mean over "
        "the events of a training. FLOPs and time of growth are shares of those of training."
    )
    return TextTable(columns, [_decided(row) for row in rows], caption)


def hybrids_table(rows: Sequence[GrownRow]) -> TextTable | None:
    """A row per hybrid: how long it lived, what it counted last; None where none was born."""
    hybrids = [hybrid for row in rows for hybrid in row.hybrids]
    if not hybrids:
        return None
    living = sum(growth.carries_weight(life) for _, growth, life in hybrids)
    survived = fmean(growth.events_lived(life) for _, growth, life in hybrids)
    columns = ("hybrid", "arm", "seed", "parents", "born at", "survived", "what became of it", "contribution",
               "weight")  # fmt: skip
    caption = (
        f"{living} of {len(hybrids)} hybrids live in the end, with at least {UNUSED:.0%} of the router's weight; they "
        f"survived {survived:.1f} events in the mean. Born at which event, how many later ones it survived, its last "
        "contribution and mean router weight."
    )
    cells = [
        (
            life.id,
            individual.genome.group,
            str(individual.genome.seed),
            " and ".join(life.parents),
            str(life.born),
            str(growth.events_lived(life)),
            _became(growth, life),
            _number(life.last("contribution")),
            _number(life.last("usage")),
        )
        for individual, growth, life in hybrids
    ]
    return TextTable(columns, cells, caption, ("arm", "parents", "what became of it"))


def _became(growth: GrowthHistory, life: Life) -> str:
    if growth.carries_weight(life):
        return "lives"
    unknown = life.last("usage") is None
    return death_words(life) or ("there, never probed" if unknown else "there without weight")


def missing_rivals(arms: Iterable[Variant]) -> list[str]:
    """Sentences on strategists that one that learns should be compared with and is not.

    Args:
        arms: arms of the whole experiment, also those that have not been trained yet.
    """
    usual = GrowthSettings().strategist
    there = dict.fromkeys(str(arm.options.get("strategist", usual)) for arm in arms if arm.procedure == "grow")
    learning = [name for name in there if name not in (*RULES, PLANNED)]
    missing = [name for name in RULES if name not in there]
    if not learning or not missing:
        return []
    beside = f"No arm with strategist {' or '.join(missing)} stands beside {' and '.join(learning)}"
    why = "what was learnt cannot be distinguished from chance, from rules or from no growth at all"
    return [f"{beside}: {why}. `evodevo grow` runs all of them."]


def _done(row: GrownRow) -> tuple[str, ...]:
    def counted(operation: str) -> str:
        return _plain(row.spread(lambda growth: growth.counts[operation]))

    return (
        row.name,
        row.called,
        str(len(row.grown)),
        _begun(row),
        _plain(row.spread(lambda growth: len(growth.events))),
        *(counted(name) for name in ("grow", "spawn", "hybridise", "prune")),
        _plain(row.spread(lambda growth: growth.replaced)),
        counted("rewarm"),
        _plain(row.spread(lambda growth: len(growth.accepted))),
        _plain(row.spread(lambda growth: growth.refused)),
        _plain(row.spread(lambda growth: len(growth.living))),
    )


def _begun(row: GrownRow) -> str:
    """``mlp-1 + cnn-1 (2), mlp-1 (1)``: winners of races and their numbers; ``all`` where nobody raced."""
    winners = Counter(
        " + ".join(growth.begun) if growth.race and _of_a_part(growth.race) else "all" for _, growth in row.grown
    )
    if len(winners) == 1:
        return next(iter(winners))
    return ", ".join(f"{name} ({count})" for name, count in winners.most_common())


def _of_a_part(race: Mapping[str, object]) -> bool:
    return not race["instead"] or "otherwise" in race


def _decided(row: GrownRow) -> tuple[str, ...]:
    unlike, decisions = row.decisions
    known = row.strategist not in ("random", "fixed", PLANNED) and decisions
    hybrids = row.hybrids
    return (
        row.name,
        str(decisions),
        f"{unlike} ({100 * unlike / decisions:.0f} %)" if known else "–",
        _plain(row.spread(lambda growth: fmean(growth.rewards) if growth.rewards else None)),
        f"{sum(growth.carries_weight(life) for _, growth, life in hybrids)} of {len(hybrids)}" if hybrids else "–",
        _share(row.spread(lambda growth: growth.overhead.get("flops_share"))),
        _share(row.spread(lambda growth: growth.overhead.get("seconds_share"))),
    )


def _plain(spread: Spread | None) -> str:
    if spread is None:
        return "–"
    return f"{spread.mean:.3g}" + (f" ± {spread.deviation:.1g}" if spread.deviation else "")


def _share(spread: Spread | None) -> str:
    return "–" if spread is None else f"{100 * spread.mean:.1f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def summaries(rows: Iterable[GrownRow]) -> dict[str, dict[str, object]]:
    """Arm -> its numbers as JSON."""
    return {row.name: _summary(row) for row in rows}


def _summary(row: GrownRow) -> dict[str, object]:
    def plain(read: Callable[[GrowthHistory], float | None]) -> dict[str, float] | None:
        spread = row.spread(read)
        return None if spread is None else spread.to_json()

    unlike, decisions = row.decisions
    return {
        "strategist": row.strategist,
        "begins_with": [list(growth.begun) for _, growth in row.grown],
        "events": plain(lambda growth: len(growth.events)),
        "births": plain(lambda growth: growth.births),
        "prunings": plain(lambda growth: growth.counts["prune"]),
        "replaced": plain(lambda growth: growth.replaced),
        "edits": plain(lambda growth: len(growth.accepted)),
        "refused": plain(lambda growth: growth.refused),
        "modules": plain(lambda growth: len(growth.living)),
        "reward": plain(lambda growth: fmean(growth.rewards) if growth.rewards else None),
        "decisions": decisions,
        "differing": unlike,
        "hybrids": len(row.hybrids),
        "hybrids_living": sum(growth.carries_weight(life) for _, growth, life in row.hybrids),
        "flops_share": plain(lambda growth: growth.overhead.get("flops_share")),
        "seconds_share": plain(lambda growth: growth.overhead.get("seconds_share")),
    }
