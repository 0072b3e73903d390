"""The cost of the parts of a path of blocks: exact parameters, and the work of one forward pass at batch 1.

``multitask/paths/blocks.py`` builds exactly these parameters; tests recount them, and the products.

Legend: n tokens, h width.
"""

from __future__ import annotations

from math import prod

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
from evodevo.operators.cost import Work, total_work
from evodevo.operators.layers.cost import layer_parameters, layer_work


def parameters_by_role(structure: BlockStructure, embedding: int) -> dict[str, int]:
    """Role -> parameters of its component; those of the embedding are given.

    Raises:
        UsageError: a block is a layer that does not exist at this width.
    """
    return {role: embedding if role == EMBEDDING else _parameters(structure, role) for role in structure.roles}


def work_behind_embedding(structure: BlockStructure) -> Work:
    """Work of all blocks and the head, for one sample of as many tokens as the path reads."""
    width, tokens = structure.width, structure.tokens
    parts = [Work(2 * width * structure.classes)]
    for role in structure.roles:
        if role.startswith(BLOCK):
            block = structure.block(role)
            parts.append(
                _block_work(block, width, tokens)
                if isinstance(block, PathBlock)
                else layer_work(block, width, tokens, causal=False, visible=False)
            )
    return total_work(parts)


def block_shapes(block: PathBlock, width: int) -> dict[str, tuple[int, ...]]:
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


def _parameters(structure: BlockStructure, role: str) -> int:
    width = structure.width
    if role.startswith(BLOCK):
        block = structure.block(role)
        if isinstance(block, PathBlock):
            return sum(prod(shape) for shape in block_shapes(block, width).values())
        return layer_parameters(block, width, causal=False) + width  # and the gate, one number a channel
    return {
        CLASS_TOKEN: width,
        POSITIONS: structure.tokens * width,
        NORM: 2 * width,
        HEAD: (width + 1) * structure.classes,
    }[role]


def _block_work(block: PathBlock, width: int, tokens: int) -> Work:
    keys, values = block.heads * block.key_width, block.heads * block.value_width
    maps = 4 * tokens * width * (keys + values + block.hidden)
    return Work(maps + 2 * tokens**2 * (keys + values))
