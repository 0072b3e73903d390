"""A vision path from its components: a vision transformer whose parts several paths may share.

Source: docs/spec/munet.md#architecture; ``multitask/paths/vision/spec.py`` describes the structure.

Legend: B samples, n tokens (the class token first), h width, S pixels of an image's side.
"""

from __future__ import annotations

from torch import Tensor, nn

from evodevo.multitask.paths.dense import DenseInput
from evodevo.multitask.paths.images import check_images, image_input
from evodevo.multitask.paths.model import BlockPath, new_component
from evodevo.multitask.paths.vision.spec import KIND, VisionStructure, role_parameters
from evodevo.networks.base import Representation

_TRUNCATED_STD = 0.87962566103423978  # of a normal cut at two standard deviations


class PatchEmbedding(nn.Module):
    """Images (B, channels, S, S) -> tokens (B, n - 1, h), row by row."""

    def __init__(self, structure: VisionStructure) -> None:
        super().__init__()
        self.project = nn.Conv2d(structure.channels, structure.width, structure.patch, structure.patch)
        # As the published code's framework begins a convolution: LeCun's normal, cut at two standard deviations.
        spread = self.project.weight[0].numel() ** -0.5 / _TRUNCATED_STD
        nn.init.trunc_normal_(self.project.weight, 0.0, spread, -2 * spread, 2 * spread)
        assert self.project.bias is not None
        nn.init.zeros_(self.project.bias)

    def forward(self, images: Tensor) -> Tensor:
        """See the class."""
        y: Tensor = self.project(images)
        return y.flatten(2).transpose(1, 2)


def build_component(structure: VisionStructure, role: str, seed: int, *, identity: bool = False) -> nn.Module:
    """A new component, on the CPU in float32; see ``paths.model.new_component``."""
    return new_component(structure, role, seed, PatchEmbedding, identity=identity)


class VisionPath(BlockPath[VisionStructure]):
    """A path that reads images; see ``BlockPath``."""

    kind = KIND

    @staticmethod
    def sizes(structure: VisionStructure) -> dict[str, int]:
        return role_parameters(structure)

    @staticmethod
    def component(structure: VisionStructure, role: str, seed: int, *, identity: bool = False) -> nn.Module:
        return build_component(structure, role, seed, identity=identity)

    def dense_inputs(self) -> dict[str, DenseInput]:
        """Its one entry of a batch, the whole; see ``Multipath.dense_inputs``."""
        return {"": image_input(self.structure)}

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, channels, S, S) in [-1, 1] -> logits (B, classes), or class tokens (B, h) without a head.

        Raises:
            UsageError: images of another size.
        """
        return self._answer(self.represent(images).pooled)

    def represent(self, images: Tensor) -> Representation:
        """All tokens (B, n, h) after the last norm; an image is represented by its class token.

        Raises:
            UsageError: images of another size.
        """
        check_images(self.structure, images)
        return self._through(images)
