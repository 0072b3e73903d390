"""The zoos of an experiment for its report: routing to their modules, and drawings of the trained networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import Element

from evodevo.experiments.comparison import ComparisonTable
from evodevo.experiments.report.parts import PagePart
from evodevo.growth.report.reading import grown_network, growth_of, started
from evodevo.module_zoo.draw import drawing_of, module_drawing, routing_drawings
from evodevo.module_zoo.network import structure_of_zoo
from evodevo.module_zoo.spec import ZooStructure
from evodevo.report.html import cut, element, section
from evodevo.report.word_tables import CaptionedDrawing, TextTable, pictures, words_table
from evodevo.runs.archive import Individual, Run
from evodevo.runs.drive import ABLATE


class ZooPart(PagePart):
    """Shares of the routers; drawings of the training of each arm that was best on validation data."""

    def section(self, run: Run, table: ComparisonTable) -> Element | None:
        shares = router_shares(table)
        content: list[Element] = [] if shares is None else [words_table(shares)]
        for name, drawn in ({} if run.kind == ABLATE else zoo_pictures(table)).items():
            content += [element("h3", cut(name, 160)), *pictures(drawn)]
        return section("zoos", "Zoos", *content) if content else None


ZOOS = ZooPart()


def router_shares(table: ComparisonTable) -> TextTable | None:
    """Mean router weight of each module, over seeds; None where no arm is a zoo."""
    by_arm: dict[str, tuple[dict[str, list[float]], list[Mapping[str, Any]]]] = {}
    for row in table.rows:
        routings = [individual.fact["routing"] for individual in row.trainings if "routing" in individual.fact]
        if routings:
            each: dict[str, list[float]] = {}
            for individual in row.trainings:
                for name, weight in _shares(individual).items():
                    each.setdefault(name, []).append(weight)
            by_arm[row.group] = (each, routings)
    if not by_arm:
        return None
    ids = list(dict.fromkeys(name for each, _ in by_arm.values() for name in each))
    rows = [
        (
            group,
            f"{_mean([routing['effective'] for routing in routings]):.2f}",
            f"{_mean([routing['support'] for routing in routings]):.2f}",
            f"{_mean([routing['run'] for routing in routings]):.2f}",
            *(f"{100 * _mean(each[name]):.1f}" if name in each else "–" for name in ids),
        )
        for group, (each, routings) in by_arm.items()
    ]
    caption = (
        "Mean router weight of each module in percent, on validation samples, mean over seeds; effective modules are "
        "1 / sum of squared weights, run ones were computed."
    )
    if NEWBORNS in ids:
        caption += " Newborns are all that were not there from the start, together; the section on growth has each."
    return TextTable(("arm", "effective", "with weight", "run", *ids), rows, caption)


NEWBORNS = "newborns"


def _shares(individual: Individual) -> dict[str, float]:
    """Module -> mean router weight; newborns, which have other names in every training, together."""
    routing = individual.fact.get("routing", {"ids": (), "weights": ()})
    shares: dict[str, float] = dict(zip(routing["ids"], routing["weights"], strict=True))
    if growth_of(individual) is None:
        return shares
    start = {module.id for module in started(individual)}
    born = {name: weight for name, weight in shares.items() if name not in start}
    known = {name: weight for name, weight in shares.items() if name in start}
    return {**known, NEWBORNS: sum(born.values())} if born else known


def zoo_pictures(table: ComparisonTable) -> dict[str, list[CaptionedDrawing]]:
    """Arm -> drawings of the training that was best on validation data."""
    drawings = {}
    for row in table.rows:
        if row.trainings:
            best = max(row.trainings, key=lambda individual: individual.fact["validation"]["accuracy"])
            structure = structure_of_zoo(grown_network(best))
            if structure is not None:
                drawings[row.group] = _pictures(structure, best)
    return drawings


def _pictures(structure: ZooStructure, individual: Individual) -> list[CaptionedDrawing]:
    caption = "The network; the bar of a module is its mean router weight on validation samples."
    drawn = [CaptionedDrawing(drawing_of(structure, individual, individual.title), caption)]
    for fact, svg in routing_drawings(individual.fact.get("routing", {})).items():
        drawn.append(CaptionedDrawing(svg, f"Router weights by {fact}, on validation samples."))
    drawn += [
        CaptionedDrawing(module_drawing(module.genotype, title=module.id), folded=f"The graph of {module.id}")
        for module in structure.live
    ]
    return drawn


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
