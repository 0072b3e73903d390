"""The components of paths of blocks in generated files, whatever they read."""

from __future__ import annotations

from evodevo.multitask.paths.blocks_spec import (
    BLOCK,
    CLASS_TOKEN,
    EMBEDDING,
    HEAD,
    NORM,
    POSITIONS,
    BlockStructure,
    PathBlock,
)
from evodevo.multitask.source import blocks
from evodevo.operators.source.rows import layer_source
from evodevo.operators.source.sheet import SourceSheet


def block_parts(structure: BlockStructure, sheet: SourceSheet, embedding: str) -> list[tuple[str, str]]:
    """(role, expression of the component), in the order in which a sample passes them; their classes are added to the
    sheet.

    Args:
        structure: structure of the path.
        sheet: sheet of the file.
        embedding: expression of the embedding.

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
            made = embedding
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
    return parts


def _block(structure: BlockStructure, role: str, activation: str, sheet: SourceSheet) -> str:
    block, width = structure.block(role), structure.width
    if isinstance(block, PathBlock):
        sizes = f"{width}, {block.heads}, {block.key_width}, {block.value_width}, {block.hidden}"
        return f"{sheet.add(blocks.ATTENTION_BLOCK)}({sizes}, {structure.norm_epsilon!r}, {activation})"
    return f"{sheet.add(blocks.LAYER_BLOCK)}({layer_source(block, sheet, width, causal=False)}, {width})"
