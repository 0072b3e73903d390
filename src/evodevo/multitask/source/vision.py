"""Vision transformers in generated files."""

from __future__ import annotations

from evodevo.multitask.paths.blocks_spec import BLOCK, CLASS_TOKEN, EMBEDDING, HEAD, NORM, POSITIONS, PathBlock
from evodevo.multitask.paths.vision.spec import VisionStructure
from evodevo.multitask.source import blocks
from evodevo.operators.source.rows import layer_source
from evodevo.operators.source.sheet import SourceSheet


def vision_source(structure: VisionStructure, sheet: SourceSheet) -> str:
    """The expression that makes a path; its classes are added to the sheet.

    Raises:
        UsageError: a block without source.
    """
    width = structure.width
    activation = "gelu_tanh" if structure.activation == "gelu_tanh" else f"F.{structure.activation}"
    if activation == "gelu_tanh":
        sheet.add(blocks.GELU_TANH)
    parts = []
    for role in structure.roles:
        if role == EMBEDDING:
            made = f"{sheet.add(blocks.PATCHES)}({structure.channels}, {width}, {structure.patch})"
        elif role == CLASS_TOKEN:
            made = f"{sheet.add(blocks.CLASS_TOKEN)}({width})"
        elif role == POSITIONS:
            made = f"{sheet.add(blocks.POSITIONS)}({structure.tokens}, {width})"
        elif role == NORM:
            made = f"nn.LayerNorm({width}, {structure.norm_epsilon!r})"
        elif role == HEAD:
            made = f"{sheet.add(blocks.HEAD)}({width}, {structure.classes})"
        else:
            assert role.startswith(BLOCK)
            made = _block(structure, role, activation, sheet)
        parts.append((role, made))
    return blocks.path_of(sheet.add(blocks.VISION_PATH), structure, parts)


def _block(structure: VisionStructure, role: str, activation: str, sheet: SourceSheet) -> str:
    block, width = structure.block(role), structure.width
    if isinstance(block, PathBlock):
        sizes = f"{width}, {block.heads}, {block.key_width}, {block.value_width}, {block.hidden}"
        return f"{sheet.add(blocks.ATTENTION_BLOCK)}({sizes}, {structure.norm_epsilon!r}, {activation})"
    return f"{sheet.add(blocks.LAYER_BLOCK)}({layer_source(block, sheet, width, causal=False)}, {width})"
