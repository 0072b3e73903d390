"""A convolutional path from its components, and how it comes about: stored, copied, widened, inserted or made anew.

Legend: B samples, S pixels of a side, s places of a row, c channels, h numbers of a representation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.multitask.evaluate_settings import ComponentSource, PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.blocks import Head
from evodevo.multitask.paths.blocks_spec import ADAPTER, BLOCK, EMBEDDING, HEAD, NORM
from evodevo.multitask.paths.built import BuiltPath, FrozenPart
from evodevo.multitask.paths.convolution.spec import (
    KERNEL,
    ConvolutionBlockSizes,
    ConvolutionStructure,
    path_work,
    role_parameters,
    structure_of,
)
from evodevo.multitask.paths.dense import DenseInput
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.images import image_input, read_samples
from evodevo.multitask.paths.model import ComponentPath, component_of, filled, seeded, stored_components
from evodevo.multitask.roots.files import builtin_root
from evodevo.networks.base import Representation
from evodevo.storage.blobs import BlobPool
from evodevo.training.precision import Precision

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


def component_from_state(structure: ConvolutionStructure, role: str, state: State) -> nn.Module:
    """A component with copies of weights that were stored, on the CPU in float32.

    Raises:
        DataError: weights of another component: what is missing, not wanted, or of another shape.
    """
    return filled(build_component(structure, role, 0), role, state)


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

    @staticmethod
    def sizes(structure: ConvolutionStructure) -> dict[str, int]:
        return role_parameters(structure)

    @classmethod
    def fresh(cls, structure: ConvolutionStructure, seed: int) -> ConvolutionPath:
        """A path all of whose components are new."""
        return cls(structure, {role: build_component(structure, role, seed) for role in structure.roles})

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
        wanted = (self.structure.channels, *self.input_spec["size"])
        if tuple(images.shape[1:]) != wanted:
            raise UsageError(f"this path reads images of shape {wanted}; {tuple(images.shape[1:])} were given.")
        # Bytes come with channels last. In that layout PyTorch 2.13 crashes on a CPU where a group norm learns and what
        # it reads does not.
        x = images.contiguous()
        for role, part in self.parts.items():
            if role not in (NORM, HEAD):
                x = part(x)
        return Representation(x.flatten(2).transpose(1, 2), None, self.parts[NORM](x))


def build_convolution_path(request: PathRequest, pool: BlobPool, precision: Precision) -> BuiltPath:
    """The path of a request.

    Raises:
        StoreDamagedError: a component is gone or damaged.
        DataError: a component of another structure.
    """
    structure = structure_of(request.path)
    components = {
        role: component(structure, role, source, pool, request.seed) for role, source in request.components.items()
    }
    flops = float(path_work(structure).total)
    read = partial(read_samples, structure)
    return BuiltPath(ConvolutionPath(structure, components), components, flops, read, precision)


def component(
    structure: ConvolutionStructure, role: str, source: ComponentSource, pool: BlobPool, seed: int
) -> nn.Module:
    """One component from its source."""
    return component_of(
        role,
        source,
        pool,
        make=lambda identity: build_component(structure, role, seed, identity=identity),
        restore=lambda state: component_from_state(structure, role, state),
        resize=lambda state: resize_block(structure, role, state, seed),
    )


def freeze_convolution_path(path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
    """A published path, whole or without its head; see ``SinglepathKind.freeze``."""
    structure = structure_of(path)
    if not head:
        structure = structure.changed(classes=0)
    parts = stored_components(structure, path, digests, pool, partial(component_from_state, structure))
    return FrozenPart(
        FrozenPath(ConvolutionPath(structure, parts).eval(), reads=f"{structure.image_size} x {structure.channels}"),
        partial(read_samples, structure),
        structure.model_dump(mode="json"),
        structure.input_spec,
        structure.width,
        float(path_work(structure).total),
    )


def make_convolution_root(request: PathRequest, pool: BlobPool) -> dict[str, nn.Module]:
    """The components of a root; see ``SinglepathKind.make_root``.

    Raises:
        UsageError: neither at random nor a root of the package.
        DataError: another structure than the root's.
    """
    structure = structure_of(request.path)
    if request.root == "random_init":
        return {
            role: component(structure, role, source, pool, request.seed) for role, source in request.components.items()
        }
    file = builtin_root(request.checkpoint or "")
    if file is None:
        raise UsageError(f"a root of a convolutional path is no folder; {request.checkpoint} was given.")
    with safe_open(file, framework="pt") as opened:
        return components_from(structure, {name: opened.get_tensor(name) for name in sorted(opened.keys())})


def components_from(structure: ConvolutionStructure, stored: State) -> dict[str, nn.Module]:
    """The components of a path, by role, from weights ``role.name`` -> tensor.

    Raises:
        DataError: weights of another structure.
    """
    parts: dict[str, nn.Module] = {}
    for role in structure.roles:
        state = {name.removeprefix(f"{role}."): one for name, one in stored.items() if name.startswith(f"{role}.")}
        parts[role] = component_from_state(structure, role, state)
    return parts


def _convolution(inputs: int, outputs: int, *, kernel: int = KERNEL, stride: int = 1, bias: bool = False) -> nn.Conv2d:
    made = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=bias)
    nn.init.kaiming_normal_(made.weight, nonlinearity="relu")
    if made.bias is not None:
        nn.init.zeros_(made.bias)
    return made


def _norm(width: int, structure: ConvolutionStructure) -> nn.GroupNorm:
    return nn.GroupNorm(width // structure.group, width, structure.norm_epsilon)
