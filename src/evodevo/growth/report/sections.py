"""The growth of networks, as a section of the page of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evodevo.experiments.comparison import ComparisonTable, series_of
from evodevo.experiments.report.parts import PagePart
from evodevo.growth.report.caps import cap_table
from evodevo.growth.report.data import GrowthHistory
from evodevo.growth.report.drawing import CAP_WORDS, cap_drawings, curve_drawing, family_drawing, timeline_drawing
from evodevo.growth.report.forks import fork_table
from evodevo.growth.report.race import race_table
from evodevo.growth.report.reading import grown_network
from evodevo.growth.report.shifts import shift_table
from evodevo.growth.report.tables import (
    GrownRow,
    arms_table,
    decisions_table,
    grown_rows,
    hybrids_table,
    missing_rivals,
)
from evodevo.growth.report.text import HISTORY, edit_words, growth_words, history
from evodevo.h_model.draw import h_model_drawing
from evodevo.h_model.network import structure_of_h_model
from evodevo.report.html import cut, details, element, paragraph, section
from evodevo.report.word_tables import CaptionedDrawing, TextTable, pictures, words_table
from evodevo.runs.archive import Individual, Run

CAP_CAPTION = "{}: the cap in force, and what the network costs after each event; marks are events with their edits."
DIFFERING = ("event", "it did", "the heuristic would have done")
_MOST_OTHERS = 4
"""Trainings of an arm beside its best one whose growth is drawn."""


class GrowthPart(PagePart):
    """The table of all arms, hybrids, and for each arm its best training, the others folded."""

    def section(self, run: Run, table: ComparisonTable) -> Element | None:
        rows = grown_rows(table)
        if not rows:
            return None
        content: list[Element] = [words_table(arms_table(rows)), words_table(decisions_table(rows))]
        hybrids = hybrids_table(rows)
        if hybrids is not None:
            content += [element("h3", "Hybrids"), words_table(hybrids)]
        for row in rows:
            if any(growth.events or growth.race for _, growth in row.grown):
                content += _arm(row)
        return section("growth", "Growth", *content)

    def remarks(self, run: Run, table: ComparisonTable) -> Sequence[str]:
        return missing_rivals(run.settings.experiment.arms)


GROWTH = GrowthPart()


def _arm(row: GrownRow) -> list[Element]:
    best, *others = sorted(row.grown, key=lambda pair: -pair[0].fact["validation"]["accuracy"])
    folded = [
        details(cut(individual.title, 160), *_training(individual, growth))
        for individual, growth in others[:_MOST_OTHERS]
    ]
    return [element("h3", cut(f"How {row.name} grew", 160)), *_training(*best), *folded]


def _training(individual: Individual, growth: GrowthHistory) -> list[Element]:
    words = " ".join([f"{individual.title}.", *growth_words(growth)])
    caption = "Accuracy on the architecture split, before the event's edits."
    edits = words_table(TextTable(HISTORY, history(growth), caption, ("what",)))
    content = [paragraph(cut(words, 900)), *pictures(growth_pictures(individual, growth)), details("Every edit", edits)]
    raced = race_table(growth)
    if raced is not None:
        content.insert(1, details("The race before it", words_table(raced)))
    forked = fork_table(growth.forks)
    if forked is not None:
        content.append(details("Forks: what each edit was worth", words_table(forked)))
    capped = cap_table(growth)
    if capped is not None:
        content.append(details("Where the cap fell: which networks could go on", words_table(capped)))
    shifted = shift_table(growth)
    if shifted is not None:
        content.append(details("Where the data shifted: which network went on", words_table(shifted)))
    unlike = differing_table(growth)
    if unlike is not None:
        content.append(details("Where it decided otherwise than the heuristic", words_table(unlike)))
    born = newborn_pictures(growth)
    if born:
        count = len(born)
        summary = f"{count} newborn{'s' if count > 1 else ''} beside {'their' if count > 1 else 'its'} parents"
        content.append(details(summary, *pictures(born)))
    return content


def growth_pictures(individual: Individual, growth: GrowthHistory) -> list[CaptionedDrawing]:
    """Timelines and curves of a training, and the H-Model that it left."""
    how = "A lane per module, as thick as its {} at each probe; events are numbered above."
    timeline = timeline_drawing(growth, "contribution", title=individual.title)
    usage = timeline_drawing(growth, "usage", title=individual.title)
    curve = (
        "Error on the validation split, which chooses the weights, and on the architecture split, the only one that "
        "growth reads; marks are events with their edits."
    )
    structure = structure_of_h_model(grown_network(individual))
    drawn = (
        [
            CaptionedDrawing(
                h_model_drawing(structure, title=individual.id, subtitle=individual.title),
                "The network in the end.",
            )
        ]
        if structure is not None
        else []
    )
    return [
        CaptionedDrawing(timeline, how.format("contribution")),
        CaptionedDrawing(usage, how.format("mean router weight"), folded="The same by router weight"),
        CaptionedDrawing(curve_drawing(growth, series_of(individual)), curve),
        *(CaptionedDrawing(drawing, CAP_CAPTION.format(CAP_WORDS[name])) for name, drawing in cap_drawings(growth)),
        *drawn,
    ]


def differing_table(growth: GrowthHistory) -> TextTable | None:
    """Decisions in which the strategist did otherwise than its prior; None where there are none."""
    rows = [(str(choice["event"]), choice["action"], choice["prior"]) for choice in growth.differing]
    caption = f"{len(rows)} of {growth.decisions} decisions."
    return TextTable(DIFFERING, rows, caption, DIFFERING[1:]) if rows else None


def newborn_pictures(growth: GrowthHistory) -> list[CaptionedDrawing]:
    """Each newborn beside its parents, folded."""
    pictures = []
    for life in growth.lives:
        if life.operation != "start":
            edit = next(birth for birth in growth.accepted if birth.module == life.id)
            pictures.append(CaptionedDrawing(family_drawing(life, edit.before), folded=edit_words(edit)))
    return pictures
