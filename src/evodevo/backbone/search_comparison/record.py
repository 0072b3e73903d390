"""A comparison of searches read from the store: per arm its measures over seeds, beside random search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.protocol import derived as protocol
from evodevo.backbone.protocol.hits import is_hit
from evodevo.backbone.protocol.record import TEST, results_of, validation_bits
from evodevo.backbone.search_comparison import derived
from evodevo.backbone.search_comparison.course import Course, CourseScale, course_of
from evodevo.backbone.search_comparison.interval import Interval
from evodevo.backbone.search_comparison.results import (
    ArmRow,
    FinalNetwork,
    SearchComparisonRecord,
    SearchMeasure,
    SearchRow,
)
from evodevo.backbone.search_comparison.settings import RANDOM, SearchComparisonSettings
from evodevo.backbone.search_comparison.stages import FINALISTS
from evodevo.backbone.search_comparison.text import changes_words, sentences
from evodevo.experiments.comparison import Spread, compare_arms
from evodevo.runs.archive import Run
from evodevo.runs.composed import stage_runs
from evodevo.search.front import Point
from evodevo.search.problem import Goal

QUALITY = Goal("quality", "bits per byte on test")
EXACT = {"parameters": "parameters", "cache": "cache_bytes"}
"""Goals that are known at the final size without a measurement: name -> static cost."""


def read_search_comparison(run: Run) -> SearchComparisonRecord:
    """All that a comparison has found so far."""
    settings: SearchComparisonSettings = run.settings
    comparison, runs = settings.search_comparison, stage_runs(run)
    begun = {stage: arm for stage, (arm, _) in derived.searches(settings).items() if stage in runs}
    courses = {stage: course_of(runs[stage]) for stage in begun}
    networks, finalists = _networks(run, settings, runs)
    scale: CourseScale | None = None
    found: list[_Measured] = []
    common: tuple[int, int] | None = None
    if comparison.final is None:
        scale = _scale_of(courses, run.goals)
        common = _common(courses)
        if scale is not None and common is not None:
            found = _of_courses(scale, courses, common)
    else:
        goals = _final_goals(run.goals)
        ended = {stage: [networks[name] for name in finalists.get(stage, {}).values()] for stage in begun}
        every = [point for each in ended.values() for one in each if (point := _final_point(one, goals)) is not None]
        scale = CourseScale.of(every, every, goals)
        if scale is not None:
            found = _at_final_size(scale, ended, goals)
    rows = tuple(
        SearchRow(
            run=runs[stage].id,
            state=runs[stage].state,
            seed=runs[stage].seed,
            evaluations=len(course.points),
            tokens=course.tokens[-1] if course.tokens else 0,
            flops=None if comparison.final is None else _flops(runs[stage]),
            values={each.measure.name: each.values.get(stage) for each in found},
            curve=_curve(scale, course, common),
            finalists=finalists.get(stage, {}),
        )
        for stage, course in courses.items()
    )
    by_stage = dict(zip(courses, rows, strict=True))
    names = [each.measure.name for each in found]
    arms = []
    for arm in derived.arms(settings):
        own = [by_stage[stage] for stage, other in begun.items() if other.name == arm.name]
        beside = {row.seed: row for stage, row in by_stage.items() if begun[stage].name == RANDOM}
        pairs = [(row, beside[row.seed]) for row in own if row.seed in beside]
        measures = {name: Interval.of(row.values[name] for row in own) for name in names}
        gaps = {name: Interval.of(_gap(ours, theirs, name) for ours, theirs in pairs) for name in names}
        arms.append(
            ArmRow(
                name=arm.name,
                changes=changes_words(arm),
                searches=tuple(own),
                measures={name: one for name, one in measures.items() if one is not None},
                differences={name: one for name, one in gaps.items() if one is not None and arm.name != RANDOM},
                hits=_hits(own, networks) if comparison.final is not None else None,
            )
        )
    record = SearchComparisonRecord(
        run=run.id,
        recipe=run.recipe,
        state=run.state,
        goals=tuple(goal.name for goal in run.goals),
        seeds=comparison.seeds,
        stages={name: {"run": each.id, "state": each.state} for name, each in runs.items()},
        measures=tuple(each.measure for each in found),
        reference=None if scale is None else scale.reference,
        common=common,
        arms=tuple(arms),
        networks=tuple(networks.values()),
    )
    return replace(record, sentences=tuple(sentences(record, comparison.equal)))


@dataclass(frozen=True)
class _Measured:
    """A measure, and stage -> its value."""

    measure: SearchMeasure
    values: Mapping[str, float | None]


def _scale_of(courses: Mapping[str, Course], goals: Sequence[Goal]) -> CourseScale | None:
    firsts = [point for course in courses.values() for point in course.first]
    points = [point for course in courses.values() for point in course.points if point is not None]
    return CourseScale.of(firsts, points, goals)


def _common(courses: Mapping[str, Course]) -> tuple[int, int] | None:
    """Evaluations and training tokens that all searches have in common."""
    known = [course for course in courses.values() if course.tokens]
    if not known:
        return None
    return min(len(course.tokens) for course in known), min(course.tokens[-1] for course in known)


def _of_courses(scale: CourseScale, courses: Mapping[str, Course], common: tuple[int, int]) -> list[_Measured]:
    evaluations, tokens = common
    name = "hypervolume" if scale.goal is None else f"best {scale.goal.name}"
    up = scale.higher_is_better

    def values(counted: Callable[[Course], int]) -> dict[str, float | None]:
        return {stage: scale.measure(course.points[: counted(course)]) for stage, course in courses.items()}

    return [
        _Measured(
            SearchMeasure("at_equal_evaluations", f"{name} after {evaluations:,} evaluations", up),
            values(lambda course: evaluations),
        ),
        _Measured(
            SearchMeasure("at_equal_tokens", f"{name} after {tokens:,} training tokens", up),
            values(lambda course: course.within(tokens)),
        ),
    ]


def _at_final_size(
    scale: CourseScale, networks: Mapping[str, Sequence[FinalNetwork]], goals: Sequence[Goal]
) -> list[_Measured]:
    # The best on test would be a choice by the test split: who has more finalists would have the better minimum.
    best = _Measured(
        SearchMeasure("chosen_at_final_size", "test bits per byte of the best on validation at the final size", False),
        {stage: _chosen(each) for stage, each in networks.items()},
    )
    if len(goals) == 1:
        return [best]
    volume = SearchMeasure("hypervolume_at_final_size", "hypervolume at the final size", True)
    points = {stage: [_final_point(one, goals) for one in each] for stage, each in networks.items()}
    return [_Measured(volume, {stage: scale.measure(each) for stage, each in points.items()}), best]


def _chosen(networks: Sequence[FinalNetwork]) -> float | None:
    """Test bits per byte of the network that is best on validation."""
    return next((one.test.mean for one in best_first(networks) if one.test is not None), None)


def best_first(networks: Iterable[FinalNetwork]) -> list[FinalNetwork]:
    """The networks that have been tested, the lowest bits per byte on *validation* first."""
    tested = [(one.validation.mean, one) for one in networks if one.test is not None and one.validation is not None]
    return [one for _, one in sorted(tested, key=lambda pair: pair[0])]


def _final_goals(goals: Sequence[Goal]) -> list[Goal]:
    """Quality on test, and the goals that the genome decides."""
    return [QUALITY, *(goal for goal in goals if goal.name in EXACT)]


def _final_point(network: FinalNetwork, goals: Sequence[Goal]) -> Point | None:
    if network.test is None:
        return None
    return network.test.mean, *(
        goal.to_minimise(float(getattr(network, EXACT[goal.name]))) for goal in goals if goal.name in EXACT
    )


def _curve(scale: CourseScale | None, course: Course, common: tuple[int, int] | None) -> list[tuple[int, int, float]]:
    if scale is None or common is None:
        return []
    return [(count, course.tokens[count - 1], value) for count, value in scale.curve(course, len(course.points))]


def _gap(ours: SearchRow, theirs: SearchRow, name: str) -> float | None:
    a, b = ours.values[name], theirs.values[name]
    return None if a is None or b is None else a - b


def _hits(rows: Sequence[SearchRow], networks: Mapping[str, FinalNetwork]) -> tuple[int, int]:
    tested = [networks[name] for row in rows for name in row.finalists.values() if networks[name].hit is not None]
    return sum(bool(network.hit) for network in tested), len(tested)


def _flops(run: Run) -> float:
    """Training FLOPs of a search's individuals."""
    vocabulary = int(run.data().get("tokenizer", {}).get("vocabulary", 0))
    ended = [one for one in run.individuals() if one.outcome is not None and "same_as" not in one.fact]
    return sum(
        derived.token_flops(run.settings, one.genome, vocabulary) * int(one.fact.get("tokens") or 0) for one in ended
    )


