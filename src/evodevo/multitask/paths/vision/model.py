"""A vision path from its components: a vision transformer whose parts several paths may share.

Source: docs/spec/munet.md#architecture; ``multitask/paths/vision/spec.py`` describes the structure.

Legend: B samples, n tokens (the class token first), h width, S pixels of an image's side.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.paths.model import BlockPath, filled, new_component
from evodevo.multitask.paths.vision.cost import role_parameters
from evodevo.multitask.paths.vision.embedding import PatchEmbedding
from evodevo.multitask.paths.vision.spec import VisionStructure
from evodevo.networks.base import Representation


def build_component(structure: VisionStructure, role: str, seed: int, *, identity: bool = False) -> nn.Module:
    """A new component, on the CPU in float32; see ``path_network.new_component``."""
    return new_component(structure, role, seed, PatchEmbedding, identity=identity)


def component_from_state(structure: VisionStructure, role: str, state: Mapping[str, Tensor]) -> nn.Module:
    """A component with copies of weights that were stored, on the CPU in float32.

    Raises:
        UsageError: as ``build_component``.
        DataError: weights of another component: what is missing, not wanted, or of another shape.
    """
    return filled(build_component(structure, role, 0), role, state)


class VisionPath(BlockPath[VisionStructure]):
    """A path that reads images; see ``BlockPath``."""

    @staticmethod
    def sizes(structure: VisionStructure) -> dict[str, int]:
        return role_parameters(structure)

    @classmethod
    def fresh(cls, structure: VisionStructure, seed: int) -> VisionPath:
        """A path all of whose components are new."""
        return cls(structure, {role: build_component(structure, role, seed) for role in structure.roles})

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
        wanted = (self.structure.channels, *self.input_spec["size"])
        if tuple(images.shape[1:]) != wanted:
            raise UsageError(f"this path reads images of shape {wanted}; {tuple(images.shape[1:])} were given.")
        return self._through(images)
