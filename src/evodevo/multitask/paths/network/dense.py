"""What an exported path of an imported network reads.

Legend: B samples, L tokens.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.multitask.paths.dense import DENSE_WORDS, DenseInput, dense_texts
from evodevo.multitask.paths.images import with_channels
from evodevo.multitask.paths.network.spec import NetworkInput, NetworkStructure


def network_input(structure: NetworkStructure) -> DenseInput:
    """The input of an exported path.

    Raises:
        UsageError: the network reads several inputs, or features of an extractor.
    """
    (spec, *others) = structure.read
    if others or spec.modality == "features":
        reads = ", ".join(f"{one.name} ({one.modality})" for one in structure.read)
        raise UsageError(f"the imported network reads {reads}; exported are those that read one image, text or vector.")
    if spec.modality == "image":
        return DenseInput(structure, partial(_image, wanted=spec), "images", "(B, height, width, 1 or 3) of bytes")
    if spec.modality == "tokens":
        read = partial(dense_texts, length=spec.length, tokens=spec.name, mask=f"{spec.name}/mask")
        return DenseInput(structure, read, "texts", DENSE_WORDS, spec.length)
    return DenseInput(structure, partial(_vector, name=spec.name), "rows", f"(B, {spec.size}) numbers")


def sized(images: Tensor, wanted: NetworkInput) -> Tensor:
    """Numbers (B, c, height, width) in [0, 255] -> bytes (B, height, width, channels) of the network's size."""
    x = with_channels(images, wanted.channels)
    size = (wanted.height, wanted.width)
    if tuple(x.shape[2:]) != size:
        x = F.interpolate(x, size, mode="bilinear", antialias=True, align_corners=False)
    return x.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def _image(images: Tensor, *, wanted: NetworkInput) -> dict[str, Tensor]:
    return {wanted.name: sized(images.permute(0, 3, 1, 2).float(), wanted)}


def _vector(rows: Tensor, *, name: str) -> dict[str, Tensor]:
    return {name: rows}
