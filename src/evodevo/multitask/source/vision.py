"""Vision transformers in generated files."""

from __future__ import annotations

from evodevo.multitask.paths.vision.spec import VisionStructure
from evodevo.multitask.source import blocks
from evodevo.multitask.source.transformer import block_parts
from evodevo.operators.source.sheet import SourceSheet


def vision_source(structure: VisionStructure, sheet: SourceSheet) -> str:
    """The expression that makes a path; its classes are added to the sheet.

    Raises:
        UsageError: a block without source.
    """
    patches = f"{sheet.add(blocks.PATCHES)}({structure.channels}, {structure.width}, {structure.patch})"
    parts = block_parts(structure, sheet, patches)
    return blocks.path_of(sheet.add(blocks.VISION_PATH), f"{structure.channels}, {structure.image_size}", parts)
