"""Paths that are a row of blocks between an embedding and a head: the common part of all modalities.

µNet (2205.10937) and µ4Net (2302.02721); docs/spec/munet.md#architecture. Tokens of a sample follow a class token,
whose final state represents it. ``blocks.py`` builds exactly the parameters that are stated here; tests recount them,
and the products.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from math import prod
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.operators.cost import Work, total_work
from evodevo.operators.layers.base import LAYERS, LayerSpec
from evodevo.operators.layers.cost import layer_parameters, layer_work
from evodevo.settings import RowOf, Settings, validate

PathActivation = Literal["gelu_tanh", "gelu", "relu", "silu"]
EMBEDDING, CLASS_TOKEN, POSITIONS, NORM, HEAD = "embedding", "cls", "posembed_input", "encoder_norm", "head"
BLOCK = "encoderblock_"
ADAPTER = "adapter_"
"""Prefix of the roles of adapters, each of which follows the block of its number."""
_NUMBERED = re.compile(rf"{BLOCK}(?:0|[1-9][0-9]{{0,3}})", re.ASCII)


class PathBlock(Settings):
    """A pre-norm transformer block: attention and a feed-forward network, each with its norm and residual.

    Attributes:
        heads: attention heads.
        key_width: channels of a query and of a key, in each head.
        value_width: channels of a value, in each head.
        hidden: units of the feed-forward network.
    """

    kind: Literal["vit"] = "vit"
    heads: int = Field(ge=1, le=1024)
    key_width: int = Field(ge=1, le=65536)
    value_width: int = Field(ge=1, le=65536)
    hidden: int = Field(ge=1, le=1 << 20)


AnyBlock = Annotated[PathBlock | LayerSpec, RowOf(LAYERS, also={"vit": PathBlock})]


class ComponentStructure(Settings):
    """A path that is a row of components."""

    def changed(self, **values: Any) -> Self:
        """The structure with other values, checked.

        Raises:
            UsageError: they do not fit.
        """
        return validate(type(self), {**self.model_dump(mode="json"), **values}, what="structure of the path")


class BlockStructure(ComponentStructure):
    """A path of blocks, for any modality.

    Attributes:
        width: channels h of a token.
        heads, hidden: sizes of a block that ``blocks`` does not describe; its keys and values have width / heads
            channels.
        layers: number of blocks that a sample passes.
        classes: number of classes of the head; 0 is headless, and the answer is the class token.
        blocks: role ("encoderblock_2") -> another block, or any layer of the library. Entries above ``layers`` are kept
            for a later return of the layer.
        adapters: none; µNet's agents had them, and the hash of a path is over this key, too.
        activation: activation function of the feed-forward networks.
        norm_epsilon: epsilon of every norm.
    """

    width: int = Field(ge=1, le=65536)
    heads: int = Field(ge=1, le=1024)
    hidden: int = Field(ge=1, le=1 << 20)
    layers: int = Field(ge=0, le=1024)
    classes: int = Field(default=0, ge=0, le=1 << 24)
    blocks: dict[str, AnyBlock] = Field(default_factory=dict)
    adapters: dict[str, int] = Field(default_factory=dict, max_length=0)
    activation: PathActivation = "gelu_tanh"
    norm_epsilon: float = Field(default=1e-6, gt=0, le=1e-2)

    @model_validator(mode="after")
    def _blocks_fit(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"{self.heads} attention heads do not divide the width {self.width}")
        for role in self.blocks:
            if not _NUMBERED.fullmatch(role):
                raise ValueError(f"blocks has the key {role!r}; keys are {BLOCK}0, {BLOCK}1, ...")
        return self

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Largest number of tokens of a sample, with the class token."""

    @property
    @abstractmethod
    def input_spec(self) -> dict[str, Any]:
        """Preparation of a task's bytes for the first component; part of a path's identity."""

    @abstractmethod
    def front(self, role: str) -> dict[str, Any]:
        """Facts that decide, besides the width, whether an embedding or a table of positions fits."""

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the components, in the order in which a sample passes them."""
        inside = [f"{BLOCK}{number}" for number in range(self.layers)]
        return (EMBEDDING, CLASS_TOKEN, POSITIONS, *inside, NORM, *([HEAD] if self.classes else []))

    def block(self, role: str) -> PathBlock | LayerSpec:
        """The description of a block, whether or not a sample passes it."""
        return self.blocks.get(role, self.plain_block)

    @property
    def plain_block(self) -> PathBlock:
        """The block for roles that ``blocks`` does not describe."""
        part = self.width // self.heads
        return PathBlock(heads=self.heads, key_width=part, value_width=part, hidden=self.hidden)

    def signature(self, role: str) -> dict[str, Any]:
        """All that decides whether a component fits here: it fits where it had an equal signature.

        Raises:
            UsageError: no such role in this structure.
        """
        if role not in self.roles:
            raise UsageError(f"a path of {self.layers} layers has no component {role!r}; it has {list(self.roles)}.")
        own: dict[str, Any] = {"width": self.width}
        if role in (EMBEDDING, POSITIONS):
            return own | self.front(role)
        if role == HEAD:
            return own | {"classes": self.classes}
        if role == NORM:
            return own | {"epsilon": self.norm_epsilon}
        if role.startswith(BLOCK):
            block = self.block(role)
            own["block"] = block.model_dump(mode="json")
            if isinstance(block, PathBlock):
                own |= {"activation": self.activation, "epsilon": self.norm_epsilon}
        return own


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
