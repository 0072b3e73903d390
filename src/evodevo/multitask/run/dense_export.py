"""A path as one module from bytes of images to logits: what a system's reader does outside is done inside.

Legend: B samples, C classes, S pixels of an image's side.
"""

from __future__ import annotations

import copy

from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.multitask.paths.vision.input import read_images
from evodevo.multitask.paths.vision.model import VisionPath
from evodevo.multitask.paths.vision.spec import VisionStructure


class DensePath(nn.Module):
    """Images (B, height, width, 1 or 3) of bytes -> logits (B, C); every sample passes every path.

    Channels, resizing and scaling belong to it, for each path inside at its own size. Parameters need no gradients.

    Args:
        network: a vision path with its head, or a multipath model of such; it is copied.

    Raises:
        UsageError: any other network, or one without a head.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.reads = _entries(network)
        self.network = copy.deepcopy(network).requires_grad_(False).eval()
        if isinstance(self.network, Multipath):
            # Which samples a support is run for depends on the router's weights for each: no fixed graph holds that.
            self.network.structure = self.network.structure.model_copy(update={"skip_below": 0.0})

    def forward(self, images: Tensor) -> Tensor:
        """See the class."""
        if not isinstance(self.network, Multipath):
            (structure,) = self.reads.values()
            whole: Tensor = self.network(read_images(structure, images))
            return whole
        joint: Tensor = self.network({name: read_images(entry, images) for name, entry in self.reads.items()})
        return joint


def _entries(network: nn.Module) -> dict[str, VisionStructure]:
    """Entry of a batch -> the structure of the paths that read it."""
    if isinstance(network, VisionPath):
        if not network.structure.classes:
            raise UsageError("a path without a head answers no task; export one that does.")
        return {"": network.structure}
    if not isinstance(network, Multipath):
        raise UsageError(f"a {type(network).__name__} is not exported yet; exported are vision paths, and multipaths.")
    entries = {}
    for part in network.paths.values():
        inner = part.module if isinstance(part, FrozenPath) else part
        if not isinstance(inner, VisionPath):
            raise UsageError(
                f"this multipath model reads a {type(inner).__name__}, which is not exported yet; exported are models"
                " of vision paths alone."
            )
        entries[str(part.reads)] = inner.structure
    return entries
