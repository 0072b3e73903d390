"""A path from its components: blocks between an embedding and a head, each of which several paths may share.

Source: docs/spec/munet.md#components; ``multitask/paths/blocks_spec.py`` describes the structure.

Legend: B samples, n tokens (the class token first), h width.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from evodevo.errors import DataError, UsageError, quoted_list
from evodevo.multitask.paths.blocks import build_part
from evodevo.multitask.paths.blocks_spec import (
    BLOCK,
    CLASS_TOKEN,
    EMBEDDING,
    HEAD,
    NORM,
    POSITIONS,
    BlockStructure,
)
from evodevo.multitask.paths.kinds import PathStructure
from evodevo.multitask.paths.weights import count_parameters
from evodevo.networks.base import Representation
from evodevo.randomness import integer_seed

P = TypeVar("P", bound=PathStructure)
S = TypeVar("S", bound=BlockStructure)


def new_component(
    structure: S, role: str, seed: int, embedding: Callable[[S], nn.Module], *, identity: bool = False
) -> nn.Module:
    """A new component, on the CPU in float32.

    Args:
        structure: structure of the path that needs it.
        role: role of the component.
        seed: the weights depend on it and on the role alone; the global random stream is left as it was.
        embedding: builds the one component that differs between modalities.
        identity: whether a block begins as one that changes nothing, so that it can be put into a path that has
            learned.

    Raises:
        UsageError: no such role, or a block that cannot be built.
    """
    structure.signature(role)
    return seeded(
        role,
        seed,
        lambda: embedding(structure) if role == EMBEDDING else build_part(structure, role, identity=identity),
    )


def seeded(role: str, seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    """A new component that draws from the global random stream; see ``new_component``."""
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed writes down the whole call stack for each kind of device that is not there.
        torch.default_generator.manual_seed(integer_seed(seed, "component", role))
        return make()


def filled(component: nn.Module, role: str, state: Mapping[str, Tensor]) -> nn.Module:
    """A component with copies of weights that were stored.

    Raises:
        DataError: weights of another component: what is missing, not wanted, or of another shape.
    """
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


class ComponentPath(nn.Module, Generic[P]):
    """A path of components, which learn or stay as they are.

    Attributes:
        kind: row of ``KINDS`` that its paths have; its source is written by it.

    Args:
        structure: structure of the path.
        components: role -> component, which the path does not copy: several paths may hold the same one.

    Raises:
        UsageError: a component that is missing, not wanted, or of another size.
    """

    kind: ClassVar[str]

    def __init__(self, structure: P, components: Mapping[str, nn.Module]) -> None:
        super().__init__()
        _check(structure, components, self.sizes(structure))
        self.structure = structure
        self.parts = nn.ModuleDict({role: components[role] for role in structure.roles})

    @staticmethod
    @abstractmethod
    def sizes(structure: Any) -> dict[str, int]:
        """Role -> parameters of its component."""

    @staticmethod
    @abstractmethod
    def component(structure: Any, role: str, seed: int, *, identity: bool = False) -> nn.Module:
        """A new component, on the CPU in float32; see ``new_component``."""

    @classmethod
    def fresh(cls, structure: P, seed: int) -> Self:
        """A path all of whose components are new."""
        return cls(structure, {role: cls.component(structure, role, seed) for role in structure.roles})

    @property
    def input_spec(self) -> dict[str, Any]:
        """See ``PathStructure.input_spec``."""
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

    def train(self, mode: bool = True) -> Self:
        """A component that does not learn stays in evaluation mode: dropout inside of it would be new to it."""
        super().train(mode)
        for part in self.parts.values():
            if not any(parameter.requires_grad for parameter in part.parameters()):
                part.eval()
        return self

    def _answer(self, pooled: Tensor) -> Tensor:
        """Logits (B, classes), or the representations (B, h) themselves without a head."""
        if HEAD not in self.parts:
            return pooled
        logits: Tensor = self.parts[HEAD](pooled)
        return logits


class BlockPath(ComponentPath[S]):
    """A path of blocks between an embedding and a head, over tokens; see ``ComponentPath``."""

    def _through(self, x: Any, mask: Tensor | None = None) -> Representation:
        """Representation (B, n, h) of all tokens after the last norm; ``x`` is the input of the embedding, the
        mask is (B, n)."""
        for role in (EMBEDDING, CLASS_TOKEN, POSITIONS):
            x = self.parts[role](x)
        for role in self.structure.roles:
            if role.startswith(BLOCK):
                x = self.parts[role](x, mask)
        y: Tensor = self.parts[NORM](x)
        return Representation(y, mask, y[:, 0])


def _check(structure: PathStructure, components: Mapping[str, nn.Module], sizes: Mapping[str, int]) -> None:
    if missing := [role for role in structure.roles if role not in components]:
        raise UsageError(f"the path lacks the component {missing[0]!r}.")
    if extra := sorted(components.keys() - set(structure.roles)):
        raise UsageError(f"the path has no place for the component {extra[0]!r}; it has {list(structure.roles)}.")
    for role, count in sizes.items():
        actual = count_parameters(components[role])
        if actual != count:
            raise UsageError(
                f"the component for {role!r} has {actual} parameters, and this path needs {count}: it was made for "
                "another structure."
            )
