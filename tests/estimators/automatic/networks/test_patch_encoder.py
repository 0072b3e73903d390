"""Images by patches, against a loop over patches."""

from __future__ import annotations

import pytest
import torch

from evodevo.estimators.automatic.networks.images import ImageReading
from evodevo.estimators.automatic.networks.patch_encoder import ACROSS, PatchImages

WIDTH = 5


def made(height: int, width: int, colours: int) -> PatchImages:
    torch.manual_seed(0)
    mean, deviation = (0.2, 0.4, 0.6)[:colours], (0.5, 0.7, 0.9)[:colours]
    return PatchImages(ImageReading(shape=(height, width, colours), mean=mean, deviation=deviation), WIDTH)


@pytest.mark.parametrize(("height", "width", "colours"), [(28, 28, 1), (14, 13, 3), (8, 8, 1), (1, 20, 3), (64, 40, 1)])
def test_it_is_a_linear_map_of_each_patch_and_one_of_them_all(height: int, width: int, colours: int) -> None:
    network = made(height, width, colours)
    images = torch.randint(0, 256, (3, height, width, colours), dtype=torch.uint8)
    found = network({"image": images, "image/present": torch.ones(3, dtype=torch.bool)})
    side = network.patches.kernel_size[0]
    assert -(-max(height, width) // side) <= ACROSS
    colour = network.patches.weight.permute(0, 2, 3, 1)  # as pixels are
    across, down = -(-width // side), -(-height // side)
    for place, image in enumerate(images):
        pixels = torch.zeros(down * side, across * side, colours)  # beyond the border is the mean
        scaled = (image / 255 - network.mean[:, 0, 0]) / network.deviation[:, 0, 0]
        pixels[:height, :width] = scaled
        patches = torch.zeros(WIDTH, down, across)
        for row in range(down):
            for column in range(across):
                patch = pixels[row * side : (row + 1) * side, column * side : (column + 1) * side]
                patches[:, row, column] = (colour * patch).sum((1, 2, 3)) + network.patches.bias
        expected = network.positions(patches.clamp_min(0).flatten()).clamp_min(0)
        torch.testing.assert_close(found[place], expected, atol=1e-4, rtol=1e-4)


def test_an_image_that_lacks_is_a_learned_vector_and_its_pixels_do_not_count() -> None:
    network = made(14, 13, 3)
    torch.nn.init.normal_(network.missing)
    images = torch.randint(0, 256, (2, 14, 13, 3), dtype=torch.uint8)
    found = network({"image": images, "image/present": torch.tensor([True, False])})
    other = network({"image": images.flip(1), "image/present": torch.tensor([True, False])})
    assert torch.equal(found[1], network.missing)
    assert torch.equal(other[1], found[1])
    assert not torch.equal(other[0], found[0])
