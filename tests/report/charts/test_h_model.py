"""The drawing of an H-Model: every layer is in it once, folded or not, and nothing lies outside the sheet."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.h_model.diagrams.structure import LayerMark, fold_layers, h_model_diagram
from evodevo.h_model.draw import h_model_drawing
from evodevo.h_model.spec import HModelStructure, preset
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.layers.liv import LIVLayer
from evodevo.operators.layers.lstm import LSTMLayer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer

SVG = "{http://www.w3.org/2000/svg}"
MARKS = st.builds(
    LayerMark,
    st.text(max_size=30),
    st.sampled_from(["attention", "recurrence", "memoryless", "something new"]),
    st.text(max_size=30),
)


def layers_of(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [group for group in root.iter(f"{SVG}g") if group.get("class") == "layer"]


@given(st.lists(MARKS, min_size=1, max_size=24), st.integers(0, 12), st.booleans(), st.text(max_size=200))
@settings(max_examples=25, deadline=None)
def test_every_layer_is_drawn_once_within_the_sheet(marks, iterations, ordered, fact) -> None:
    root = ElementTree.fromstring(h_model_diagram(marks, iterations, [fact, fact], title=fact, ordered=ordered))
    assert sum(int(group.get("data-count", "")) for group in layers_of(root)) == len(marks)
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for rect in root.iter(f"{SVG}rect"):
        assert 0 <= float(rect.get("x", "")) <= float(rect.get("x", "")) + float(rect.get("width", "")) <= width
        assert 0 <= float(rect.get("y", "")) <= float(rect.get("y", "")) + float(rect.get("height", "")) <= height
    loops = [path for path in root.iter(f"{SVG}path") if "loop" in path.get("class", "")]
    assert len(loops) == (iterations > 1)


def test_equal_layers_are_one_box() -> None:
    a, b = LayerMark("a", "attention"), LayerMark("b", "memoryless")
    assert [(mark.name, mark.count) for mark in fold_layers([a, b, a, a])] == [("a", 3), ("b", 1)]
    assert [(mark.name, mark.count) for mark in fold_layers([a, b, a, a], ordered=True)] == [
        ("a", 1),
        ("b", 1),
        ("a", 2),
    ]


def test_boxes_do_not_overlap() -> None:
    marks = [LayerMark(str(number), "attention") for number in range(11)]
    root = ElementTree.fromstring(h_model_diagram(marks, 3))
    corners = [
        (float(group.findall(f"{SVG}rect")[-1].get("x", "")), float(group.findall(f"{SVG}rect")[-1].get("y", "")))
        for group in layers_of(root)
    ]
    assert len(set(corners)) == 11
    boxes = [group.findall(f"{SVG}rect")[-1] for group in layers_of(root)]
    wide, high = float(boxes[0].get("width", "")), float(boxes[0].get("height", ""))
    for a in corners:
        for b in corners:
            assert a == b or abs(a[0] - b[0]) >= wide or abs(a[1] - b[1]) >= high


def test_a_structure_says_what_it_is() -> None:
    structure = HModelStructure(
        hidden=(TransformerLayer(), TransformerLayer(), LIVLayer(operator="Rec-1"), MLPLayer(width=32), LSTMLayer()),
        iterations=3,
        alpha=0.3,
        window=2,
        inference=InferenceStructure(mode="target_topm", m=2),
    )
    svg = h_model_drawing(structure, title="mine", subtitle="of the test")
    texts = " ".join(text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text"))
    for words in ("mine", "of the test", "T = 3", "5 hidden layers, in order", "×2", "alpha 0.3", "width 32"):
        assert words in texts, words
    assert "answers target_topm, m = 2" in texts
    assert {"attention", "recurrence", "memoryless"} <= set(texts.split())


def test_large_models_are_folded() -> None:
    root = ElementTree.fromstring(h_model_drawing(preset("full"), title="", subtitle=""))
    assert [group.get("data-count") for group in layers_of(root)] == ["10"]


def test_no_layers() -> None:
    ElementTree.fromstring(h_model_diagram([], 1))
