"""Images out of files, and brought to one size."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from evodevo.errors import DataError
from evodevo.tasks.images import pixels
from evodevo.tasks.images.pixels import UNEQUAL_SIDE, decode, decode_all, shape_of, uniform


def encoded(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


@pytest.fixture
def noise() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)


def test_every_kind_comes_back_as_it_was(noise: np.ndarray) -> None:
    np.testing.assert_array_equal(decode(encoded(Image.fromarray(noise)), "a.png"), noise)
    grey = decode(encoded(Image.fromarray(noise[..., 0])), "a.png")
    np.testing.assert_array_equal(grey, noise[..., :1])
    deep = Image.fromarray(np.asarray([[0, 257, 65_535]], np.uint16))
    assert decode(encoded(deep), "a.png")[..., 0].tolist() == [[0, 1, 255]], "sixteen bits become eight"
    picture = np.full((16, 16, 3), (200, 30, 60), np.uint8)
    assert np.abs(decode(encoded(Image.fromarray(picture), "JPEG"), "a.jpg").astype(int) - picture).max() < 5


def test_transparent_is_white_palettes_are_colours_and_turned_photos_stand_upright(noise: np.ndarray) -> None:
    clear = Image.fromarray(np.dstack([noise, np.zeros((5, 7), np.uint8)]))
    assert (decode(encoded(clear), "a.png") == 255).all()
    few = Image.new("P", (4, 4), 1)
    few.putpalette([0, 0, 0, 10, 20, 30])
    assert decode(encoded(few), "a.png")[0, 0].tolist() == [10, 20, 30]
    exif = Image.Exif()
    exif[0x0112] = 6  # turned clockwise when shown
    assert decode(encoded(Image.fromarray(noise), exif=exif), "a.png").shape == (7, 5, 3)


@pytest.mark.parametrize("data", [b"", b"no image", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_what_is_no_image_is_named(data: bytes) -> None:
    with pytest.raises(DataError, match=r"the image broken\.png cannot be read"):
        decode(data, "broken.png")


def test_a_cut_off_image_is_refused(noise: np.ndarray) -> None:
    whole = encoded(Image.fromarray(np.tile(noise, (20, 20, 1))))
    with pytest.raises(DataError, match="cannot be read"):
        decode(whole[: len(whole) // 2], "half.png")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "I;16", "P", "RGB", "RGBA", "CMYK"])
def test_the_head_of_a_file_has_the_shape_of_its_picture(mode: str) -> None:
    kind = "TIFF" if mode == "CMYK" else "PNG"
    for turned in (1, 3, 6, 8):
        image = Image.new(mode, (5, 9))
        exif = image.getexif()
        exif[0x0112] = turned
        written = io.BytesIO()
        image.save(written, kind, exif=exif)
        data = written.getvalue()
        assert shape_of(data, "image") == decode(data, "image").shape
    with pytest.raises(DataError, match="no image format"):
        shape_of(b"no image", "image")


def test_a_decompression_bomb_is_refused_by_its_stated_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "MAX_PIXELS", 99)
    with pytest.raises(DataError, match="has 10 x 10 pixels"):
        decode(encoded(Image.new("L", (10, 10))), "bomb.png")
    monkeypatch.undo()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)  # of pillow, which refuses twice as many before we can look
    with pytest.raises(DataError, match="has 100 pixels; at most 67,108,864"):
        decode(encoded(Image.new("L", (10, 10))), "bomb.png")


def test_corrupt_images_are_left_out_only_on_wish_and_memory_has_a_limit(
    noise: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = encoded(Image.fromarray(noise))
    files = [("a", good), ("b", b"bad"), ("c", good), ("d", DataError("gone"))]
    images, kept, skipped, uneven = decode_all(files, (4, 3), skip_corrupt=True)
    assert [image.shape for image in images] == [(4, 3, 3)] * 2
    assert (kept, skipped, uneven) == ([0, 2], ["b", "d"], False)
    with pytest.raises(DataError, match="the image b"):
        decode_all(files, None, skip_corrupt=False)
    monkeypatch.setattr(pixels, "MAX_BYTES", 200)
    with pytest.raises(DataError, match="more than 200 bytes"):
        decode_all([("a", encoded(Image.fromarray(noise)))] * 3, None, skip_corrupt=True)


def test_sizes_and_channels_are_made_equal(noise: np.ndarray) -> None:
    grey, large = noise[..., :1], np.repeat(np.repeat(noise, 2, 0), 2, 1)
    assert uniform([noise, large], None, "auto", "these").shape == (2, UNEQUAL_SIDE, UNEQUAL_SIDE, 3)
    both = uniform([grey, large], (5, 7), "auto", "these")
    assert both.shape == (2, 5, 7, 3)
    np.testing.assert_array_equal(both[0], np.repeat(grey, 3, axis=2))
    assert np.abs(both[1].astype(int) - noise).max() < 90  # resized, not cut
    assert uniform([grey, noise], None, "grey", "these").shape == (2, 5, 7, 1)
    luma = np.asarray(Image.fromarray(noise).convert("L"))
    assert np.abs(uniform([noise], None, "grey", "these")[0, ..., 0].astype(int) - luma).max() <= 1
    assert uniform([grey], None, "rgb", "these").shape == (1, 5, 7, 3)
