"""Decoding and resizing of images: from the bytes of a file to uint8 arrays (height, width, channels)."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evodevo import files
from evodevo.errors import DataError
from evodevo.tasks.images.suffixes import IMAGE_SUFFIXES
from evodevo.tasks.sounds import spectrogram

if TYPE_CHECKING:
    import PIL.Image

Colour = Literal["auto", "grey", "rgb"]
Pixels = NDArray[np.uint8]

SUFFIXES = frozenset(IMAGE_SUFFIXES)
# Of Pillow's readers; some others start programs, or are kept by nobody.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
# Larger than any useful photo, smaller than the size that a decompression bomb states.
MAX_PIXELS = 2**26
ADVICE = " Remove or replace it, or set skip_corrupt."
_LIMIT = f"at most {MAX_PIXELS:,} are read.{ADVICE}"
_ORIENTATION = 0x0112  # of EXIF: how a camera was held
_ON_ITS_SIDE = (5, 6, 7, 8)
_GREY = ("1", "L")
UNEQUAL_SIDE = 64
"""Height and width in pixels, where no size is given, of images of several sizes."""
MAX_FILE_BYTES = 64 * files.MIB
MAX_BYTES = files.most_input()
"""Largest size of all images of a task together, as uint8."""


def decode(data: bytes, place: str) -> Pixels:
    """The picture in a file of any common format, upright; the first one where there are several.

    Transparent parts become white, 16-bit grey becomes 8-bit. Of a sound it is the picture of its frequencies.

    Args:
        data: Bytes of the file.
        place: Name of the file, for the message.

    Returns:
        Pixels, (height, width, 1) for grey, (height, width, 3) for colour.

    Raises:
        DataError: The bytes are no image or sound, truncated, or the image has more than ``MAX_PIXELS``.
    """
    if spectrogram.is_sound(data):
        try:
            return spectrogram.picture(data, place)
        except spectrogram.UnreadableSoundError as error:
            raise DataError(f"{error}{ADVICE}") from None
    from PIL import ImageOps

    with _opened(data, place) as picture:
        picture.load()
        # Pillow copies what is upright already, a fifth of the time of a small image.
        turned = picture.getexif().get(_ORIENTATION, 1) != 1
        return _as_array(ImageOps.exif_transpose(picture) if turned else picture)


def shape_of(data: bytes, place: str) -> tuple[int, int, int]:
    """Height, width and channels of what ``decode`` returns, from the head of a file of an image alone.

    Raises:
        DataError: The bytes begin as no image, or it has more than ``MAX_PIXELS``.
    """
    if spectrogram.is_sound(data):
        height, width, channels = decode(data, place).shape
        return height, width, channels
    with _opened(data, place) as picture:
        sides = picture.height, picture.width
        # Pillow turns TIFF by itself.
        if picture.format != "TIFF" and picture.getexif().get(_ORIENTATION, 1) in _ON_ITS_SIDE:
            sides = sides[::-1]
        return *sides, 1 if picture.mode in _GREY or picture.mode.startswith("I") else 3


@contextmanager
def _opened(data: bytes, place: str) -> Iterator[PIL.Image.Image]:
    """A picture whose head is read.

    Raises:
        DataError: The bytes are no image, it has more than ``MAX_PIXELS``, or what is done with it fails.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pillow warns of odd metadata; the limit below is stricter than its own
            with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
                if picture.width * picture.height > MAX_PIXELS:
                    raise DataError(f"the image {place} has {picture.width} x {picture.height} pixels; {_LIMIT}")
                yield picture
    except DataError:
        raise
    except Image.DecompressionBombError as error:  # pillow's own limit is higher
        count = re.search(r"\d+", str(error))
        raise DataError(f"the image {place} has {count[0] if count else 'too many'} pixels; {_LIMIT}") from None
    except Exception as error:  # the readers of formats raise what their mistakes are: struct.error, KeyError, ...
        # pillow's message for an unknown format holds only the address of a Python object.
        unknown = isinstance(error, UnidentifiedImageError)
        reason = "no image format is known that begins so" if unknown else str(error) or type(error).__name__
        raise DataError(f"the image {place} cannot be read: {reason}.{ADVICE}") from None


class Decoded(NamedTuple):
    """Many files that were decoded.

    Args:
        images: Images, each (height, width, 1 or 3).
        kept: Index of the file of each image.
        skipped: Names of the files that were left out.
        uneven: Whether they had several sizes and none was given, so that all were resized.
    """

    images: list[Pixels]
    kept: list[int]
    skipped: list[str]
    uneven: bool


