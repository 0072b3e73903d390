"""The backbone's sections of a search's page: drawings, the population as strips and as averages per generation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element

from evodevo.backbone.diagrams.composition import Composition, composition_chart
from evodevo.backbone.diagrams.genome import Arc, backbone_diagram
from evodevo.backbone.diagrams.glyph_line import StripRow, population_strips
from evodevo.backbone.draw import BackboneDrawing, drawn, mixes_in_each_half
from evodevo.backbone.motifs.section import motif_section
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series, line_chart
from evodevo.report.charts.numbers import show
from evodevo.report.html import cut, details, element, figure, paragraph, section, table
from evodevo.report.svg import clean
from evodevo.runs.archive import Individual
from evodevo.runs.report.view import GenomeParts, ReportView, short


class BackboneParts(GenomeParts):
    """See ``GenomeParts``."""

    def drawn(self, individual: Individual) -> BackboneDrawing:
        return drawn(individual.plan, individual.run.space.canonical(individual.genome))

    def text(self, individual: Individual) -> str:
        return individual.title

    def remark(self, individual: Individual) -> str:
        return "" if mixes_in_each_half(individual.plan) else "no token mixer in one half of its depth"

    def genomes(self, view: ReportView) -> Element | None:
        return genome_section(view)

    def progress(self, view: ReportView) -> list[Element]:
        return composition_figures(view)

    def motifs(self, view: ReportView) -> Element | None:
        return motif_section(view)

    def population(self, view: ReportView) -> Element | None:
        return strip_section(view)


def genome_section(view: ReportView) -> Element | None:
    shown_ones = [(one, view.drawing(one)) for one in [*view.front, *view.baselines]]
    drawable = [(one, backbone) for one, backbone in shown_ones if backbone]
    small = [entry for entry in drawable if len(entry[1].livs) <= view.detail.livs]
    shown = small[: view.detail.genomes]
    if not shown:
        return None
    grid = element("div", classes="genomes")
    fronts = {one.id for one in view.front}
    for one, backbone in shown:
        on_front = one.id in fronts
        name, caption = short(one.id) if on_front else cut(one.name), view.caption(one)
        svg = backbone_diagram(
            backbone.livs, backbone.feature_arcs, backbone.featurizer_arcs, backbone.residual_arcs, name, caption
        )
        words = [paragraph(word[: view.detail.text]) for word in list(backbone.words)[:10]]
        birth = paragraph(view.birth(one), classes="muted") if on_front else None
        text = details("Genome as text", element("code", clean(backbone.text, 8000))) if backbone.text else None
        grid.append(element("div", figure(svg, "", classes="fits"), birth, *words, text, classes="genome"))
    explanation = (
        "First LIV at the top. Dashed arcs on the left: feature groups that a LIV takes from an earlier one (what "
        "is taken stands at the arrow). Solid arcs on the right: featurizer weights that two LIVs share. Hollow "
        "glyphs and double boxes: differential forms."
    )
    count = f" {len(shown)} of {len(drawable)} are drawn." if len(shown) < len(drawable) else ""
    return section("genomes", "Architectures", paragraph(explanation + count), grid)


def composition_figures(view: ReportView) -> list[Element]:
    populations = {row["generation"]: row.get("population", []) for row in view.generations}
    groups = {
        generation: [one for one in view.individuals if one.id in set(ids)] for generation, ids in populations.items()
    }
    for individual in [] if populations else view.individuals:
        groups.setdefault(individual.generation, []).append(individual)
    members: dict[int, list[BackboneDrawing]] = {
        generation: [backbone for one in group if (backbone := view.drawing(one))]
        for generation, group in groups.items()
    }
    members = {generation: backbones for generation, backbones in sorted(members.items()) if backbones}
    if not members:
        return []
    families = {cut(liv.name, 60): liv.family for group in members.values() for b in group for liv in b.livs}
    if len(families) > 20:  # more names than fit beside the bars
        families = {family: family for family in families.values()}
    counts = []
    for generation, group in members.items():
        names = Counter(cut(liv.name, 60) for b in group for liv in b.livs)
        if not names.keys() <= families.keys():
            names = Counter(liv.family for b in group for liv in b.livs)
        counts.append(Composition(generation, {name: n / len(group) for name, n in names.items()}))
    born = "population" if populations else "individuals born in each generation"
    columns = sorted(families, key=lambda name: (families[name], name))
    rows = [[str(c.generation), *(f"{c.counts.get(name, 0.0):.2f}" for name in columns)] for c in counts]
    numbers = table(["generation", *columns], rows, range(len(columns) + 1))
    caption = f"Mean number of LIVs of each class per genome ({born}; compare the paper's Fig. 5.4)."
    figures = [figure(composition_chart(counts, families), caption, numbers)]
    kinds: dict[str, Callable[[BackboneDrawing], Sequence[Arc]]] = {
        "feature groups": lambda backbone: backbone.feature_arcs,
        "featurizers": lambda backbone: backbone.featurizer_arcs,
    }
    shared = [
        Series(name, [(float(g), sum(_borrowers(arcs(b)) for b in group) / len(group)) for g, group in members.items()])
        for name, arcs in kinds.items()
    ]
    if any(value for series in shared for _, value in series.points):
        svg = line_chart(shared, Axis("generation"), Axis("LIVs that borrow, per genome"), include_zero=True)
        figures.append(figure(svg, f"Mean number of LIVs per genome that borrow from an earlier one ({born})."))
    return figures


def _borrowers(arcs: Sequence[Arc]) -> int:
    return len({arc.borrower for arc in arcs})


def strip_section(view: ReportView) -> Element | None:
    having = sorted(
        (one for one in view.individuals if view.state(one) != "failed" and view.drawing(one)), key=view.order
    )
    rows, goals = [], view.goals[:3]
    for individual in having[: view.detail.strips]:
        backbone = view.drawing(individual)
        if len(backbone.livs) <= view.detail.livs:
            arcs = [*backbone.feature_arcs, *backbone.featurizer_arcs]
            values = (show(view.scores(individual).get(goal.name), goal.unit, padded=True) for goal in goals)
            mark = "◆ " if view.state(individual) == "front" else ""
            rows.append(
                StripRow(mark + short(individual.id), backbone.livs, arcs, " · ".join(values), view.birth(individual))
            )
    if not rows:
        return None
    caption = (
        f"One row per genome{view.listed(len(rows), len(having))}, best first; one cell per LIV: ■ attention, "
        "● recurrence, ▲ convolution, ▬ memoryless, hollow for differential forms; cells of one tint in a row "
        "share feature groups or featurizers; ◆ is on the front."
    )
    return section(
        "population",
        "Population",
        figure(population_strips(rows, " · ".join(cut(goal.name, 40) for goal in goals)), caption, classes=""),
    )
