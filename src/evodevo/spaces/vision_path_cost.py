"""What a vision path costs: exact parameters of each component, and the work of one forward pass at batch 1.

``models/vision_path_parts.py`` builds exactly these parameters; tests recount them, and the products.

Legend: n tokens, h width.
"""

from __future__ import annotations

from math import prod

from evodevo.spaces.layer_cost import Work, layer_parameters, layer_work, total_work
from evodevo.spaces.vision_path import (
    ADAPTER,
    BLOCK,
    CLASS_TOKEN,
    EMBEDDING,
    HEAD,
    NORM,
    POSITIONS,
    VisionBlock,
    VisionStructure,
)


def role_parameters(structure: VisionStructure) -> dict[str, int]:
    """Role -> parameters of its component.

    Raises:
        UsageError: a block is a layer that does not exist at this width.
    """
    return {role: _parameters(structure, role) for role in structure.roles}


def path_parameters(structure: VisionStructure) -> int:
    """All of them."""
    return sum(role_parameters(structure).values())


def path_work(structure: VisionStructure) -> Work:
    """FLOPs of one sample, as this implementation computes them (specification 2.9; a multiply-add counts two)."""
    width, tokens = structure.width, structure.tokens
    parts = [Work(2 * (tokens - 1) * structure.channels * structure.patch**2 * width)]
    for role in structure.roles:
        if role.startswith(ADAPTER):
            parts.append(Work(4 * tokens * width * structure.adapters[role]))
        elif role.startswith(BLOCK):
            block = structure.block(role)
            parts.append(
                _block_work(block, width, tokens)
                if isinstance(block, VisionBlock)
                else layer_work(block, width, tokens, causal=False, visible=False)
            )
    return total_work([*parts, Work(2 * width * structure.classes)])


def path_flops(structure: VisionStructure) -> int:
    """Products and the rest of ``path_work``."""
    return path_work(structure).total


def block_shapes(block: VisionBlock, width: int) -> dict[str, tuple[int, ...]]:
    """Parameter of a block -> its shape; rows of queries, keys and values are ordered by head."""
    keys, values = block.heads * block.key_width, block.heads * block.value_width
    return {
        "attention_norm.weight": (width,),
        "attention_norm.bias": (width,),
        "query.weight": (keys, width),
        "query.bias": (keys,),
        "key.weight": (keys, width),
        "key.bias": (keys,),
        "value.weight": (values, width),
        "value.bias": (values,),
        "out.weight": (width, values),
        "out.bias": (width,),
        "hidden_norm.weight": (width,),
        "hidden_norm.bias": (width,),
        "inner.weight": (block.hidden, width),
        "inner.bias": (block.hidden,),
        "outer.weight": (width, block.hidden),
        "outer.bias": (width,),
    }


def _parameters(structure: VisionStructure, role: str) -> int:
    width = structure.width
    if role.startswith(BLOCK):
        block = structure.block(role)
        if isinstance(block, VisionBlock):
            return sum(prod(shape) for shape in block_shapes(block, width).values())
        return layer_parameters(block, width, causal=False) + width  # and the gate, one number a channel
    if role.startswith(ADAPTER):
        inner = structure.adapters[role]
        return 2 * width + (width + 1) * inner + (inner + 1) * width
    return {
        EMBEDDING: (structure.channels * structure.patch**2 + 1) * width,
        CLASS_TOKEN: width,
        POSITIONS: structure.tokens * width,
        NORM: 2 * width,
        HEAD: (width + 1) * structure.classes,
    }[role]


def _block_work(block: VisionBlock, width: int, tokens: int) -> Work:
    keys, values = block.heads * block.key_width, block.heads * block.value_width
    maps = 4 * tokens * width * (keys + values + block.hidden)
    return Work(maps + 2 * tokens**2 * (keys + values))
