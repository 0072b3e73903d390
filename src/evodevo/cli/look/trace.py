"""``evodevo trace``: show the connections between layers, in every iteration."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evodevo.cli import output
from evodevo.cli.files import write_text
from evodevo.cli.options import DEFAULT_STORE, Given, IndividualName, Json, StoreFolder, count_option, parse_given

if TYPE_CHECKING:
    from evodevo.h_model.report.data import RoutingReport
    from evodevo.h_model.trace.run import Traced, Tracer

MOST_SAMPLES = 20_000
DEFAULT_SAMPLES = 200


class TraceSplit(StrEnum):
    """Splits of a task."""

    train = "train"
    validation = "validation"
    test = "test"


def trace(
    individual: IndividualName,
    given: Given = None,
    split: Annotated[TraceSplit, typer.Option(help="Split of the traced samples.")] = TraceSplit.validation,
    samples: Annotated[int, count_option("Number of samples.")] = DEFAULT_SAMPLES,
    per: Annotated[str | None, typer.Option(metavar="FACT", help="Means per class: language, depth, answer …")] = None,
    difference: Annotated[
        str | None, typer.Option(metavar="A,B", help="Two classes of --per whose routing is compared.")
    ] = None,
    probe: Annotated[
        str | None, typer.Option(metavar="FACT", help="Fact that a linear probe reads from the routes, with controls.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Draw every connection in an .svg, however weak; else the strong ones.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="An .html page or .svg.  [default: trace-ID.html]"),
    ] = None,
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Draw the routing of a trained H-Model: one sample, means of classes, patterns, activity of layers."""
    from evodevo.errors import UsageError
    from evodevo.h_model.trace.run import Tracer
    from evodevo.runs.archive import Archive

    values = parse_given(given or [])
    if not 1 <= samples <= MOST_SAMPLES:
        raise UsageError(f"--samples is {samples}; it must be 1 to {MOST_SAMPLES:,}.")
    if values and (per or probe or difference):
        raise UsageError("--per, --probe and --difference are about many samples; leave --input out.")
    if out is not None and out.suffix.lower() not in (".html", ".svg"):
        raise UsageError(f"{out} is neither an .html page nor an .svg drawing; name a file of one of these.")
    if everything and (out is None or out.suffix.lower() != ".svg"):
        raise UsageError("--all is about a drawing; name it: -o FILE.svg.")
    with Archive(store) as archive:
        tracer = Tracer(archive.individual(individual))
        traced = tracer.given(values) if values else tracer.samples(split.value, samples)
        fact = per or traced.default_fact
        report = tracer.report(traced, fact=fact, probe=probe or "")
        pair = _pair(report, difference) if difference else None
        path = out or Path(f"trace-{tracer.individual.id}.html")
        if out is not None or not json:
            _write(path, report, per, pair, everything=everything)
        if json:
            _document(tracer, traced, report, path if out is not None else None)
            return
        _words(report)
        output.line(str(path.absolute()))


def _pair(report: RoutingReport, difference: str) -> tuple[int, int]:
    """Indices of the two classes."""
    from evodevo.errors import UsageError, unknown_name

    names = [each.name for each in report.classes]
    wanted = [name.strip() for name in difference.split(",")]
    if len(wanted) != 2:
        raise UsageError(f"--difference takes two classes with a comma, for example {','.join(names[:2])}.")
    for name in wanted:
        if name not in names:
            raise unknown_name(f"value of {report.fact or 'any fact'}", name, names)
    return names.index(wanted[0]), names.index(wanted[1])


def _write(
    path: Path, report: RoutingReport, per: str | None, pair: tuple[int, int] | None, *, everything: bool
) -> None:
    if path.suffix.lower() == ".html":
        from evodevo.h_model.report.page import routing_page

        write_text(path, routing_page(report))
    else:
        write_text(path, _drawing(report, per, pair, everything=everything))


def _drawing(report: RoutingReport, per: str | None, pair: tuple[int, int] | None, *, everything: bool) -> str:
    """The drawing: of the difference, of the means of the classes, or of the mean of all."""
    from evodevo.h_model.diagrams.flow import mean_flow
    from evodevo.h_model.diagrams.layout import Limits
    from evodevo.h_model.diagrams.routing import routing_diagram, routing_difference
    from evodevo.report.stack import stacked

    trace, limits = report.trace, Limits.none() if everything else None
    if pair:
        first, other = (report.classes[place] for place in pair)
        means = [mean_flow(trace.select(each.places)) for each in (first, other)]
        return routing_difference(means[0], means[1], (first.name, other.name), limits=limits)
    if per:
        fact = report.fact
        drawn = [
            routing_diagram(mean_flow(trace.select(row.places)), f"{fact}: {row.name}", limits=limits)
            for row in report.classes
        ]
        return stacked(drawn, f"{report.title}: means by {report.fact}")
    caption = " · ".join(f"{name}: {text}" for name, text in trace.samples[0].items()) if trace.count == 1 else ""
    return routing_diagram(mean_flow(trace), report.title, caption, limits)


def _document(tracer: Tracer, traced: Traced, report: RoutingReport, path: Path | None) -> None:
    from evodevo.h_model.trace.summary import report_json

    where = {"split": traced.split, "file": None if path is None else str(path.absolute())}
    output.document("evodevo.trace/1", {"individual": tracer.individual.id, **where, **report_json(report)})


def _words(report: RoutingReport) -> None:
    """Print the findings in a few lines."""
    patterns, chain = len(report.patterns.shares), report.chain
    count = report.trace.count
    output.words(
        f"{count:,} sample{'s' if count != 1 else ''}: {report.paths:,} hard path{'s' if report.paths != 1 else ''}, "
        f"{patterns} routing pattern{'s' if patterns != 1 else ''}; likeness to a chain {chain.likeness:.2f} "
        f"(equal connections {chain.uniform:.2f})."
    )
    for probe in report.probes:
        accuracies = ", ".join(f"{name} {accuracy:.3f}" for name, accuracy in probe.rows)
        output.words(f"{probe.fact}: {accuracies}.")
        if probe.gain:
            value, low, high = probe.gain
            output.words(f"gain over the untrained model {value:+.3f} (95 % {low:+.3f} to {high:+.3f}).")
