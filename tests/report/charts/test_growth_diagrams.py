"""Growth drawn: every module has its lane and every event its mark, inside the sheet; thickness follows the value."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.growth.diagrams.curve import EditMark, growth_curve
from evodevo.growth.diagrams.edit_glyphs import LETTERS, WORDS
from evodevo.growth.diagrams.lanes import EventMark, Lane, Point, course, family_order
from evodevo.growth.diagrams.timeline import growth_timeline
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series
from evodevo.report.palette import MODULE_COLOURS
from report.charts.drawn import SVG, marked, size_of, words_of

END = 1000.0
VALUE = st.none() | st.floats(allow_nan=True, allow_infinity=True)
OPERATIONS = st.lists(st.sampled_from(["grow", "spawn", "hybridise", "prune", "rewarm", "widen", "deepen"]), max_size=9)
NUMBERS = re.compile(r"-?\d+(?:\.\d+)?")
OVER = Axis("steps")


@st.composite
def zoos(draw: st.DrawFn) -> list[Lane]:
    """Lanes in order of birth, whose parents were born before."""
    lanes: list[Lane] = []
    for number in range(draw(st.integers(1, 12))):
        start = draw(st.floats(0, END)) if number else 0.0
        end = draw(st.none() | st.floats(start, END))
        names = [one.id for one in lanes]
        birth = draw(st.sampled_from(["", *LETTERS])) if number else ""
        places = sorted(draw(st.lists(st.floats(start, END if end is None else end), max_size=4)))
        lanes.append(
            Lane(
                id=f"m{number}",
                archetype=draw(st.text(max_size=9)),
                family=draw(st.sampled_from(["attention", "recurrence", "something new"])),
                start=start,
                end=end,
                birth=birth,
                parents=draw(st.lists(st.sampled_from(names), max_size=2)) if names and birth else (),
                heir=draw(st.sampled_from(["", "nobody", *names])) if end is not None else "",
                points=[Point(x, draw(VALUE)) for x in places],
                enlarged=draw(
                    st.lists(
                        st.tuples(
                            st.floats(start, END if end is None else end),
                            st.sampled_from(["widen", "deepen", "of a package that is gone"]),
                        ),
                        max_size=2,
                    )
                ),
                again=draw(st.lists(st.floats(start, END if end is None else end), max_size=1)),
            )
        )
    return lanes


def draw(lanes: list[Lane], events: list[EventMark] | None = None) -> str:
    return growth_timeline(lanes, events or [], END, "contribution", OVER, "title")


def inside(svg: str) -> None:
    """All points of lines, paths and circles, and the places of texts, lie on the sheet."""
    root = ElementTree.fromstring(svg)
    width, height = size_of(root)
    for one in root.iter():
        places: list[tuple[Any, Any]] = [
            (one.get(a), one.get(b)) for a, b in (("x", "y"), ("x1", "y1"), ("x2", "y2"), ("cx", "cy"))
        ]
        if one.tag == f"{SVG}path" and not set(one.get("d", "")) & set("aVlh"):
            numbers = NUMBERS.findall(one.get("d", ""))
            places += list(zip(numbers[::2], numbers[1::2], strict=True))
        for x, y in places:
            if x is not None and y is not None:
                assert -0.1 <= float(x) <= width + 0.1, (one.tag, one.attrib)
                assert -0.1 <= float(y) <= height + 0.1, (one.tag, one.attrib)


def thickness(svg: str, name: str) -> float:
    """The most that the band of a lane spans."""
    (lane,) = [one for one in marked(svg, "lane") if one.get("data-id") == name]
    for one in lane:
        if (one.get("class") or "").startswith("band"):
            if one.tag == f"{SVG}line":
                return 0.0
            ys = [float(y) for y in NUMBERS.findall(one.get("d", ""))[1::2]]
            return max(ys) - min(ys)
    raise AssertionError(f"{name} has no band")


# The timeline


def test_one_module_and_one_event_are_one() -> None:
    alone = Lane("mlp", "mlp", "memoryless", points=[Point(0.0, 1.0)])
    assert '"title: 1 module, 1 event"' in draw([alone], [EventMark(1, END / 2)])
    assert '"title: 2 modules, 0 events"' in draw([alone, replace(alone, id="lstm")])


def left_out(lanes: Sequence[Lane]) -> set[str]:
    """Ids of lanes that were probed and 0 throughout; none where all are."""
    seen = {
        one.id: [point.value for point in one.points if point.value is not None and math.isfinite(point.value)]
        for one in lanes
    }
    silent = {name for name, values in seen.items() if values and max(values) <= 0}
    return set() if len(silent) == len(lanes) else silent


def test_lanes_at_zero_are_only_counted() -> None:
    def lane(name: str, *values: float) -> Lane:
        return Lane(name, "mlp", "memoryless", points=[Point(100 * n, one) for n, one in enumerate(values)])

    some = [
        lane("heard", 0.0, 0.4),
        lane("mute", 0.0, 0.0),
        lane("lost", 0.3, 0.0),
        Lane("unseen", "mlp", "memoryless"),
    ]
    svg = draw(some)
    assert [one.get("data-id") for one in marked(svg, "lane")] == ["heard", "lost", "unseen"]
    assert "1 of 4 modules, 0 throughout, left out" in svg
    assert "left out" not in draw([lane("heard", 0.4)])
    assert len(marked(draw([lane("a", 0.0), lane("b", 0.0)]), "lane")) == 2, "nothing would be left"
    svg = draw([lane("heard", 0.4), lane("huge", 0.0, 1e300)])
    assert len(marked(svg, "lane")) == 2, "a value that is too large to be drawn is not 0"


def test_no_two_lanes_have_one_colour() -> None:
    lanes = [Lane(f"m{n}", "mlp", "memoryless", points=[Point(500, 1.0)]) for n in range(MODULE_COLOURS + 6)]
    for some in (lanes[:9], lanes[:MODULE_COLOURS], lanes):
        svg = draw(some)
        bands = [
            one.get("class")
            for lane in marked(svg, "lane")
            for one in lane
            if (one.get("class") or "").startswith("band")
        ]
        assert len(bands) == len(set(bands)) == min(len(some), MODULE_COLOURS)
    assert f"the first {MODULE_COLOURS} of {MODULE_COLOURS + 6} modules" in draw(lanes)
    again = draw(lanes[:9])
    silent = draw([replace(one, points=[Point(500, 0.0)]) if n == 2 else one for n, one in enumerate(lanes[:9])])
    assert band_of(again, "m7") == band_of(silent, "m7"), "a module has the same colour in all drawings of its zoo"


def band_of(svg: str, name: str) -> str | None:
    (lane,) = [one for one in marked(svg, "lane") if one.get("data-id") == name]
    return next(one.get("class") for one in lane if (one.get("class") or "").startswith("band"))


@given(zoos())
@settings(max_examples=20, deadline=None)
def test_every_module_has_its_marks_on_a_lane_below_that_of_its_first_parent(lanes: list[Lane]) -> None:
    svg = draw(lanes, [EventMark(1, END / 2)])
    drawn = [one for one in lanes if one.id not in left_out(lanes)]
    assert sorted(one.get("data-id", "") for one in marked(svg, "lane")) == sorted(one.id for one in drawn)
    assert len(marked(svg, "birth")) == sum(bool(one.birth) for one in drawn)
    assert len(marked(svg, "death")) == sum(one.end is not None for one in drawn)
    assert len(marked(svg, "again")) == sum(len(one.again) for one in drawn)
    assert len(marked(svg, "event")) == 1
    inside(svg)
    order = family_order({one.id: tuple(one.parents) for one in lanes})
    assert sorted(order) == sorted(one.id for one in lanes)
    place = {name: number for number, name in enumerate(order)}
    parent = {one.id: one.parents[0] for one in lanes if one.parents}
    for name, first in parent.items():
        assert place[name] > place[first]
        for between in order[place[first] + 1 : place[name]]:
            while between in parent and between != first:
                between = parent[between]
            assert between == first, "whoever lies between is a descendant of the same parent"
    roots = [one.id for one in lanes if not one.parents]
    assert [name for name in order if name in roots] == roots


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=8, unique=True))
@settings(max_examples=25, deadline=None)
def test_lanes_are_as_thick_as_they_count(values: list[float]) -> None:
    lanes = [Lane(f"m{n}", "mlp", "memoryless", points=[Point(500, one)]) for n, one in enumerate(values)]
    svg = draw(lanes)
    for lane, value in zip(lanes, values, strict=True):
        if not value:
            continue  # only counted
        wanted = 20 * value / max(values)
        assert thickness(svg, lane.id) == pytest.approx(wanted, abs=0.2) or (wanted < 1.7 > thickness(svg, lane.id))


def test_a_newborn_counts_nothing_at_first_and_a_first_module_what_was_seen_first() -> None:
    points = [Point(600, 0.4), Point(700, float("nan")), Point(800, 0.2)]
    assert course(Lane("a", "mlp", "memoryless", 500, birth="grow", points=points), END) == [
        (500, 0.0), (600, 0.4), (800, 0.2), (END, 0.2)
    ]  # fmt: skip
    assert course(Lane("a", "mlp", "memoryless", points=points[:1]), 700) == [(0.0, 0.4), (600, 0.4), (700, 0.4)]
    assert course(Lane("a", "mlp", "memoryless"), END) == [(0.0, 0.0), (END, 0.0)]


def test_the_legend_explains_what_occurs_and_many_lanes_are_cut() -> None:
    old = Lane("old", "mlp", "memoryless", end=400, heir="new", points=[Point(1, 0.5)])
    new = Lane("new", "mlp", "memoryless", 400, birth="grow", parents=["old"])
    said = words_of(draw([old, new]))
    assert WORDS["grow"] in said
    assert WORDS["prune"] in said
    assert WORDS["replaced"] in said
    assert WORDS["hybridise"] not in said
    assert "thickness: contribution, 0 to 0.5" in said
    larger = draw([replace(old, enlarged=[(100.0, "widen"), (300.0, "deepen")]), new])
    assert "widened in place" in words_of(larger)
    assert "deepened in place" in words_of(larger)
    assert "widened" not in said
    assert len(marked(larger, "enlarged")) == 2
    still = words_of(draw([Lane("still", "mlp", "memoryless")]))
    assert not any(words in still for words in WORDS.values())
    assert "thickness" not in still, "nothing was measured"
    lanes = [Lane(f"m{number}", "mlp", "memoryless") for number in range(100)]
    svg = draw(lanes)
    assert len(marked(svg, "lane")) < 100
    assert f"the first {len(marked(svg, 'lane'))} of 100 modules" in words_of(svg)
    assert "No module" in words_of(draw([]))


def test_ties_lead_from_parents_and_to_the_heir_and_any_parents_have_an_order() -> None:
    lanes = [
        Lane("a", "mlp", "memoryless"),
        Lane("b", "lstm", "recurrence", end=500, heir="c"),
        Lane("c", "hybrid", "other", 500, birth="hybridise", parents=["a", "b", "gone before the record"]),
    ]
    ties = marked(draw(lanes), "tie", "path")
    assert sorted(one.findtext(f"{SVG}title") or "" for one in ties) == ["a → c", "b gave its place to c", "b → c"]
    assert sorted(family_order({"a": ["b"], "b": ["a"], "c": ["c"], "d": ["stranger"]})) == ["a", "b", "c", "d"]


# The curve


@given(st.lists(OPERATIONS, max_size=40), st.lists(VALUE, min_size=1, max_size=9))
@settings(max_examples=25, deadline=None)
def test_every_event_has_a_mark_and_signs_do_not_hide_each_other(
    events: list[list[str]], values: list[float | None]
) -> None:
    marks = [EditMark(n, END * n / (len(events) + 1), each, "w") for n, each in enumerate(events, 1)]
    svg = growth_curve([Series("a", list(enumerate([0.5, *values])))], marks, OVER, Axis("error"))
    drawn = marked(svg, "event")
    assert len(drawn) == len(events)
    assert [one.findtext(f"{SVG}title") for one in drawn] == [f"event {n}\nw" for n in range(1, len(events) + 1)]
    said = [float(text.get("x", "")) for one in drawn for text in one.iter(f"{SVG}text") if (text.text or "").isdigit()]
    assert all(after - before >= 14.9 for before, after in pairwise(said))
    if len(events) <= 20:
        assert len(said) == len(events)
    inside(svg)


def test_events_have_their_signs_and_of_those_that_lie_close_all_have_a_mark() -> None:
    line = [Series("validation", [(0, 0.9), (100, 0.5)])]
    event = EditMark(3, 50, ["prune", "hybridise", "rewarm"], "what it did")
    svg = growth_curve(line, [event], OVER, Axis("error"))
    (drawn,) = marked(svg, "event")
    assert [text.text for text in drawn.iter(f"{SVG}text")] == ["H", "3"]
    assert len(list(drawn.iter(f"{SVG}path"))) == 2, "a cross and a triangle"
    assert all(WORDS[name] in words_of(svg) for name in event.operations)
    assert WORDS["spawn"] not in words_of(svg)
    assert "No error was recorded" in words_of(growth_curve([Series("a", [(0, None)])], [event], OVER, Axis("error")))
    marks = [EditMark(n, END * n / 201, ["grow"], "w") for n in range(1, 201)]
    svg = growth_curve([Series("a", [(0, 0.5), (END, 0.4)])], marks, OVER, Axis("error"))
    drawn = marked(svg, "event")
    assert len(drawn) == 200
    signs = [float(one.get("cx", "")) for group in drawn for one in group.iter(f"{SVG}circle")]
    assert 20 < len(signs) < 60
    assert all(after - before >= 14.9 for before, after in pairwise(signs))
