"""A vision path from its components: a vision transformer whose parts several paths may share.

Specification ``munet.md`` 1.1 and 2.1; ``spaces/vision_path.py`` describes the structure.

Legend: B samples, n tokens (the class token first), h width, S pixels of an image's side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from evodevo.errors import DataError, UsageError, quoted_list
from evodevo.models.network import Representation
from evodevo.models.vision_path_parts import (
    AttentionBlock,
    ClassToken,
    Head,
    LayerBlock,
    PatchEmbedding,
    Positions,
    ResidualAdapter,
)
from evodevo.randomness import integer_seed
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
from evodevo.spaces.vision_path_cost import role_parameters


def build_component(structure: VisionStructure, role: str, seed: int, *, identity: bool = False) -> nn.Module:
    """A new component, on the CPU in float32.

    Args:
        structure: of the path that needs it.
        role: of the component.
        seed: the weights depend on it and on the role alone; the global random stream is left as it was.
        identity: a block begins as one that changes nothing, so that it can be put into a path that has learned.

    Raises:
        UsageError: no such role, or a block that cannot be built.
    """
    structure.signature(role)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(integer_seed(seed, "component", role))
        return _build(structure, role, identity)


def component_from_state(structure: VisionStructure, role: str, state: Mapping[str, Tensor]) -> nn.Module:
    """A component with copies of weights that were stored, on the CPU in float32.

    Raises:
        UsageError: as ``build_component``.
        DataError: weights of another component: what is missing, not wanted, or of another shape.
    """
    component = build_component(structure, role, 0)
    wanted = component.state_dict()
    for name in sorted(wanted.keys() | state.keys()):
        if name not in state or name not in wanted:
            word = "lacks" if name not in state else "has an unknown"
            raise DataError(f"the stored component for {role!r} {word} {name!r}; it was made for another structure.")
        if wanted[name].shape != state[name].shape:
            raise DataError(
                f"the stored component for {role!r} has {name!r} of shape {tuple(state[name].shape)}, and this path "
                f"needs {tuple(wanted[name].shape)}."
            )
    component.load_state_dict(dict(state))
    return component


class VisionPath(nn.Module):
    """A path.

    Args:
        structure: what the components are put together to.
        components: role -> component, which the path does not copy: several paths may hold the same one.

    Raises:
        UsageError: a component that is missing, not wanted, or of another size.
    """

    def __init__(self, structure: VisionStructure, components: Mapping[str, nn.Module]) -> None:
        super().__init__()
        _check(structure, components)
        self.structure = structure
        self.parts = nn.ModuleDict({role: components[role] for role in structure.roles})
        self._between = [role for role in structure.roles if role.startswith((ADAPTER, BLOCK))]

    @classmethod
    def assemble(cls, structure: VisionStructure, components: Mapping[str, nn.Module]) -> VisionPath:
        """See the class."""
        return cls(structure, components)

    @classmethod
    def fresh(cls, structure: VisionStructure, seed: int) -> VisionPath:
        """A path all of whose components are new."""
        return cls(structure, {role: build_component(structure, role, seed) for role in structure.roles})

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, channels, S, S) in [-1, 1] -> logits (B, classes), or class tokens (B, h) without a head.

        Raises:
            UsageError: images of another size.
        """
        pooled = self.represent(images).pooled
        if HEAD not in self.parts:
            return pooled
        logits: Tensor = self.parts[HEAD](pooled)
        return logits

    def represent(self, images: Tensor) -> Representation:
        """All tokens (B, n, h) after the last norm; what stands for an image is its class token.

        Raises:
            UsageError: images of another size.
        """
        wanted = (self.structure.channels, *self.input_spec["size"])
        if tuple(images.shape[1:]) != wanted:
            raise UsageError(f"this path reads images of shape {wanted}; {tuple(images.shape[1:])} were given.")
        x = images
        for role in (EMBEDDING, CLASS_TOKEN, POSITIONS, *self._between, NORM):
            x = self.parts[role](x)
        return Representation(x, None, x[:, 0])

    @property
    def input_spec(self) -> dict[str, Any]:
        """See ``VisionStructure.input_spec``."""
        return self.structure.input_spec

    def components(self) -> dict[str, nn.Module]:
        """Role -> component, in the order in which a sample passes them."""
        return dict(self.parts.items())

    def learn(self, roles: Iterable[str]) -> list[nn.Parameter]:
        """Let these components learn and no others; returns their parameters.

        Raises:
            UsageError: a role that the path does not have.
        """
        chosen = set(roles)
        if unknown := sorted(chosen - self.parts.keys()):
            raise UsageError(f"the path has no component {unknown[0]!r}; it has {quoted_list(self.parts)}.")
        for role, part in self.parts.items():
            part.requires_grad_(role in chosen)
        self.train(self.training)
        return [parameter for role in self.parts if role in chosen for parameter in self.parts[role].parameters()]

    def train(self, mode: bool = True) -> VisionPath:
        """A component that does not learn stays in evaluation mode: dropout inside of it would be new to it."""
        super().train(mode)
        for part in self.parts.values():
            if not any(parameter.requires_grad for parameter in part.parameters()):
                part.eval()
        return self


def _build(structure: VisionStructure, role: str, identity: bool) -> nn.Module:
    if role.startswith(BLOCK):
        block = structure.block(role)
        if isinstance(block, VisionBlock):
            return AttentionBlock(block, structure, identity=identity)
        return LayerBlock(block, structure, identity=identity)
    if role.startswith(ADAPTER):
        return ResidualAdapter(structure.adapters[role], structure)
    if role == NORM:
        return nn.LayerNorm(structure.width, structure.norm_epsilon)
    simple = {EMBEDDING: PatchEmbedding, CLASS_TOKEN: ClassToken, POSITIONS: Positions, HEAD: Head}
    return simple[role](structure)


def _check(structure: VisionStructure, components: Mapping[str, nn.Module]) -> None:
    if missing := [role for role in structure.roles if role not in components]:
        raise UsageError(f"the path lacks the component {missing[0]!r}.")
    if extra := sorted(components.keys() - set(structure.roles)):
        raise UsageError(f"the path has no place for the component {extra[0]!r}; it has {list(structure.roles)}.")
    for role, count in role_parameters(structure).items():
        found = sum(parameter.numel() for parameter in components[role].parameters())
        if found != count:
            raise UsageError(
                f"the component for {role!r} has {found} parameters, and this path needs {count}: it was made for "
                "another structure."
            )
