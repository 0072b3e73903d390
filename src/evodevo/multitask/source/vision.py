"""Vision transformers in generated files."""

from __future__ import annotations

from evodevo.multitask.paths.vision.spec import VisionStructure
from evodevo.multitask.source import blocks
from evodevo.multitask.source.transformer import block_parts
from evodevo.multitask.source.written import WrittenPath
from evodevo.operators.source.sheet import SourceSheet


def vision_source(structure: VisionStructure, sheet: SourceSheet) -> WrittenPath:
    """A path; its classes are added to the sheet.

    Raises:
        UsageError: a block without source.
    """
    patches = f"{sheet.add(blocks.PATCHES)}({structure.channels}, {structure.width}, {structure.patch})"
    parts = block_parts(structure, sheet, patches)
    sizes = f"{structure.channels}, {structure.image_size}"
    return WrittenPath(blocks.path_of(sheet.add(blocks.VISION_PATH), sizes, parts))
