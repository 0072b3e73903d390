"""The representations that a root of the package makes of images, for models that read numbers.

Legend: n samples, h numbers of a representation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from evodevo.multitask.paths.convolution.model import ConvolutionPath, components_from
from evodevo.multitask.paths.convolution.spec import ConvolutionStructure
from evodevo.multitask.paths.images import read_images

BATCH = 64


class RootRepresentations:
    """A frozen root.

    Args:
        structure: its structure, without a head.
        weights: ``role.name`` -> tensor.

    Raises:
        DataError: weights of another structure.
    """

    def __init__(self, structure: ConvolutionStructure, weights: Mapping[str, NDArray[np.float32]]) -> None:
        stored = {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}
        self._path = ConvolutionPath(structure, components_from(structure, stored)).eval()
        self.width = structure.width

    @torch.inference_mode()
    def read(
        self, images: NDArray[np.uint8], progress: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float32]:
        """Representations (n, h) of images (n, height, width, 1 or 3).

        Args:
            images: bytes.
            progress: called after each batch with the samples that are done, and all of them; what it raises ends the
                reading.
        """
        found = np.zeros((len(images), self.width), np.float32)
        for begin in range(0, len(images), BATCH):
            some = torch.from_numpy(np.ascontiguousarray(images[begin : begin + BATCH]))
            found[begin : begin + BATCH] = self._path(read_images(self._path.structure, some)).numpy()
            if progress is not None:
                progress(min(begin + BATCH, len(images)), len(images))
        return found
