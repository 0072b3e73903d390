"""A convolutional path from its components, and how it comes about: stored, copied, widened, inserted or made anew.

Legend: B samples, S pixels of a side, s places of a row, c channels, h numbers of a representation.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.multitask.paths.blocks import Head
from evodevo.multitask.paths.blocks_spec import ADAPTER, BLOCK, EMBEDDING, HEAD, NORM
from evodevo.multitask.paths.convolution.spec import (
    KERNEL,
    KIND,
    ConvolutionBlockSizes,
    ConvolutionStructure,
    role_parameters,
)
from evodevo.multitask.paths.dense import DenseInput
from evodevo.multitask.paths.images import check_images, image_input
from evodevo.multitask.paths.model import ComponentPath, filled, seeded
from evodevo.networks.base import Representation

State = Mapping[str, Tensor]


class ImageConvolution(nn.Module):
    """The first convolution: images (B, channels, S, S) -> features (B, c, s, s)."""

    def __init__(self, structure: ConvolutionStructure) -> None:
        super().__init__()
        self.project = _convolution(structure.channels, structure.widths[0], stride=structure.stride, bias=True)

    def forward(self, images: Tensor) -> Tensor:
        """See the class."""
        y: Tensor = self.project(images)
        return y


class ResidualBlock(nn.Module):
    """x + second(phi(norm(first(phi(norm(x)))))), with rectified linear units phi; where the resolution or the number
    of channels changes, ``around``, a 1 x 1 convolution of averages over squares, leads around it (1603.05027).

    Args:
        block: its sizes.
        structure: the norms.
        identity: the last convolution begins at zero, so that a block that does not project changes nothing at first.
    """

    def __init__(
        self, block: ConvolutionBlockSizes, structure: ConvolutionStructure, *, identity: bool = False
    ) -> None:
        super().__init__()
        self.stride = block.stride
        self.first_norm = _norm(block.inputs, structure)
        self.first = _convolution(block.inputs, block.hidden, stride=block.stride)
        self.second_norm = _norm(block.hidden, structure)
        self.second = _convolution(block.hidden, block.outputs)
        self.around = _convolution(block.inputs, block.outputs, kernel=1) if block.projects else None
        if identity:
            nn.init.zeros_(self.second.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(B, c, s, s) -> (B, c', s', s')."""
        y = F.relu(self.first_norm(x.contiguous()))
        if self.around is not None:
            x = self.around(F.avg_pool2d(y, 2, ceil_mode=True) if self.stride == 2 else y)
        result: Tensor = x + self.second(F.relu(self.second_norm(self.first(y).contiguous())))
        return result


class GridMean(nn.Module):
    """Norm, rectified linear units, and the mean of each cell of a grid: (B, c, s, s) -> (B, h).

    Cells overlap where the grid does not divide the features.
    """

    def __init__(self, structure: ConvolutionStructure) -> None:
        super().__init__()
        self.grid = structure.grid
        self.norm = _norm(structure.widths[-1], structure)

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        stride = x.shape[-1] // self.grid
        return F.avg_pool2d(F.relu(self.norm(x.contiguous())), x.shape[-1] - (self.grid - 1) * stride, stride).flatten(
            1
        )


def build_component(structure: ConvolutionStructure, role: str, seed: int, *, identity: bool = False) -> nn.Module:
    """A new component, on the CPU in float32; see ``paths.model.new_component``.

    Raises:
        UsageError: no such role.
    """
    structure.signature(role)

    def made() -> nn.Module:
        if role.startswith((BLOCK, ADAPTER)):
            return ResidualBlock(structure.block(role), structure, identity=identity)
        if role == HEAD:
            return Head(structure)
        return ImageConvolution(structure) if role == EMBEDDING else GridMean(structure)

    return seeded(role, seed, made)


def resize_block(structure: ConvolutionStructure, role: str, state: State, seed: int) -> dict[str, Tensor]:
    """Weights of a block for another number of channels inside of it.

    A wider block answers as before: its new channels form norm groups of their own, so that the old ones are
    normalised as they were, and the second convolution begins with zeros for them. A narrower one loses its last
    channels.

    Args:
        structure: structure of the path that needs the block.
        role: its role.
        state: weights of a block that differs in nothing else.
        seed: seed of the first convolution's new weights.
    """
    new = build_component(structure, role, seed).state_dict()
    kept = min(structure.block(role).hidden, state["first.weight"].shape[0])
    resized = {name: tensor.clone() for name, tensor in state.items()}
    for name in ("first.weight", "second_norm.weight", "second_norm.bias"):
        resized[name] = torch.cat([state[name][:kept], new[name][kept:]])
    added = torch.zeros_like(new["second.weight"][:, kept:])
    resized["second.weight"] = torch.cat([state["second.weight"][:, :kept], added], 1)
    return resized


class ConvolutionPath(ComponentPath[ConvolutionStructure]):
    """A path of convolutions that reads images."""

    kind = KIND

    @staticmethod
    def sizes(structure: ConvolutionStructure) -> dict[str, int]:
        return role_parameters(structure)

    @staticmethod
    def component(structure: ConvolutionStructure, role: str, seed: int, *, identity: bool = False) -> nn.Module:
        return build_component(structure, role, seed, identity=identity)

    def dense_inputs(self) -> dict[str, DenseInput]:
        """Its one entry of a batch, the whole; see ``Multipath.dense_inputs``."""
        return {"": image_input(self.structure)}

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, channels, S, S) in [-1, 1] -> logits (B, classes), or representations (B, h) without a head.

        Raises:
            UsageError: images of another size.
        """
        return self._answer(self.represent(images).pooled)

    def represent(self, images: Tensor) -> Representation:
        """Features (B, s s, c) before the last norm, row by row, and the representation (B, h) of each image.

        Raises:
            UsageError: images of another size.
        """
        check_images(self.structure, images)
        # Bytes come with channels last. In that layout PyTorch 2.13 crashes on a CPU where a group norm learns and what
        # it reads does not.
        x = images.contiguous()
        for role, part in self.parts.items():
            if role not in (NORM, HEAD):
                x = part(x)
        return Representation(x.flatten(2).transpose(1, 2), None, self.parts[NORM](x))


def components_from(structure: ConvolutionStructure, stored: State) -> dict[str, nn.Module]:
    """The components of a path, by role, from weights ``role.name`` -> tensor.

    Raises:
        DataError: weights of another structure.
    """
    parts: dict[str, nn.Module] = {}
    for role in structure.roles:
        state = {name.removeprefix(f"{role}."): one for name, one in stored.items() if name.startswith(f"{role}.")}
        parts[role] = filled(build_component(structure, role, 0), role, state)
    return parts


def _convolution(inputs: int, outputs: int, *, kernel: int = KERNEL, stride: int = 1, bias: bool = False) -> nn.Conv2d:
    made = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=bias)
    nn.init.kaiming_normal_(made.weight, nonlinearity="relu")
    if made.bias is not None:
        nn.init.zeros_(made.bias)
    return made


def _norm(width: int, structure: ConvolutionStructure) -> nn.GroupNorm:
    return nn.GroupNorm(width // structure.group, width, structure.norm_epsilon)
