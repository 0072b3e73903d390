"""A backbone as the paper's appendix B draws it.

LIVs form one column in the order of the forward pass, the first **at the top**. Dashed arcs on the left:
feature groups that a borrower takes from its owner. Solid arcs on the right: featurizer weights that it uses
together with its owner. Dotted arcs on the right, from below the earlier LIV to above the later: the residual
extension (A.7). Every arc runs from the owner (dot) to the borrower (arrow head), and all arcs of one owner leave
it on one lane, so that a sharing group is seen as one tree. A LIV of differential form is drawn before its twin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evodevo.report.charts.glyphs import arrow_head, family_glyph
from evodevo.report.palette import FAMILIES, family_role
from evodevo.report.svg import Drawing, empty, number, one_line, shorten, text_width

_BOX_WIDTH = 204.0
_ROW = 20.0
_GAP = 7.0
_PORT = 11.0  # least distance between two arc ends at one LIV: one line of label
_LABEL_SIZE = 9.5
_HEAD = 5.0


@dataclass(frozen=True)
class LivMark:
    """The facts of one LIV that a drawing needs.

    Args:
        name: the class as the paper names it, ``SA-1`` or ``Rec-1-Diff``.
        family: ``attention``, ``recurrence``, ``convolution``, ``memoryless``, or another word.
        differential: whether it is the difference of two copies.
        segment: its integers as text, ``1.2.1.1.4``.
        title: the tooltip, for example parameters and cache in words.
    """

    name: str
    family: str
    differential: bool = False
    segment: str = ""
    title: str = ""


@dataclass(frozen=True)
class Arc:
    """One connection between two LIVs, by 0-based position; ``label`` names the shared groups (``K``, ``V``)."""

    owner: int
    borrower: int
    label: str = ""
    title: str = ""


@dataclass(frozen=True)
class _Link:
    """An arc with its kind; kinds differ in class, dash and where they touch the boxes."""

    arc: Arc
    kind: Literal["feature-arc", "featurizer-arc", "residual-arc"]


_DASHES = {"feature-arc": "5 3", "featurizer-arc": "", "residual-arc": "1.5 3"}


def check_arcs(count: int, arcs: Sequence[Arc]) -> None:
    """Raises ValueError for an arc that does not go from an earlier LIV to a later one of the ``count``."""
    for arc in arcs:
        if not 0 <= arc.owner < arc.borrower < count:
            raise ValueError(f"arc {arc.owner} → {arc.borrower}: both must be in 0..{count - 1}, the owner first")


def sharing_groups(count: int, arcs: Sequence[Arc]) -> list[int | None]:
    """For each of ``count`` LIVs the number of its connected component, or None where it is alone."""
    check_arcs(count, arcs)
    leader = list(range(count))

    def find(position: int) -> int:
        while leader[position] != position:
            leader[position] = leader[leader[position]]
            position = leader[position]
        return position

    for arc in arcs:
        first, second = sorted((find(arc.owner), find(arc.borrower)))
        leader[second] = first
    members: dict[int, list[int]] = defaultdict(list)
    for position in range(count):
        members[find(position)].append(position)
    groups: list[int | None] = [None] * count
    for index, together in enumerate(part for part in members.values() if len(part) > 1):
        for position in together:
            groups[position] = index
    return groups


def backbone_diagram(
    livs: Sequence[LivMark],
    feature_arcs: Sequence[Arc] = (),
    featurizer_arcs: Sequence[Arc] = (),
    residual_arcs: Sequence[Arc] = (),
    title: str = "",
    subtitle: str = "",
) -> str:
    """The backbone as an SVG string; each arc is one ``<path>`` of class ``feature-arc``, ``featurizer-arc`` or
    ``residual-arc``, with ``data-owner`` and ``data-borrower`` (0-based).

    Raises:
        ValueError: an arc names a LIV that is not there, or does not lead from an earlier to a later one.
    """
    check_arcs(len(livs), [*feature_arcs, *featurizer_arcs, *residual_arcs])
    if not livs:
        return empty("This backbone has no LIVs.")
    left = _Side([_Link(arc, "feature-arc") for arc in feature_arcs])
    right = _Side(
        [_Link(arc, "featurizer-arc") for arc in featurizer_arcs]
        + [_Link(arc, "residual-arc") for arc in residual_arcs]
    )
    heights = [max(_ROW, _PORT * max(left.ports(row), right.ports(row))) for row in range(len(livs))]
    legend = _legend_entries(livs, bool(feature_arcs), bool(featurizer_arcs), bool(residual_arcs))
    title, subtitle = one_line(title), one_line(subtitle)

    drawn = left.extent() + _BOX_WIDTH + right.extent()
    # Short titles stay whole beside a genome without arcs, which is then centred.
    width = max(drawn + 24.0, 330.0)
    box_left = left.extent() + (width - drawn) / 2
    legend_lines = _wrap(legend, width - 24)
    head = 14.0 + (20.0 if title else 0.0) + (16.0 if subtitle else 0.0)
    top = head + 24
    bottom = top + sum(heights) + _GAP * (len(livs) - 1)
    height = bottom + 36 + 17 * len(legend_lines)

    arcs = f"{len(feature_arcs)} feature group arcs, {len(featurizer_arcs)} featurizer arcs"
    drawing = Drawing(width, height, f"{title or 'Backbone'}: {len(livs)} LIVs, {arcs}")
    if title:
        drawing.text(12, 24, shorten(title, width - 24, 14), "fill-ink strong", size=14, title=title)
    if subtitle:
        drawing.text(12, 41, shorten(subtitle, width - 24, 11), "fill-muted", size=11, title=subtitle)

    centre = box_left + _BOX_WIDTH / 2
    drawing.line(centre, top - 11, centre, bottom + 11, "stroke-muted")
    drawing.text(centre, top - 14, "tokens in", "fill-muted", size=10, anchor="middle")
    drawing.text(centre, bottom + 22, "tokens out", "fill-muted", size=10, anchor="middle")

    tops, y = [], top
    for row, liv in enumerate(livs):
        tops.append(y)
        _draw_box(drawing, liv, row, box_left, y, heights[row])
        y += heights[row] + _GAP
    for side, edge, outward in ((left, box_left, -1), (right, box_left + _BOX_WIDTH, 1)):
        side.draw(drawing, edge, outward, tops, heights, [family_role(liv.family) for liv in livs])

    for index, entries in enumerate(legend_lines):
        x = 12.0
        for entry in entries:
            _draw_legend_entry(drawing, entry, x, bottom + 44 + 17 * index)
            x += _legend_width(entry)
    return drawing.svg()


def _draw_box(drawing: Drawing, liv: LivMark, row: int, x: float, y: float, height: float) -> None:
    role = family_role(liv.family)
    name, segment = one_line(liv.name, 80), one_line(liv.segment, 80)
    words = [f"LIV {row + 1}: {name}", f"differential {liv.family}" if liv.differential else liv.family]
    words += [f"genome {segment}"] if segment else []
    words += [liv.title] if liv.title else []
    with drawing.group("liv", title="\n".join(words)):
        if liv.differential:
            drawing.rect(x + 3, y + 3, _BOX_WIDTH, height, f"fill-{role}-soft stroke-{role} twin", rx=4)
        drawing.rect(x, y, _BOX_WIDTH, height, f"fill-{role}-soft stroke-{role}", rx=4)
        middle = y + height / 2
        drawing.text(x + 20, middle + 3.5, row + 1, "fill-muted", size=9, anchor="end")
        fill = f"hollow stroke-{role}" if liv.differential else f"fill-{role}"
        drawing.path(family_glyph(liv.family, x + 31, middle, 4.5), fill, stroke_width=1.5)
        segment_size = 9.0
        room = _BOX_WIDTH - 50
        shown_segment = shorten(segment, room * 0.5, segment_size, mono=True)
        name_room = room - text_width(shown_segment, segment_size, mono=True) - 6
        drawing.text(x + 42, middle + 4, shorten(name, name_room, 11), "fill-ink strong", size=11)
        drawing.text(
            x + _BOX_WIDTH - 7, middle + 3.5, shown_segment, "fill-muted mono", size=segment_size, anchor="end"
        )


class _Side:
    """The arcs of one side: their lanes, and where they touch each LIV."""

    def __init__(self, links: Sequence[_Link]) -> None:
        self.links = sorted(links, key=lambda link: (link.arc.borrower, link.arc.owner, link.kind))
        self.lane, self.lanes = _lanes(self.links)
        labels = [one_line(link.arc.label, 60) for link in self.links]
        self.label_width = min(max((text_width(label, _LABEL_SIZE) for label in labels), default=0.0), 90.0)
        self.step = min(12.0, max(6.0, 130.0 / max(self.lanes, 1)))

    def ports(self, row: int) -> int:
        """Number of slots that the side of the box needs: one per borrowed arc, one for all owned ones."""
        touching = [link for link in self.links if link.kind != "residual-arc"]
        return sum(link.arc.borrower == row for link in touching) + any(link.arc.owner == row for link in touching)

    def extent(self) -> float:
        """The room beside the boxes."""
        return self._reach(self.lanes - 1) if self.links else 0.0

    def _reach(self, lane: int) -> float:
        return self.label_width + (2 * _HEAD + 18 if self.label_width else 20) + lane * self.step

    def _port(self, row: int, link: _Link, tops: Sequence[float], heights: Sequence[float]) -> float:
        """The y at which ``link`` touches ``row``; owners' port first, then borrowed arcs by owner, latest above."""
        touching = [other for other in self.links if other.kind != "residual-arc"]
        borrowed = sorted(
            (other for other in touching if other.arc.borrower == row), key=lambda other: -other.arc.owner
        )
        owns = any(other.arc.owner == row for other in touching)
        count = len(borrowed) + owns
        # Arcs come from above and leave downwards, so the owner's port is the lowest.
        index = borrowed.index(link) if link.arc.borrower == row else count - 1
        return tops[row] + heights[row] / 2 + (index - (count - 1) / 2) * _PORT

    def draw(
        self,
        drawing: Drawing,
        edge: float,
        outward: int,
        tops: Sequence[float],
        heights: Sequence[float],
        roles: Sequence[str],
    ) -> None:
        for link in self.links:
            arc = link.arc
            if link.kind == "residual-arc":
                start, end, role = tops[arc.owner] + heights[arc.owner] + _GAP / 2, tops[arc.borrower] - _GAP / 2, "ink"
                inner = edge - outward * _BOX_WIDTH / 2
            else:
                start = self._port(arc.owner, link, tops, heights)
                end = self._port(arc.borrower, link, tops, heights)
                role, inner = roles[arc.owner], edge
            lane = edge + outward * self._reach(self.lane[arc.owner, link.kind])
            self._draw_link(drawing, link, inner, edge, lane, start, end, outward, role)

    def _draw_link(
        self,
        drawing: Drawing,
        link: _Link,
        inner: float,
        edge: float,
        lane: float,
        start: float,
        end: float,
        outward: int,
        role: str,
    ) -> None:
        arc = link.arc
        shared = f" shares {one_line(arc.label, 60)}" if arc.label else ""
        words = arc.title or f"LIV {arc.owner + 1} → LIV {arc.borrower + 1}{shared}"
        tip = inner + outward * _HEAD if link.kind != "residual-arc" else inner
        # Quarter ellipses as wide as the lane allows, so that a lone arc is an arc and many are parallel lines.
        across = min(abs(lane - edge), 26.0)
        down = min((end - start) / 2, 16.0)
        turn = lane - outward * across
        data = (
            f"M{number(inner)},{number(start)}H{number(turn)}"
            f"Q{number(lane)},{number(start)} {number(lane)},{number(start + down)}"
            f"V{number(end - down)}"
            f"Q{number(lane)},{number(end)} {number(turn)},{number(end)}H{number(tip)}"
        )
        more: dict[str, str | float] = {"data_owner": str(arc.owner), "data_borrower": str(arc.borrower)}
        if _DASHES[link.kind]:
            more["stroke_dasharray"] = _DASHES[link.kind]
        drawing.path(data, f"{link.kind} hollow stroke-{role}", title=words, stroke_width=1.4, **more)
        if link.kind == "residual-arc":
            drawing.element("circle", "fill-paper stroke-ink", cx=inner, cy=end, r=2.4)
            return
        drawing.element("circle", f"fill-{role}", cx=edge, cy=start, r=2.4)
        drawing.path(arrow_head(edge, end, -outward, _HEAD + 1), f"fill-{role}")
        label = shorten(one_line(arc.label, 60), self.label_width, _LABEL_SIZE)
        if label:
            wide = text_width(label, _LABEL_SIZE)
            middle = edge + outward * (_HEAD + 5 + self.label_width / 2)
            drawing.rect(middle - wide / 2 - 1, end - 5, wide + 2, 10, "fill-paper")
            drawing.text(
                middle, end + 3.3, label, f"fill-{role} strong", size=_LABEL_SIZE, anchor="middle", title=words
            )


