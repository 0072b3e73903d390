"""The course of a growing backbone as a picture: its validation loss, with a mark for every event."""

from __future__ import annotations

from evodevo.experiments.comparison import series_of
from evodevo.growth.backbone.records import BackboneEvent, events_of, race_of
from evodevo.growth.diagrams.curve import EditMark, growth_curve
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series, thin
from evodevo.runs.archive import Individual

CAPTION = "{}: validation loss in nats; marks are events, with the edits that the network has from there on."
_POINTS = 200
_SIGNS = {"remove": "prune"}
"""Signs of edits that zoos have under another name."""


def growth_drawing(individual: Individual) -> str:
    """The validation loss over the steps of all networks of a training, those of the race first, as SVG."""
    series, race = series_of(individual), race_of(individual)
    raced = 0 if race is None else race.steps
    marks = [_mark(event, raced) for event in events_of(individual) or () if event.edits]
    lines = [Series("validation", thin(list(series.get("validation_loss", ())), _POINTS))]
    return growth_curve(lines, marks, Axis("steps"), Axis("loss", minimise=True))


def _mark(event: BackboneEvent, raced: int) -> EditMark:
    kinds = tuple(_SIGNS.get(edit.kind, edit.kind) for edit in event.edits) if event.kept else ()
    return EditMark(event.number, float(raced + event.step), kinds, event.told)
