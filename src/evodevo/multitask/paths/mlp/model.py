"""The modules of a residual multilayer perceptron over vectors, and how its components come about: stored, widened,
inserted or made anew.

Legend: B samples, G numbers of a sample, F of them that may be missing, D width, H numbers inside of a block.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.multitask.paths.blocks import Head
from evodevo.multitask.paths.blocks_spec import EMBEDDING, HEAD, NORM
from evodevo.multitask.paths.dense import DenseInput
from evodevo.multitask.paths.mlp.spec import KIND, MLPStructure, role_parameters
from evodevo.multitask.paths.model import ComponentPath, seeded
from evodevo.networks.base import Representation

State = Mapping[str, Tensor]
BOUND = 3.0
"""Standardised numbers stay below this in magnitude; see ``RowEmbedding``."""


class RowEmbedding(nn.Module):
    """Vectors as a task hands them out -> (B, D): standardised, pulled in, and multiplied by a matrix.

    x' = (x - mean) * factor with the statistics of the training samples, 0 where a number is missing (the mean takes
    its place) and where it never varied; then x' / sqrt(1 + (x' / 3)^2), so that no number can be far from all that was
    learned (Holzmüller, Grinsztajn, Steinwart 2024, 2407.04491). An indicator says that a number is missing.

    Args:
        structure: sizes.
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, structure: MLPStructure) -> None:
        super().__init__()
        self.indicated = structure.indicated
        self.register_buffer("mean", torch.zeros(structure.inputs))
        self.register_buffer("factor", torch.ones(structure.inputs))
        self.project = _linear(structure.inputs, structure.width)

    @torch.no_grad()
    def measure(self, vectors: Tensor) -> None:
        """Take the statistics of training samples (N, G)."""
        x = vectors.double()
        there = torch.ones_like(x)
        there[:, : self.indicated] -= x[:, self.indicated : 2 * self.indicated]
        count = there.sum(0).clamp(min=1)
        mean = (x * there).sum(0) / count
        deviation = (((x - mean) * there) ** 2).sum(0).div(count).sqrt()
        varies = deviation > 1e-9 * mean.abs().clamp(min=1e-30)
        self.mean.copy_(mean)
        self.factor.copy_(torch.where(varies, 1 / deviation.clamp(min=1e-30), 0))

    def scaled(self, vectors: Tensor) -> Tensor:
        """x', (B, G)."""
        x = (vectors - self.mean) * self.factor
        if self.indicated:
            there = 1 - vectors[:, self.indicated : 2 * self.indicated]
            x = torch.cat([x[:, : self.indicated] * there, x[:, self.indicated :]], 1)
        x = x.clamp(-1e15, 1e15)  # the square stays finite
        return x / (1 + (x / BOUND) ** 2).sqrt()

    def forward(self, vectors: Tensor) -> Tensor:
        """See the class."""
        y: Tensor = self.project(self.scaled(vectors))
        return y


class MLPBlock(nn.Module):
    """x + second(relu(first(norm(x)))).

    Args:
        structure: sizes.
        identity: the last map begins at zero, so that the block changes nothing at first.
    """

    def __init__(self, structure: MLPStructure, *, identity: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(structure.width, structure.norm_epsilon)
        self.first = _linear(structure.width, structure.hidden)
        self.second = _linear(structure.hidden, structure.width)
        if identity:
            nn.init.zeros_(self.second.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, D)."""
        y: Tensor = x + self.second(F.relu(self.first(self.norm(x))))
        return y


class RectifiedNorm(nn.Module):
    """Norm and rectified linear units: (B, D) -> (B, D)."""

    def __init__(self, structure: MLPStructure) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(structure.width, structure.norm_epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        return F.relu(self.norm(x))


class MLPPath(ComponentPath[MLPStructure]):
    """A path that reads vectors."""

    kind = KIND

    @staticmethod
    def sizes(structure: MLPStructure) -> dict[str, int]:
        return role_parameters(structure)

    @staticmethod
    def component(structure: MLPStructure, role: str, seed: int, *, identity: bool = False) -> nn.Module:
        return build_component(structure, role, seed, identity=identity)

    def dense_inputs(self) -> dict[str, DenseInput]:
        """Its one entry of a batch, the whole; see ``Multipath.dense_inputs``."""
        return {"": DenseInput(self.structure, Tensor.float, "rows", f"(B, {self.structure.inputs}) numbers")}

    def forward(self, vectors: Tensor) -> Tensor:
        """Vectors (B, G), as a task hands them out -> logits (B, classes), or without a head representations (B, D).

        Raises:
            UsageError: vectors of another size, or a path without an embedding.
        """
        return self._answer(self.represent(vectors).pooled)

    def represent(self, vectors: Tensor) -> Representation:
        """The representation (B, D) of each sample, which is its one token (B, 1, D), too.

        Raises:
            UsageError: see ``forward``.
        """
        if not self.structure.inputs or vectors.dim() != 2 or vectors.shape[1] != self.structure.inputs:
            raise UsageError(
                f"this path reads vectors of {self.structure.inputs} numbers; {tuple(vectors.shape[1:])} were given."
            )
        x = vectors
        for role, part in self.parts.items():
            if role != HEAD:
                x = part(x)
        return Representation(x.unsqueeze(1), None, x)


def build_component(structure: MLPStructure, role: str, seed: int, *, identity: bool = False) -> nn.Module:
    """A new component, on the CPU in float32; see ``paths.model.new_component``.

    Raises:
        UsageError: no such role.
    """
    structure.signature(role)

    def made() -> nn.Module:
        if role == EMBEDDING:
            return RowEmbedding(structure)
        if role == NORM:
            return RectifiedNorm(structure)
        return Head(structure) if role == HEAD else MLPBlock(structure, identity=identity)

    return seeded(role, seed, made)


def resize_block(structure: MLPStructure, role: str, state: State, seed: int) -> dict[str, Tensor]:
    """Weights of a block for another width inside of it.

    A wider block answers as before: the second map begins with zeros for the new numbers. A narrower one loses its last
    numbers.

    Args:
        structure: structure of the path that needs the block.
        role: its role.
        state: weights of a block that differs in nothing else.
        seed: seed of the first map's new weights.
    """
    new = build_component(structure, role, seed).state_dict()
    kept = min(structure.hidden, state["first.weight"].shape[0])
    resized = {name: tensor.clone() for name, tensor in state.items()}
    for name in ("first.weight", "first.bias"):
        resized[name] = torch.cat([state[name][:kept], new[name][kept:]])
    added = torch.zeros_like(new["second.weight"][:, kept:])
    resized["second.weight"] = torch.cat([state["second.weight"][:, :kept], added], 1)
    return resized


def _linear(inputs: int, outputs: int) -> nn.Linear:
    made = nn.Linear(inputs, outputs)
    nn.init.kaiming_normal_(made.weight, nonlinearity="relu")
    nn.init.zeros_(made.bias)
    return made
