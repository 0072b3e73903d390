"""What tests read in a drawing: its marks, its words, and whether all of it lies on the sheet."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from evodevo.report.svg import text_width

SVG = "{http://www.w3.org/2000/svg}"


def marked(svg: str, name: str, tag: str = "g") -> list[ElementTree.Element]:
    """Elements of the class."""
    return [one for one in ElementTree.fromstring(svg).iter(SVG + tag) if name in one.get("class", "").split()]


def text_of(text: ElementTree.Element) -> str:
    """What a reader reads, and a search finds: all lines of a text, without its tooltip."""
    return (text.text or "") + "".join(line.text or "" for line in text.iter(f"{SVG}tspan"))


def texts_of(svg: str) -> list[str]:
    return [text_of(text) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def words_of(svg: str) -> str:
    return " ".join(texts_of(svg))


def corner_of(rect: ElementTree.Element | None) -> tuple[float, float]:
    return float(rect.get("x", "")), float(rect.get("y", ""))


def size_of(rect: ElementTree.Element) -> tuple[float, float]:
    return float(rect.get("width", "")), float(rect.get("height", ""))


def boxes_inside(svg: str) -> None:
    root = ElementTree.fromstring(svg)
    width, height = size_of(root)
    for rect in root.iter(f"{SVG}rect"):
        (x, y), (w, h) = corner_of(rect), size_of(rect)
        assert 0 <= x <= x + w <= width + 0.11, rect.attrib
        assert 0 <= y <= y + h <= height + 0.11, rect.attrib


def labels_inside(svg: str) -> None:
    root = ElementTree.fromstring(svg)
    _, _, width, height = (float(part) for part in root.get("viewBox", "").split())
    for text in root.iter(f"{SVG}text"):
        size, x, first = (float(text.get(name, "")) for name in ("font-size", "x", "y"))
        middle = float((text.get("transform") or "rotate(0 0 0)").split()[-1].rstrip(")"))
        for line in [text, *text.iter(f"{SVG}tspan")]:
            y = float(line.get("y", first))
            wide = text_width(line.text or "", size, "mono" in text.get("class", ""))
            before = {"start": 0.0, "middle": wide / 2, "end": wide}[text.get("text-anchor", "start")]
            if text.get("transform"):  # turned a quarter: it reads upwards, and further lines are to its right
                at = x + y - middle
                left, right, top, bottom = at - size, at + 0.3 * size, middle - (wide - before), middle + before
            else:
                left, right, top, bottom = x - before, x - before + wide, y - size, y + 0.3 * size
            assert min(left, top) >= -1, line.text
            assert right <= width + 1, line.text
            assert bottom <= height + 1, line.text


def label_boxes(svg: str) -> dict[str, tuple[float, float, float, float]]:
    """Text -> left, top, right and bottom of its lines, of texts that stand level on their middle."""
    boxes = {}
    for text in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        if text.get("text-anchor") != "middle" or text.get("transform"):
            continue
        size, x, lines = float(text.get("font-size", "")), float(text.get("x", "")), list(text.iter(f"{SVG}tspan"))
        wide = max(text_width(one.text or "", size, "mono" in text.get("class", "")) for one in lines or [text])
        heights = [float(one.get("y", "")) for one in lines or [text]]
        boxes[text_of(text)] = (x - wide / 2, min(heights) - 0.8 * size, x + wide / 2, max(heights) + 0.2 * size)
    return boxes