def _networks(
    run: Run, settings: SearchComparisonSettings, runs: Mapping[str, Run]
) -> tuple[dict[str, FinalNetwork], dict[str, dict[str, str]]]:
    """Networks at the final size by name, and stage -> individual -> name."""
    events = run.events()
    chosen = next((event for event in events if event.type == FINALISTS), None)
    if derived.FINAL not in runs or chosen is None:
        return {}, {}
    finalists = {stage: chosen.fact(stage, dict) for stage in derived.searches(settings)}
    tested = next((event for event in events if event.type == TEST), None)
    results = {} if tested is None else tested.fact("results", results_of)
    by_name = {row.name: row for row in compare_arms(runs[derived.FINAL]).rows}
    genomes: dict[str, tuple[tuple[str, ...], BackboneGenome]] = {
        name: ((), genome) for name, genome in protocol.baselines(settings).items()
    }
    for stage, named in finalists.items():
        arm = stage.rpartition("/")[0]
        for identity, name in named.items():
            genome = derived.at_final_size(settings, runs[stage].individual(identity).genome)
            before = genomes[name][0] if name in genomes else ()
            genomes[name] = (before if arm in before else (*before, arm), genome)
    found = {}
    for name, (arms, genome) in genomes.items():
        cost = protocol.cost(settings, genome)
        trainings = by_name[name].trainings if name in by_name else ()
        found[name] = FinalNetwork(
            name=name,
            genome=run.space.print(genome),
            arms=arms,
            parameters=cost["parameters"],
            cache_bytes=cost["cache_bytes"],
            learning_rate=by_name[name].learning_rate if trainings else None,
            trainings=tuple(one.id for one in trainings),
            validation=Spread.of(validation_bits(one) for one in trainings),
            test=Spread.of(results.get(one.id, {}).get("bits_per_byte") for one in trainings),
        )
    bars = [network.test.mean for network in found.values() if not network.arms and network.test is not None]
    return {name: _judged(network, bars) for name, network in found.items()}, finalists


