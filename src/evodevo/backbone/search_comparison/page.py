"""The page on a comparison of searches: its table, courses over evaluations and tokens, networks at the final size."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evodevo.backbone.search_comparison.record import mean_curve, read_search_comparison
from evodevo.backbone.search_comparison.results import ArmRow, FinalNetwork, SearchComparisonRecord
from evodevo.backbone.search_comparison.settings import RANDOM
from evodevo.backbone.search_comparison.text import HOW_TO_READ, cells, headings, short, stage_words
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series, line_chart
from evodevo.report.charts.front import BaselinePoint, FrontPoint, front_chart
from evodevo.report.charts.numbers import MISSING, show
from evodevo.report.html import Content, cut, details, element, figure, paragraph, section, table
from evodevo.runs.archive import Run
from evodevo.runs.report.composed import composed_page, stage_section


def search_comparison_page(run: Run) -> str:
    """One self-contained HTML page on a comparison of searches, as far as it has come."""
    record = read_search_comparison(run)
    parts = (_results(record), _courses(record), _networks(record, run), stage_section(record.stages, stage_words))
    return composed_page("Searches", run, parts)


def _results(record: SearchComparisonRecord) -> Element:
    rows: list[Sequence[Content]] = [list(row) for row in cells(record)]
    columns = headings(record)
    return section(
        "results",
        "Results",
        *(paragraph(cut(sentence, 600)) for sentence in record.sentences),
        table(columns, rows, range(1, len(columns) - 1), HOW_TO_READ),
        _seeds(record),
    )


def _seeds(record: SearchComparisonRecord) -> Element:
    rows: list[Sequence[Content]] = [
        [
            arm.name,
            str(row.seed),
            element("code", row.run),
            row.state,
            f"{row.evaluations:,}",
            show(row.tokens, "tokens"),
            *(show(row.values[measure.name], padded=True) for measure in record.measures),
        ]
        for arm in record.arms
        for row in arm.searches
    ]
    columns = ["arm", "seed", "run", "state", "evaluations", "training tokens", *(m.title for m in record.measures)]
    return details("Every search", table(columns, rows, [1, *range(4, len(columns))]))


def _courses(record: SearchComparisonRecord) -> Element | None:
    common = record.common
    if common is None or not any(row.curve for arm in record.arms for row in arm.searches):
        return None
    measure = Axis(short(record.measures[0]), minimise=not record.measures[0].higher_is_better)
    figures = []
    for tokens, axis in ((False, Axis("evaluations")), (True, Axis("training tokens", "tokens"))):
        lines = [Series(arm.name, mean_curve(arm, common, tokens=tokens)) for arm in record.arms]
        svg = line_chart([line for line in lines if line.points], axis, measure)
        figures.append(figure(svg, f"Means over seeds, over {axis.name}, up to what all searches have in common."))
    beside = next((arm for arm in record.arms if arm.name == RANDOM), None)
    each = [_arm(arm, beside, common, measure) for arm in record.arms if arm.searches and arm is not beside]
    return section("courses", "Courses", *figures, details("Each arm with its seeds", *each))


def _arm(arm: ArmRow, beside: ArmRow | None, common: tuple[int, int], measure: Axis) -> Element:
    lines = [
        Series(f"seed {row.seed}", mean_curve(ArmRow(arm.name, "", (row,), {}, {}), common, tokens=False))
        for row in arm.searches
    ]
    if beside is not None:
        lines.append(Series("random, mean", mean_curve(beside, common, tokens=False)))
    svg = line_chart([line for line in lines if line.points], Axis("evaluations"), measure)
    return figure(svg, f"{cut(arm.name)}: each seed, and the mean of random search.")


def _networks(record: SearchComparisonRecord, run: Run) -> Element | None:
    if not record.networks:
        return None
    limit = run.settings.search_comparison.final.limit
    cache = limit == "cache_bytes"
    cost = Axis("cache", "bytes", minimise=True) if cache else Axis("size", "parameters", minimise=True)
    places = {arm.name: place for place, arm in enumerate(record.arms)}
    points = [
        FrontPoint(
            one.name,
            float(getattr(one, limit)),
            None if one.test is None else one.test.mean,
            generation=places[one.arms[0]],
            y_spread=_range(one),
            label=one.arms[0],
            title=f"{', '.join(one.arms)}: {one.genome}",
        )
        for one in record.networks
        if one.arms and one.test is not None
    ]
    baselines = [
        BaselinePoint(one.name, float(getattr(one, limit)), None if one.test is None else one.test.mean, _range(one))
        for one in record.networks
        if not one.arms and one.test is not None
    ]
    rows: list[Sequence[Content]] = [
        [
            one.name,
            ", ".join(one.arms) or "baseline",
            show(one.parameters, "parameters", 3),
            show(one.cache_bytes, "bytes", 3),
            MISSING if one.validation is None else show(one.validation.mean, padded=True),
            MISSING if one.test is None else show(one.test.mean, padded=True),
            str(len(one.trainings)),
            MISSING if one.learning_rate is None else f"{one.learning_rate:g}",
            element("code", one.genome),
        ]
        for one in record.networks
    ]
    bits = ["validation bits per byte", "test bits per byte"]
    columns = ["network", "found by", "size", "cache", *bits, "seeds", "rate", "genome"]
    caption = (
        "Networks that the searches found, each named by its arm, and the baselines (triangles), on the test split."
    )
    svg = front_chart(points, cost, Axis("test bits per byte", minimise=True), baselines, step_line=False)
    return section(
        "networks",
        "Networks at the final size",
        figure(svg, caption) if points else None,
        table(columns, rows, range(2, 8), "All are trained alike. A network that several searches found is one row."),
    )


def _range(network: FinalNetwork) -> tuple[float, float] | None:
    test = network.test
    return (test.low, test.high) if test is not None and test.count > 1 else None
