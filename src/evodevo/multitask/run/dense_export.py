"""A path as one module from bytes of images to logits: what a system's reader does outside is done inside.

Legend: B samples, C classes, S pixels of an image's side.
"""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.paths.images import ImageStructure, read_images


class DensePath(nn.Module):
    """Images (B, height, width, 1 or 3) of bytes -> logits (B, C); every sample passes every path.

    Channels, resizing and scaling belong to it, for each path inside at its own size. Parameters need no gradients.

    Args:
        network: a path that reads images with its head, or a multipath model of such; it is copied.

    Raises:
        UsageError: any other network, or one without a head.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        reads_images = getattr(network, "image_inputs", None)
        if reads_images is None:
            raise UsageError(
                f"a {type(network).__name__} is not exported yet; exported are paths that read images, and multipaths."
            )
        self.reads: dict[str, ImageStructure] = reads_images()
        alone = self.reads.get("")
        if alone is not None and not alone.classes:
            raise UsageError("a path without a head answers no task; export one that does.")
        self.alone = alone
        model: Any = copy.deepcopy(network).requires_grad_(False).eval()
        if alone is None:
            # Which samples a support is run for depends on the router's weights for each: no fixed graph holds that.
            model.skip_below(0.0)
        self.network = model

    def forward(self, images: Tensor) -> Tensor:
        """See the class."""
        if self.alone is not None:
            read: Any = read_images(self.alone, images)
        else:
            read = {name: read_images(entry, images) for name, entry in self.reads.items()}
        logits: Tensor = self.network(read)
        return logits
