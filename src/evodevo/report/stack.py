"""Several drawings below each other in one SVG, for a file that holds the means of all classes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from evodevo.report.svg import SVG_NAMESPACE, Drawing, number

_GAP = 14


def stacked(drawings: Sequence[str], label: str) -> str:
    """The drawings, first on top; ``label`` is the text for screen readers."""
    roots = [ElementTree.fromstring(svg) for svg in drawings]
    heights = [float(root.get("height", "0")) for root in roots]
    width = max((float(root.get("width", "0")) for root in roots), default=0.0)
    sheet = Drawing(max(width, 120), max(sum(heights) + _GAP * max(len(roots) - 1, 0), 20), label)
    y = 0.0
    for root, height in zip(roots, heights, strict=True):
        for part in root.iter():
            part.tag = part.tag.removeprefix(f"{{{SVG_NAMESPACE}}}")
        for style in root.findall("style"):  # the sheet has it already
            root.remove(style)
        root.set("y", number(y))
        sheet.root.append(root)
        y += height + _GAP
    return sheet.svg()
