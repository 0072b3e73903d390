"""The component of a vision path that others do not have: its embedding (docs/spec/munet.md#architecture).

Legend: B samples, n tokens (the class token first), h width, S pixels of an image's side.
"""

from __future__ import annotations

from torch import Tensor, nn

from evodevo.multitask.paths.vision.spec import VisionStructure

_TRUNCATED_STD = 0.87962566103423978  # of a normal cut at two standard deviations


class PatchEmbedding(nn.Module):
    """Images (B, channels, S, S) -> tokens (B, n - 1, h), row by row."""

    def __init__(self, structure: VisionStructure) -> None:
        super().__init__()
        self.project = nn.Conv2d(structure.channels, structure.width, structure.patch, structure.patch)
        # As the published code's framework begins a convolution: LeCun's normal, cut at two standard deviations.
        spread = self.project.weight[0].numel() ** -0.5 / _TRUNCATED_STD
        nn.init.trunc_normal_(self.project.weight, 0.0, spread, -2 * spread, 2 * spread)
        nn.init.zeros_(_bias(self.project))

    def forward(self, images: Tensor) -> Tensor:
        """See the class."""
        y: Tensor = self.project(images)
        return y.flatten(2).transpose(1, 2)


def _bias(module: nn.Conv2d) -> nn.Parameter:
    assert isinstance(module.bias, nn.Parameter)
    return module.bias
