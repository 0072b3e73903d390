"""Mixtures of experts, and stacks of them, as plain data."""

from __future__ import annotations

from typing import Literal, Protocol, Self

from pydantic import Field, model_validator

from evodevo.operators.spec import Activation
from evodevo.settings import Settings

MixtureStyle = Literal["switch", "st_moe", "soft_moe", "dyn_moe"]

EXPERTS_PER_TOKEN = {"switch": 1, "st_moe": 2}
"""Experts that see a token, where their number is fixed and not all see it."""


class MixtureSizes(Protocol):
    """What a mixture is built from; its style, of all styles that a structure has, is a ``MixtureStyle``.

    Attributes:
        style, width, experts, hidden, activation, slots, capacity, balance, z: Same as in ``MixtureStructure``.
    """

    @property
    def style(self) -> str: ...
    @property
    def width(self) -> int: ...
    @property
    def experts(self) -> int: ...
    @property
    def hidden(self) -> int: ...
    @property
    def activation(self) -> Activation: ...
    @property
    def slots(self) -> int: ...
    @property
    def capacity(self) -> float | None: ...
    @property
    def balance(self) -> float: ...
    @property
    def z(self) -> float: ...


class MixtureStructure(Settings):
    """A stack of mixtures of experts, or one mixture in a loop, with the inputs and outputs of an H-Model around it.

    x <- x + mixture(norm(x)), ``depth`` times, each after x <- x + attention(norm(x)) where ``heads`` are set. Without
    them nothing passes between positions but through slots of ``soft_moe``.

    Attributes:
        style: ``switch`` (top-1, Fedus et al. 2022), ``st_moe`` (top-2, Zoph et al. 2022), ``soft_moe`` (slots,
            Puigcerver et al. 2024), ``dyn_moe`` (as many experts as learned thresholds let through, Guo et al. 2025).
        width: Channels d.
        depth: Number of mixtures that a sample passes, T.
        tied: All of them are one: a single router and its experts in a loop.
        pass_routers: The router of each pass is its own, in a loop of ``switch`` or ``st_moe``.
        iteration_embedding: The number of the pass is embedded in the input of each.
        experts: Number of experts of a mixture, E.
        hidden: Hidden units of each expert.
        activation: Activation of these.
        heads: Attention heads before each mixture, a divisor of the width; left out, there is no attention.
        slots: Slots of each expert, of ``soft_moe``.
        capacity: Largest number of tokens of an expert of ``switch`` and ``st_moe`` while training, as a multiple of
            its even share; left out, none is dropped.
        balance: Weight of the loss on unequal load (Switch, eqs. 4 to 6); of ``dyn_moe`` that on similar and long
            gates. Summed over mixtures; with ``tied`` the load is pooled over passes, so that each pass may have
            experts of its own.
        z: Weight of the loss on large router logits, likewise; ``soft_moe`` has neither loss.
        causal: No position depends on later ones.
        input_blocks, output_blocks, canvas, missing: As in ``HModelStructure``; ``canvas_slots`` are its ``slots``.
    """

    style: MixtureStyle = "switch"
    width: int = Field(default=64, ge=4, le=65536)
    depth: int = Field(default=2, ge=1, le=256)
    tied: bool = False
    pass_routers: bool = Field(default=False, exclude_if=lambda value: not value)
    iteration_embedding: bool = False
    experts: int = Field(default=8, ge=2, le=4096)
    hidden: int = Field(default=128, ge=1, le=1 << 20)
    activation: Activation = "gelu"
    heads: int | None = Field(default=None, ge=1, le=1024, exclude_if=lambda value: value is None)
    slots: int = Field(default=1, ge=1, le=256)
    capacity: float | None = Field(default=None, gt=0, le=4096)
    balance: float = Field(default=0.01, ge=0)
    z: float = Field(default=0.0, ge=0)
    causal: bool = False
    input_blocks: int = Field(default=1, ge=0, le=16)
    output_blocks: int = Field(default=1, ge=0, le=16)
    canvas: Literal["segments", "latents", "pad"] = "segments"
    canvas_slots: int = Field(default=16, ge=1, le=4096)
    missing: bool = False

    @model_validator(mode="after")
    def _it_can_be_built(self) -> Self:
        if self.causal and self.style == "soft_moe":
            raise ValueError("slots of soft_moe hold tokens of all positions; a causal mixture needs another style")
        if self.heads is not None and self.width % self.heads:
            raise ValueError(f"{self.heads} attention heads do not divide the width {self.width}; take a divisor of it")
        if self.causal and self.canvas != "segments":
            raise ValueError("a causal model needs the canvas segments: other positions have no order")
        if self.pass_routers and not (self.tied and self.style in EXPERTS_PER_TOKEN):
            raise ValueError(
                "pass_routers are of one mixture in a loop, of the styles switch and st_moe; set tied = true, or leave"
                " them out: mixtures one after the other have routers of their own"
            )
        return self

    @property
    def routers(self) -> int:
        """Routers of one mixture."""
        return self.depth if self.pass_routers else 1

    @property
    def built(self) -> int:
        """Mixtures that have weights of their own."""
        return 1 if self.tied else self.depth