def _lanes(links: Sequence[_Link]) -> tuple[dict[tuple[int, str], int], int]:
    """A lane for each owner and kind of arc: trees that overlap are on different lanes, short ones inside."""
    last: dict[tuple[int, str], int] = {}
    for link in links:
        key = (link.arc.owner, str(link.kind))
        last[key] = max(last.get(key, 0), link.arc.borrower)
    lane: dict[tuple[int, str], int] = {}
    for key in sorted(last, key=lambda key: (last[key] - key[0], key)):
        taken = {lane[other] for other in lane if other[0] <= last[key] and key[0] <= last[other]}
        lane[key] = next(index for index in range(len(last)) if index not in taken)
    return lane, max(lane.values(), default=-1) + 1


# The legend: one entry is (kind, text); kind is a family, or a kind of arc.
def _legend_entries(livs: Sequence[LivMark], feature: bool, featurizer: bool, residual: bool) -> list[tuple[str, str]]:
    used = {family_role(liv.family) for liv in livs}
    entries = [(family, family) for family in FAMILIES if family in used]
    entries += [("twin", "differential")] if any(liv.differential for liv in livs) else []
    entries += [("feature-arc", "shared feature groups")] if feature else []
    entries += [("featurizer-arc", "shared featurizer")] if featurizer else []
    entries += [("residual-arc", "added residual")] if residual else []
    return entries