def _judged(network: FinalNetwork, bars: Sequence[float]) -> FinalNetwork:
    """The network with whether it reaches the baselines."""
    if network.test is None or not network.arms or not bars:
        return network
    hit = is_hit(network.test.mean, bars, higher_is_better=False)
    return replace(network, hit=hit)


def mean_curve(arm: ArmRow, common: tuple[int, int], *, tokens: bool, most: int = 24) -> list[tuple[float, float]]:
    """The mean over seeds of the courses of an arm, up to what all searches have in common.

    Args:
        arm: the arm.
        common: evaluations and tokens that all searches have in common.
        tokens: whether it goes over training tokens, else over evaluations.
        most: largest number of points.
    """
    place = 1 if tokens else 0
    curves = [row.curve for row in arm.searches if row.curve]
    if not curves:
        return []
    begin, end = max(float(curve[0][place]) for curve in curves), float(common[place])
    count = int(min(most, max(1, end - begin + 1)))
    stops = [begin + (end - begin) * n / max(1, count - 1) for n in range(count)]
    return [(stop, fmean(_until(curve, place, stop) for curve in curves)) for stop in stops]


def _until(curve: Sequence[tuple[int, int, float]], place: int, stop: float) -> float:
    """The last value at a stop, or the first."""
    return next((point[2] for point in reversed(curve) if point[place] <= stop + 1e-9), curve[0][2])
