"""Images of one size as the input of an exported network, as bytes.

Shapes: B samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.export.base import SampleInput
from evodevo.randomness import generator

_IMAGE_FILES = """\
import json
import sys

import numpy
import torch
from PIL import Image

{load}
for name in sys.argv[1:]:
    picture = Image.open(name).convert("{mode}").resize(({width}, {height}), Image.Resampling.BILINEAR)
    pixels = numpy.array(picture, dtype=numpy.uint8).reshape(1, {height}, {width}, {channels})
    with torch.no_grad():
        probabilities = {call}(torch.from_numpy(pixels)).softmax(-1)[0]
    print(name, spec["classes"][int(probabilities.argmax())], round(float(probabilities.max()), 4))
"""


@dataclass(frozen=True)
class ImageInput(SampleInput):
    """Images of one size, as bytes (B, height, width, channels)."""

    height: int
    width: int
    channels: int

    name = "images"
    dtype = "uint8"
    subject = "images"
    tag = "image-classification"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.height, self.width, self.channels)

    def probe(self, size: int) -> NDArray[np.uint8]:
        """Noise, and in the middle of the batch a gradient of brightness from black to white."""
        slope = np.linspace(0, 255, self.height * self.width).reshape(self.height, self.width, 1)
        batch = generator(0, size, "probe").integers(0, 256, (size, *self.shape), dtype=np.uint8)
        batch[size // 2] = np.broadcast_to(slope, self.shape).astype(np.uint8)
        return batch

    def words(self) -> str:
        return (
            f"`images`: bytes (uint8, 0 to 255) of shape (samples, {self.height}, {self.width}, {self.channels}),"
            f" {'grey' if self.channels == 1 else 'red, green, blue'}; channels come last. The model itself scales them"
            " and brings them to the size that each of its paths reads."
        )

    @property
    def example(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"images = torch.zeros(4, {shape}, dtype=torch.uint8)  # your images: 0 to 255"

    def files(self, load: str, call: str) -> Sequence[tuple[str, str]]:
        mode = "L" if self.channels == 1 else "RGB"
        sizes = {"height": self.height, "width": self.width, "channels": self.channels}
        code = _IMAGE_FILES.format(load=load, call=call, mode=mode, **sizes)
        return (("Image files, with Pillow: `python classify.py a.png`", code),)

    def to_json(self) -> dict[str, Any]:
        """The entry of ``spec.json``; None is any number of samples."""
        return {
            "name": self.name,
            "modality": "image",
            "dtype": self.dtype,
            "shape": [None, self.height, self.width, self.channels],
            "axes": ["samples", "height", "width", "channels"],
            "range": [0, 255],
            "mode": "L" if self.channels == 1 else "RGB",
        }
