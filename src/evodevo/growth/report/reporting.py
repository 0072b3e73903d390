"""The growth of the networks of an experiment: the data of the report's section."""

from __future__ import annotations

from evodevo.experiments.comparison import Table, series_of
from evodevo.experiments.report.model import Picture, Words
from evodevo.growth.report.data import Growth, Life
from evodevo.growth.report.drawing import curve_drawing, family_drawing, timeline_drawing
from evodevo.growth.report.page_data import GrownArm, GrownTraining, GrowthPart
from evodevo.growth.report.reading import grown_network
from evodevo.growth.report.tables import GrownRow, arms_table, decisions_table, grown_rows, hybrids_table
from evodevo.growth.report.words import HISTORY, edit_words, growth_words, history
from evodevo.h_model.draw import h_model_drawing
from evodevo.h_model.network import HModelNetwork
from evodevo.runs.archive import Individual

DIFFERING = ("event", "it did", "the heuristic would have done")
_MOST_OTHERS = 4
"""Trainings of an arm beside its best one whose growth is drawn."""


def growth_part(table: Table) -> GrowthPart | None:
    """Everything that the section shows; None where no arm could grow."""
    rows = grown_rows(table)
    if not rows:
        return None
    return GrowthPart(
        arms_table(rows), decisions_table(rows), hybrids_table(rows), [_arm(row) for row in rows if _had_events(row)]
    )


def _had_events(row: GrownRow) -> bool:
    return any(one.events for _, one in row.grown)


def _arm(row: GrownRow) -> GrownArm:
    order = sorted(row.grown, key=lambda pair: -pair[0].fact["validation"]["accuracy"])
    shown = [_training(one, growth) for one, growth in order[: 1 + _MOST_OTHERS]]
    return GrownArm(row.name, shown[0], shown[1:])


def _training(one: Individual, growth: Growth) -> GrownTraining:
    how = "A lane per module, as thick as its {} at each probe; events are numbered above."
    timeline = timeline_drawing(growth, "contribution", title=one.title)
    usage = timeline_drawing(growth, "usage", title=one.title)
    curve = (
        "Error on the validation split, which chooses the weights, and on the architecture split, which is all that "
        "growth sees; marks are events with their edits."
    )
    network = grown_network(one)
    drawn = (
        [Picture(h_model_drawing(network.structure, title=one.id, subtitle=one.title), "The network in the end.")]
        if isinstance(network, HModelNetwork)
        else []
    )
    return GrownTraining(
        title=one.title,
        summary=growth_words(growth),
        pictures=[
            Picture(timeline, how.format("contribution")),
            Picture(usage, how.format("mean router weight"), folded="The same by router weight"),
            Picture(curve_drawing(growth, series_of(one)), curve),
            *drawn,
        ],
        history=Words(
            HISTORY, history(growth), "Accuracy on the architecture split, before the event's edits.", ("what",)
        ),
        differing=_differing(growth),
        newborns=[_newborn(life, growth) for life in growth.lives if life.operation != "start"],
    )


def _differing(growth: Growth) -> Words | None:
    rows = [(str(one["event"]), one["action"], one["prior"]) for one in growth.differing]
    caption = f"{len(rows)} of {growth.decisions} decisions."
    return Words(DIFFERING, rows, caption, DIFFERING[1:]) if rows else None


def _newborn(life: Life, growth: Growth) -> Picture:
    edit = next(one for one in growth.accepted if one.module == life.id)
    return Picture(family_drawing(life, edit.before), folded=edit_words(edit))
