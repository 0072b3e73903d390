"""A comparison of searches in words: the cells of its table, and what it shows."""

from __future__ import annotations

from evodevo.backbone.search_comparison.interval import Interval
from evodevo.backbone.search_comparison.results import SearchComparisonRecord, SearchMeasure
from evodevo.backbone.search_comparison.settings import SearchArm
from evodevo.report.charts.numbers import MISSING, show
from evodevo.settings import assignments

HOW_TO_READ = (
    "In brackets: 95 % intervals of the mean over seeds (Student's t). Differences are to random search of the same "
    "seed. A hypervolume is the share of the box between one reference point for all arms and the best value of each "
    "goal in any."
)


def headings(record: SearchComparisonRecord) -> list[str]:
    """Names of the columns."""
    measured = [heading for measure in record.measures for heading in (measure.title, f"{short(measure)} − random")]
    final = ["FLOPs", "hits"] if record.networks or any(arm.hits for arm in record.arms) else []
    return ["arm", "seeds", "evaluations", "training tokens", *final, *measured, "settings"]


def cells(record: SearchComparisonRecord) -> list[list[str]]:
    """The rows as text."""
    final = "FLOPs" in headings(record)
    rows = []
    for arm in record.arms:
        flops = [row.flops for row in arm.searches if row.flops is not None]
        sized = [
            show(sum(flops) / len(flops), "flops", 3) if flops else MISSING,
            MISSING if arm.hits is None else f"{arm.hits[0]} of {arm.hits[1]}",
        ]
        measured = [
            interval_words(each.get(measure.name))
            for measure in record.measures
            for each in (arm.measures, arm.differences)
        ]
        finished = sum(row.state == "finished" for row in arm.searches)
        rows.append(
            [
                arm.name,
                f"{finished} of {record.seeds}",
                _mean([row.evaluations for row in arm.searches], ""),
                _mean([row.tokens for row in arm.searches], "tokens"),
                *(sized if final else []),
                *measured,
                arm.changes,
            ]
        )
    return rows


def _mean(values: list[int], unit: str) -> str:
    return show(sum(values) / len(values), unit) if values else MISSING


def short(measure: SearchMeasure) -> str:
    """The measure's heading without its budget."""
    return measure.title.partition(" after ")[0].partition(" at ")[0]


def interval_words(interval: Interval | None) -> str:
    """``0.512 (0.473 to 0.551)``; the mean alone of one seed."""
    if interval is None:
        return MISSING
    mean = show(interval.mean, padded=True)
    if interval.low is None:
        return mean
    return f"{mean} ({show(interval.low, padded=True)} to {show(interval.high, padded=True)})"


def changes_words(arm: SearchArm) -> str:
    """``study.algorithm=firefly``, the settings in which an arm differs; a dash for none."""
    return ", ".join(assignments(arm.changes)) or MISSING


def stage_words(stage: str) -> str:
    """What a stage does."""
    arm, _, number = stage.rpartition("/")
    if arm:
        return f"search {arm}, seed number {number}"
    return {
        "training": "trains what the searches found, and the baselines, at one size",
        "test": "reads the test split, once",
    }[stage]


def sentences(record: SearchComparisonRecord, equal: str) -> list[str]:
    """What the table shows, and what its seeds can and cannot tell."""
    said = []
    if record.state != "finished":
        said.append("The comparison has not ended; its numbers are those of what has ended so far.")
    for measure in record.measures:
        sides: dict[int, list[str]] = {1: [], -1: [], 0: []}
        halves = []
        for arm in record.arms:
            interval = arm.differences.get(measure.name)
            if interval is None:
                continue
            sides[interval.side() * (1 if measure.higher_is_better else -1)].append(arm.name)
            halves += [interval.half] if interval.half is not None else []
        if not halves:
            continue
        parts = [
            f"{words} {', '.join(names)}"
            for words, names in (("better", sides[1]), ("worse", sides[-1]), ("undecided", sides[0]))
            if names
        ]
        said.append(f"Against random search, {measure.title}: {'; '.join(parts)}.")
        said.append(
            f"With {record.seeds} seeds the half-widths of these intervals are {show(min(halves), digits=2)} to "
            f"{show(max(halves), digits=2)}: smaller differences cannot be told from chance, and at 95 % one "
            f"interval in twenty misses the truth ({len(halves)} {'is' if len(halves) == 1 else 'are'} shown)."
        )
    if record.seeds == 1 and record.measures:
        said.append("Each arm searched with one seed. That is an anecdote: nothing here tells an arm from chance.")
    if equal == "flops" and record.arms:
        said.append(
            "The searches have the same training FLOPs as planned for mean random genomes; what they spent is in the "
            "table, and differs as far as they moved to cheaper or dearer networks."
        )
    return said
