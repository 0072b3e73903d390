"""Growing a vision path without changing what it answers: wider blocks, more heads, another image size.

TransformerExpansions (Gesmundo & Maile 2023), expansions 1 to 4; docs/spec/munet.md#layer-insertion. Expansion 5
(hidden width) needs RMSNorm and is not here; expansion 6 (a new layer) is ``build_component(..., identity=True)``.

States are those of ``AttentionBlock``. What is free in an expansion is drawn as in a new block, or filled.

Legend: H heads, k channels of a query and a key, v of a value, p hidden units, h width.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.multitask.paths.blocks_spec import BLOCK, POSITIONS, PathBlock
from evodevo.multitask.paths.vision.model import build_component
from evodevo.multitask.paths.vision.spec import VisionStructure

State = dict[str, Tensor]
_BY_HEAD = ("query", "key", "value")


def expand_block(
    structure: VisionStructure,
    role: str,
    state: Mapping[str, Tensor],
    seed: int,
    *,
    hidden: int | None = None,
    heads: int | None = None,
    value_width: int | None = None,
    key_width: int | None = None,
    fill: float | None = None,
) -> tuple[VisionStructure, State]:
    """A block with more units, heads or channels, and the same answers.

    Args:
        structure: structure of the path that has the block.
        role: role of the block.
        state: its weights; they stay as they are.
        seed: seed of the free parameters.
        hidden, heads, value_width, key_width: new sizes of the block (expansions 1, 2, 3, 4); None keeps the old one.
        fill: value of the free parameters, which are drawn if left out.

    Returns:
        The structure in which this block has the new sizes, and the weights of the new block.

    Raises:
        UsageError: the block is a layer of another kind, or a size would shrink.
    """
    old = structure.block(role)
    if not role.startswith(BLOCK) or not isinstance(old, PathBlock):
        raise UsageError(f"only transformer blocks are expanded, and {role!r} is none.")
    wanted = {"hidden": hidden, "heads": heads, "value_width": value_width, "key_width": key_width}
    sizes = {name: getattr(old, name) if size is None else size for name, size in wanted.items()}
    for name, size in sizes.items():
        if size < getattr(old, name):
            raise UsageError(f"{role!r} has {name} {getattr(old, name)}; {size} would take something away from it.")
    block = old.model_copy(update=sizes)
    blocks = {**structure.model_dump(mode="json")["blocks"], role: block.model_dump(mode="json")}
    larger = structure.changed(blocks=blocks)
    free = build_component(larger, role, seed).state_dict()
    if fill is not None:
        free = {name: torch.full_like(tensor, fill) for name, tensor in free.items()}
    return larger, _merged(old, block, state, free)


def resize_positions(state: Mapping[str, Tensor], grid: int) -> State:
    """Weights of ``posembed_input`` for another number of patches in a row.

    Bilinear, corners on corners as in the published code; the class token's row is kept as it is. A single patch lies
    in the middle.

    Args:
        state: weights for any grid.
        grid: new number of patches in a row.
    """
    table = state["table"]
    side = round(sqrt(table.shape[0] - 1))
    if side == grid:
        return {"table": table.clone()}
    picture = table[1:].T.reshape(1, table.shape[1], side, side)
    resized = F.interpolate(picture, (grid, grid), mode="bilinear", align_corners=grid > 1)
    return {"table": torch.cat([table[:1], resized.reshape(table.shape[1], -1).T])}


def at_image_size(
    structure: VisionStructure, states: Mapping[str, Mapping[str, Tensor]], image_size: int
) -> tuple[VisionStructure, dict[str, Mapping[str, Tensor]]]:
    """A path's structure and states (role -> weights) for images of another size.

    Raises:
        UsageError: patches do not tile such images.
    """
    changed = structure.changed(image_size=image_size)
    return changed, {**states, POSITIONS: resize_positions(states[POSITIONS], changed.grid)}


def _merged(old: PathBlock, new: PathBlock, state: Mapping[str, Tensor], free: State) -> State:
    result = {name: tensor.clone() for name, tensor in state.items() if name.split(".")[0] not in (*_BY_HEAD, "out")}
    for part in _BY_HEAD:
        before, after = (block.value_width if part == "value" else block.key_width for block in (old, new))
        # Scores are divided by the root of the width; keys make up for its growth.
        scale = sqrt(after / before) if part == "key" else 1.0
        for name in (f"{part}.weight", f"{part}.bias"):
            target = _by_head(free[name], new.heads).clone()
            if part == "key":
                target[: old.heads, before:] = 0  # so that these parts of the queries add nothing to the scores
            target[: old.heads, :before] = _by_head(state[name], old.heads) * scale
            result[name] = target.reshape(free[name].shape)
    out = torch.zeros_like(free["out.weight"]).view(-1, new.heads, new.value_width)
    out[:, : old.heads, : old.value_width] = state["out.weight"].view(-1, old.heads, old.value_width)
    result["out.weight"], result["out.bias"] = out.flatten(1), state["out.bias"].clone()
    for name in ("inner.weight", "inner.bias"):
        result[name] = torch.cat([state[name], free[name][old.hidden :]])
    outer = torch.zeros_like(free["outer.weight"])
    outer[:, : old.hidden] = state["outer.weight"]
    result["outer.weight"] = outer
    return {name: result[name] for name in free}


def _by_head(tensor: Tensor, heads: int) -> Tensor:
    return tensor.view(heads, -1, *tensor.shape[1:])
