"""A recorded growth drawn: the zoo's timeline, the validation curve with its edits, newborns beside their parents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from evodevo.growth.diagrams.curve import EditMark, growth_curve
from evodevo.growth.diagrams.lanes import EventMark, Lane, Point
from evodevo.growth.diagrams.timeline import growth_timeline
from evodevo.growth.growable import OPAQUE
from evodevo.growth.report.data import GrowthHistory, Happening, Life, Measure, Sight
from evodevo.growth.report.text import birth_words, death_words, done_words, edit_words, reward_words
from evodevo.module_zoo.draw import module_drawing
from evodevo.module_zoo.modules.families import family_of, family_of_archetype
from evodevo.module_zoo.modules.spec import HYBRID, ModuleGenotype
from evodevo.module_zoo.modules.zoo import words as genotype_words
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Point as CurvePoint
from evodevo.report.charts.curves import Series, thin
from evodevo.report.charts.numbers import plain
from evodevo.report.stack import stacked

MEASURE_WORDS: dict[Measure, str] = {
    "contribution": "contribution",
    "usage": "mean router weight",
    "impact": "loss that it saves",
    "fitness": "fitness",
}
_POINTS = 64


def timeline_drawing(growth: GrowthHistory, measure: Measure, *, title: str = "", subtitle: str = "") -> str:
    """The time span and the measure of each module, as SVG.

    Args:
        growth: growth of one training.
        measure: measure shown by the lanes' thickness.
        title, subtitle: text above the drawing.
    """
    again = [
        (edit.action.modules[0], event.step)
        for event in growth.events
        for edit in event.edits
        if edit.module is not None and edit.action.operation == "rewarm"
    ]
    lanes = [
        Lane(
            id=life.id,
            archetype=life.archetype,
            family=family_of_archetype(life.archetype) if life.genotype is None else family_of(life.genotype),
            start=life.born_step,
            end=life.gone_step,
            birth="" if life.operation == "start" else life.operation,
            parents=life.parents,
            heir=life.heir,
            points=[Point(sight.step, sight.values.get(measure), _sight_words(sight)) for sight in life.sights],
            again=[step for name, step in again if name == life.id],
            enlarged=life.enlarged,
            words=_life_words(life),
        )
        for life in growth.lives
    ]
    marks = [EventMark(event.number, event.step, _event_words(event)) for event in growth.events]
    return growth_timeline(lanes, marks, growth.steps, MEASURE_WORDS[measure], Axis("steps"), title, subtitle)


def curve_drawing(growth: GrowthHistory, series: Mapping[str, Sequence[CurvePoint]]) -> str:
    """The validation error over steps with a mark for every event, as SVG.

    Args:
        growth: growth of one training.
        series: series of its evaluation, by name.
    """
    lines = (
        [Series("validation", thin(list(series["validation_error"]), _POINTS))] if "validation_error" in series else []
    )
    # What growth itself saw: it never sees the validation split.
    probed = thin([(step, 1.0 - value) for step, value in growth.probes], _POINTS)
    lines += [Series("architecture split", probed)] if probed else []
    return growth_curve(lines, _edit_marks(growth), Axis("steps"), Axis("error", minimise=True))


def cap_drawings(growth: GrowthHistory) -> list[tuple[str, str]]:
    """For each limit that falls: its name, and the cost of the network below it over steps, as SVG."""
    caps = growth.caps
    if caps is None or not caps["falls"]:
        return []
    marks = _edit_marks(growth)
    drawn = []
    for name in caps["falls"][-1]["limits"]:
        begun = [(0.0, float(caps["limits"][name]))] if name in caps["limits"] else []
        falls = [(float(fall["step"]), float(fall["limits"][name])) for fall in caps["falls"] if name in fall["limits"]]
        costs = [(float(row["step"]), float(row["costs"][name])) for row in caps["costs"] if name in row["costs"]]
        lines = [
            Series("cap", _stairs([*begun, *falls], growth.steps)),
            Series("the network", _stairs(costs, growth.steps)),
        ]
        drawn.append((name, growth_curve(lines, marks, Axis("steps"), Axis(CAP_WORDS[name], CAP_UNITS[name]))))
    return drawn


CAP_WORDS = {
    "parameters": "parameters",
    "flops": "FLOPs of a sample",
    "memory_bytes": "memory of a training step",
    "latency": "time of a batch",
}
CAP_UNITS = {"parameters": "parameters", "flops": "flops", "memory_bytes": "bytes", "latency": "seconds"}


def _stairs(points: Sequence[tuple[float, float]], end: float) -> list[CurvePoint]:
    """Each value holds until the next one, the last until the end."""
    stairs: list[CurvePoint] = []
    for (x, value), (following, _) in zip(points, [*points[1:], (end, 0.0)], strict=True):
        stairs += [(x, value), (following, value)]
    return stairs


def _edit_marks(growth: GrowthHistory) -> list[EditMark]:
    return [
        EditMark(
            event.number,
            event.step,
            [edit.action.operation for edit in event.edits if edit.module is not None],
            _event_words(event),
        )
        for event in growth.events
    ]


def family_drawing(life: Life, parents: Mapping[str, ModuleGenotype]) -> str:
    """The graph of a newborn below those of its parents, as SVG.

    Args:
        life: the newborn, with its genotype.
        parents: id -> genotype.
    """
    assert life.genotype is not None
    drawn = [module_drawing(parents[name], title=f"parent {name}") for name in life.parents if name in parents]
    drawn.append(module_drawing(life.genotype, title=life.id, subtitle=difference_words(life, parents)))
    return drawn[0] if len(drawn) == 1 else stacked(drawn, f"{life.id} and its parents")


def difference_words(life: Life, parents: Mapping[str, ModuleGenotype]) -> str:
    """Parts of a newborn that come from its parents, and its new parts."""
    assert life.genotype is not None
    first = parents.get(life.parents[0]) if life.parents else None
    if life.genotype.archetype == HYBRID:
        begun = Counter(node.lineage.partition("/")[0] or life.id for node in life.genotype.graph.nodes)
        parts = [f"{count} new" if name == life.id else f"{count} begun by {name}" for name, count in begun.items()]
        return f"made of two; nodes: {', '.join(parts)}"
    if first is None or first.archetype != life.genotype.archetype:
        return birth_words(life)
    changed = [
        f"{name.replace('_', ' ')} {_attribute(first.attributes.get(name))} → {_attribute(value)}"
        for name, value in life.genotype.attributes.items()
        if value != first.attributes.get(name)
    ]
    return f"grown; {', '.join(changed) or 'no attribute changed'}"


def _attribute(value: object) -> str:
    return plain(value, 3) if isinstance(value, float) else str(value)


def _sight_words(sight: Sight) -> str:
    when = f"event {sight.event}, step {sight.step:,.0f}" if sight.event else f"step {sight.step:,.0f}"
    return "\n".join([when, *(f"{MEASURE_WORDS[name]} {value:.3g}" for name, value in sight.values.items())])


def _life_words(life: Life) -> str:
    parts = [] if life.genotype is None or life.archetype == OPAQUE else [genotype_words(life.genotype)]
    enlarged = [f"{done_words(operation)} at step {step:,.0f}" for step, operation in life.enlarged]
    return "\n".join(filter(None, [*parts, birth_words(life), *enlarged, death_words(life)]))


def _event_words(event: Happening) -> str:
    done = [edit_words(edit) for edit in event.edits] or ["nothing was changed"]
    when = f"step {event.step:,.0f}, {event.share:.0%} of the budget"
    before = f"before it: accuracy {event.value:.3f}, loss {event.loss:.3f} on the architecture split"
    return "\n".join(filter(None, [when, *done, before, reward_words(event)]))