def _legend_width(entry: tuple[str, str]) -> float:
    return text_width(entry[1], 10) + (38 if entry[0].endswith("arc") else 26)


def _wrap(entries: Sequence[tuple[str, str]], width: float) -> list[list[tuple[str, str]]]:
    lines: list[list[tuple[str, str]]] = []
    room = 0.0
    for entry in entries:
        if not lines or _legend_width(entry) > room:
            lines.append([])
            room = width
        lines[-1].append(entry)
        room -= _legend_width(entry)
    return lines


def _draw_legend_entry(drawing: Drawing, entry: tuple[str, str], x: float, y: float) -> None:
    kind, words = entry
    if kind.endswith("arc"):
        more: dict[str, str | float] = {"stroke_dasharray": _DASHES[kind]} if _DASHES[kind] else {}
        drawing.line(x, y - 3.5, x + 22, y - 3.5, "stroke-ink", stroke_width=1.4, **more)
        drawing.text(x + 27, y, words, "fill-muted", size=10)
        return
    if kind == "twin":
        drawing.rect(x + 2, y - 6, 10, 7, "fill-paper stroke-muted", rx=1.5)
        drawing.rect(x, y - 8, 10, 7, "fill-paper stroke-muted", rx=1.5)
    else:
        drawing.path(family_glyph(kind, x + 5, y - 3.5, 4.5), f"fill-{kind}")
    drawing.text(x + 15, y, words, "fill-muted", size=10)
