"""Backbones, strips: every arc of the genome is one arc of the drawing, on its side, between its two LIVs."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.backbone.diagrams.genome import Arc, LivMark, backbone_diagram, sharing_groups
from evodevo.backbone.diagrams.glyph_line import StripRow, population_strips, text_strip
from report.charts.drawn import SVG, corner_of, marked, size_of
from report.charts.sample_run import genome as sample_genome

FAMILIES = ("attention", "recurrence", "convolution", "memoryless", "something new")


def ends(path: ElementTree.Element) -> tuple[int, int]:
    return int(path.get("data-owner", "")), int(path.get("data-borrower", ""))


@st.composite
def drawn_genomes(draw: st.DrawFn) -> tuple[list[LivMark], list[Arc], list[Arc], list[Arc]]:
    count = draw(st.integers(1, 30))
    livs = [
        LivMark(
            draw(st.text(max_size=12)), draw(st.sampled_from(FAMILIES)), draw(st.booleans()), draw(st.text(max_size=12))
        )
        for _ in range(count)
    ]

    def arcs(label: st.SearchStrategy[str]) -> list[Arc]:
        pairs = st.sets(st.integers(0, count - 1), min_size=2, max_size=2).map(sorted)
        chosen = draw(st.lists(pairs, max_size=20)) if count > 1 else []
        return [Arc(owner, borrower, draw(label)) for owner, borrower in chosen]

    return livs, arcs(st.sampled_from(["K", "V", "K, V"])), arcs(st.just("")), arcs(st.just(""))


@pytest.mark.slow
@given(drawn_genomes())
@settings(max_examples=20, deadline=None)
def test_every_arc_is_drawn_once_from_box_to_box_on_its_side(genome) -> None:
    livs, feature, featurizer, residual = genome
    svg = backbone_diagram(livs, feature, featurizer, residual)
    boxes = [group.findall(f"{SVG}rect")[-1] for group in marked(svg, "liv")]
    assert len(boxes) == len(livs)
    centre = corner_of(boxes[0])[0] + size_of(boxes[0])[0] / 2
    for kind, arcs in (("feature-arc", feature), ("featurizer-arc", featurizer), ("residual-arc", residual)):
        found = marked(svg, kind, "path")
        assert Counter(map(ends, found)) == Counter((arc.owner, arc.borrower) for arc in arcs)
        for path in found:
            data = path.get("d", "")
            turns = [float(x) for x in re.findall(r"[QH](-?[\d.]+)", data)]
            assert min(turns) < centre if kind == "feature-arc" else max(turns) > centre
            assert bool(path.get("stroke-dasharray")) == (kind != "featurizer-arc")
            if kind != "residual-arc":
                first = re.match(r"M-?[\d.]+,(-?[\d.]+)", data).group(1)
                for end, y in zip(ends(path), (first, re.findall(r"Q\S+,(-?[\d.]+) ", data)[-1]), strict=True):
                    top = corner_of(boxes[end])[1]
                    assert top <= float(y) <= top + size_of(boxes[end])[1]


def test_trees_of_different_owners_that_overlap_are_on_different_lanes() -> None:
    livs, feature, featurizer = sample_genome(4, 48)
    svg = backbone_diagram(livs, feature, featurizer)
    for kind in ("feature-arc", "featurizer-arc"):
        lanes: dict[int, set[str]] = {}
        spans: dict[int, int] = {}
        for path in marked(svg, kind, "path"):
            owner, borrower = ends(path)
            lanes.setdefault(owner, set()).add(re.findall(r"Q(-?[\d.]+),", path.get("d", ""))[0])
            spans[owner] = max(spans.get(owner, 0), borrower)
        assert all(len(used) == 1 for used in lanes.values())
        assert all(lanes[a] != lanes[b] for a in spans for b in spans if a < b <= spans[a])


def test_what_is_shared_stands_at_the_borrower() -> None:
    livs = [LivMark("SA-1", "attention") for _ in range(4)]
    svg = backbone_diagram(livs, [Arc(0, 2, "K"), Arc(1, 2, "V"), Arc(0, 3, "K, V")])
    texts = [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert {"K", "V", "K, V"} <= set(texts)


@pytest.mark.parametrize("arc", [Arc(1, 1), Arc(2, 1), Arc(0, 3), Arc(-1, 1)])
def test_an_arc_that_cannot_be_is_refused(arc: Arc) -> None:
    livs = [LivMark("SA-1", "attention")] * 3
    with pytest.raises(ValueError, match="owner first"):
        backbone_diagram(livs, [arc])
    with pytest.raises(ValueError, match="owner first"):
        population_strips([StripRow("", livs, [arc])])


def test_text_strip_has_one_safe_character_per_liv() -> None:
    livs = [LivMark("\x1b[31mSA", family, differential) for family in FAMILIES for differential in (False, True)]
    assert text_strip(livs, ascii_only=True) == "AaRrCcMmXx"
    shown = text_strip(livs)
    assert len(set(shown)) == len(livs) == len(shown)
    assert shown.isprintable()


def test_groups_are_counted_from_the_left_and_nothing_is_drawn_too() -> None:
    assert sharing_groups(7, [Arc(1, 4), Arc(0, 3), Arc(4, 6)]) == [0, 1, None, 0, 1, None, 1]
    for svg in (backbone_diagram([]), population_strips([])):
        ElementTree.fromstring(svg)
    assert text_strip([]) == ""


def test_population_strips_draw_every_row_and_cell() -> None:
    rows = [StripRow(f"id{seed}", *(lambda g: (g[0], [*g[1], *g[2]]))(sample_genome(seed))) for seed in range(12)]
    strips = marked(population_strips(rows), "strip")
    for strip, row in zip(strips, rows, strict=True):
        tints = [path for path in strip.iter(f"{SVG}path") if "stroke-width" not in path.attrib]
        assert sum(path.get("d", "").count("M") for path in tints) == len(row.livs)
