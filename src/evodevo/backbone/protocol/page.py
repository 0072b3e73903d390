"""The page on a protocol: the paper's Table 5.1, a picture of it, and the search beside random search."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evodevo.backbone.protocol.record import ProtocolRecord, TableRow, read_protocol
from evodevo.backbone.protocol.text import cells, headings, stage_words
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series, line_chart
from evodevo.report.charts.front import BaselinePoint, FrontPoint, State, front_chart
from evodevo.report.charts.numbers import show
from evodevo.report.html import Content, cut, details, element, figure, paragraph, section, table
from evodevo.runs.archive import Run
from evodevo.runs.report.composed import composed_page, stage_section
from evodevo.runs.verdict import DOMINATES


def protocol_page(run: Run) -> str:
    """One self-contained HTML page on a protocol, as far as it has come."""
    record = read_protocol(run)
    parts = (_results(record, run), _picture(record, run), _courses(record), _rates(record), _stages(record))
    return composed_page("Protocol", run, parts)


def _results(record: ProtocolRecord, run: Run) -> Element:
    length = run.settings.evaluation.cost_length
    rows: list[Sequence[Content]] = [list(row) for row in cells(record.rows)]
    columns = headings(record.rows, length)
    caption = (
        "As the paper's Table 5.1: size without embeddings, cache, and perplexity per token on the test split, which "
        "was read once, at the end. Means over seeds; ranges over seeds beside bits per byte."
    )
    known = ", ".join(f"{cut(name)} {show(value)}" for name, value in record.count_models.items())
    return section(
        "results",
        "Results",
        *(paragraph(cut(sentence, 600)) for sentence in record.sentences),
        table(columns, rows, range(1, len(columns) - 1), caption),
        paragraph(f"Count models on the same test bytes, in bits per byte: {known}.") if known else None,
        paragraph(DOMINATES, classes="muted"),
    )


def _picture(record: ProtocolRecord, run: Run) -> Element | None:
    tested = [row for row in record.rows if row.test is not None]
    if not tested:
        return None
    limit = run.settings.protocol.limit
    cost = (
        Axis("cache", "bytes", minimise=True) if limit == "cache_bytes" else Axis("size", "parameters", minimise=True)
    )
    points = [
        FrontPoint(
            row.name,
            float(getattr(row, limit)),
            None if row.test is None else row.test.mean,
            state="front" if row.role == "finalist" else "dominated",
            y_spread=_range(row),
            label=row.name,
            title=row.genome,
        )
        for row in tested
        if row.role != "baseline"
    ]
    baselines = [
        BaselinePoint(
            row.name, float(getattr(row, limit)), None if row.test is None else row.test.mean, y_spread=_range(row)
        )
        for row in tested
        if row.role == "baseline"
    ]
    names: dict[State, str] = {"front": "finalist", "dominated": "random search"}
    svg = front_chart(points, cost, Axis("test bits per byte", minimise=True), baselines, step_line=False, names=names)
    caption = (
        "The test split: diamonds are finalists of the search, discs what random search found by the same rule, "
        "triangles the baselines, each at its own tuned learning rate. Bars are ranges over seeds."
    )
    return section("picture", "Picture", figure(svg, caption))


def _range(row: TableRow) -> tuple[float, float] | None:
    return (row.test.low, row.test.high) if row.test is not None and row.test.count > 1 else None


def _courses(record: ProtocolRecord) -> Element | None:
    lines = [
        Series(
            {"search": "search", "random": "random search"}[name], [(float(count), value) for count, value in course]
        )
        for name, course in record.courses.items()
        if course
    ]
    if not lines:
        return None
    svg = line_chart(lines, Axis("evaluations"), Axis("best bits per byte", minimise=True))
    caption = "The best so far on validation, at equal evaluations. Both begin with the same generation."
    if any(record.stopped.values()):
        caption += " Evaluations that stopped at a rung count, and their scores do not."
    return section("searches", "Search and random search", figure(svg, caption))


def _rates(record: ProtocolRecord) -> Element | None:
    rates = sorted({rate for row in record.rows for rate in row.rates})
    if not rates:
        return None
    rows = [
        [row.name, *(show(row.rates.get(rate), padded=True) for rate in rates), f"{row.learning_rate or 0:g}"]
        for row in record.rows
        if row.rates
    ]
    columns = ["model", *(f"{rate:g}" for rate in rates), "chosen"]
    caption = "Validation loss in nats per token of a short training at each learning rate."
    said = None if record.rate is None else paragraph(f"Candidates of both searches are trained at {record.rate:g}.")
    return section("rates", "Learning rates", said, table(columns, rows, range(1, len(columns)), caption))


def _stages(record: ProtocolRecord) -> Element:
    genomes: list[Sequence[Content]] = [
        [row.name, element("code", row.individual or "–"), element("code", row.genome)] for row in record.rows
    ]
    found = details("Genomes", table(["model", "individual of the search", "genome"], genomes))
    return stage_section(record.stages, stage_words, found)