def decode_all(
    files: Iterable[tuple[str, bytes | DataError]], size: tuple[int, int] | None, skip_corrupt: bool
) -> Decoded:
    """Decode many files, each resized as soon as it is read, so that photos do not fill the memory.

    Args:
        files: Name of each file, and its bytes or the error of reading it.
        size: Height and width in pixels; None leaves images of one size as they are, and makes all of them
            ``UNEQUAL_SIDE`` where there are several.
        skip_corrupt: Whether to leave out files that cannot be read.

    Raises:
        DataError: A file cannot be read and is not to be skipped, or the images exceed the memory limit.
    """
    images: list[Pixels] = []
    kept: list[int] = []
    skipped: list[str] = []
    uneven, room = False, MAX_BYTES
    for number, (name, data) in enumerate(files):
        try:
            if isinstance(data, DataError):
                raise data
            image = decode(data, name)
        except DataError:
            if not skip_corrupt:
                raise
            skipped.append(name)
            continue
        if size is None and images and image.shape[:2] != images[0].shape[:2]:
            size, uneven = (UNEQUAL_SIDE, UNEQUAL_SIDE), True
            room += sum(other.size for other in images)
            images = [resized(other, *size) for other in images]
            room -= sum(other.size for other in images)
        if size is not None:
            image = resized(image, *size)
        room -= image.size
        if room < 0:
            raise DataError(
                f"at {name} the images take more than {MAX_BYTES:,} bytes. Set a smaller size, or give fewer."
            )
        images.append(image)
        kept.append(number)
    return Decoded(images, kept, skipped, uneven)


def uniform(images: Sequence[Pixels], size: tuple[int, int] | None, colour: Colour, what: str) -> Pixels:
    """Images of one size and one number of channels.

    Args:
        images: Images, each (height, width, 1 or 3).
        size: Height and width in pixels; None is their own where all have one, else ``UNEQUAL_SIDE`` for both.
        colour: Colour of the result; ``auto`` is colour where any image has it.
        what: Origin of the images, for the message.

    Returns:
        Pixels, (N, height, width, channels).

    Raises:
        DataError: The images exceed the memory limit.
    """
    sizes = {image.shape[:2] for image in images}
    if size is None and len(sizes) > 1:
        size = (UNEQUAL_SIDE, UNEQUAL_SIDE)
    height, width = size or next(iter(sizes), (0, 0))
    deep = colour == "rgb" or (colour == "auto" and any(image.shape[2] == 3 for image in images))
    channels = 3 if deep else 1
    if len(images) * height * width * channels > MAX_BYTES:
        raise DataError(
            f"{what} takes {len(images):,} x {height} x {width} x {channels} bytes, more than {MAX_BYTES:,}."
            " Set a smaller size, or a limit."
        )
    result = np.empty((len(images), height, width, channels), np.uint8)
    for row, image in enumerate(images):
        result[row] = _channels(resized(image, height, width), channels)
    return result


def _as_array(picture: object) -> Pixels:
    from PIL import Image

    assert isinstance(picture, Image.Image)
    if picture.mode.startswith("I"):  # 16-bit grey; 257 maps 65,535 to 255 exactly
        return (np.asarray(picture, dtype=np.int64).clip(0, 65_535) // 257).astype(np.uint8)[..., None]
    if picture.mode in _GREY:
        return np.asarray(picture.convert("L"))[..., None]
    if picture.has_transparency_data:
        layered = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered)
    return np.asarray(picture if picture.mode == "RGB" else picture.convert("RGB"))


def resized(image: Pixels, height: int, width: int) -> Pixels:
    """The image resized bilinearly with antialiasing; the image itself where it has that size."""
    if image.shape[:2] == (height, width):
        return image
    from PIL import Image

    planes = [
        np.asarray(Image.fromarray(image[..., channel]).resize((width, height), Image.Resampling.BILINEAR))
        for channel in range(image.shape[2])
    ]
    return np.stack(planes, axis=-1)


def _channels(image: Pixels, channels: int) -> Pixels:
    if image.shape[2] == channels:
        return image
    if channels == 3:
        return np.repeat(image, 3, axis=2)
    # The luma of ITU-R BT.601, as in pillow.
    grey: Pixels = np.rint(image @ np.asarray([0.299, 0.587, 0.114])).astype(np.uint8)[..., None]
    return grey
