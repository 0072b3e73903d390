"""The root of the package as the beginning of a network that is trained whole: images to vectors.

Legend: B samples, D numbers of a representation.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from evodevo.estimators.automatic.networks.images import IMAGE
from evodevo.multitask.paths.convolution.model import ConvolutionPath
from evodevo.multitask.paths.convolution.spec import ConvolutionStructure
from evodevo.multitask.paths.images import read_images


class RootImages(nn.Module):
    """Images to vectors by a root that goes on learning; a learned vector replaces an image that a sample lacks.

    Its weights are new ones until those of a root are loaded (``Arm.initial``).

    Args:
        structure: Structure of the root, without a head; it decides the size at which images are read.

    Attributes:
        width: D.
    """

    def __init__(self, structure: ConvolutionStructure) -> None:
        super().__init__()
        self.root = ConvolutionPath.fresh(structure, 0)
        self.width = structure.width
        self.missing = nn.Parameter(torch.zeros(self.width))

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Vectors (B, D)."""
        vectors = cast(Tensor, self.root(read_images(self.root.structure, batch[IMAGE])))
        return torch.where(batch[f"{IMAGE}/present"][:, None], vectors, self.missing)
