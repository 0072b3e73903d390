"""Built-in labelled images: scikit-learn's digits, and three kinds that are generated.

The generated ones make a task of several domains possible on a fresh machine without a network
(docs/spec/h_model.md#experiments). They are grey, bright on dark, and noisy, so that no two are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evodevo import files
from evodevo.randomness import generator
from evodevo.tasks.images.pixels import Pixels

Builtin = Literal["digits", "letters", "shapes", "textures"]
BUILTINS: tuple[Builtin, ...] = get_args(Builtin)

DRAWN = 2_000
"""Number of images of each generated kind."""
SIDE = 16
"""Height and width of generated images in pixels; digits have 8."""

_LETTERS = "ABCDEFGHJK"
_SHAPES = ("circle", "cross", "diamond", "ring", "square", "triangle")
_TEXTURES = ("horizontal", "vertical", "rising", "falling", "checks", "dots")
_VERSION = 1


def identity(name: Builtin) -> dict[str, str | int]:
    """All that determines the pixels, the library's release included, which may draw other ones. JSON-able."""
    library = "scikit-learn" if name == "digits" else "pillow"
    return {"builtin": name, "library": library, "release": version(library), "version": _VERSION}


def read(name: Builtin) -> tuple[Pixels, list[str]]:
    """Images (N, height, width, 1) and the class name of each."""
    if name == "digits":
        return _digits()
    names, draw = _DRAWN[name]
    rng = generator(_VERSION, name, "drawn images")
    classes = rng.integers(0, len(names), DRAWN)
    images = np.stack([draw(int(kind), rng) for kind in classes])
    noisy = images * rng.uniform(0.6, 1.0, (DRAWN, 1, 1)) + rng.normal(0, 20, images.shape)
    return np.rint(noisy).clip(0, 255).astype(np.uint8)[..., None], [names[kind] for kind in classes]


def _digits() -> tuple[Pixels, list[str]]:
    table = _digits_table()
    images, labels = table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)
    # scikit-learn's brightness is from 0 to 16.
    return np.rint(images * (255 / 16)).astype(np.uint8)[..., None], [str(label) for label in labels]


def _digits_table() -> NDArray[np.float64]:
    """scikit-learn's digits, a row each: 64 pixels and the class. Its file is read without the package where it lies in
    its usual place, because importing that and scipy takes most of a second."""
    found = find_spec("sklearn")
    for place in (found and found.submodule_search_locations) or ():
        file = Path(place) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            with files.unpacked(file, ".gz") as stream:
                numbers = np.fromstring(stream.read().decode().strip().replace("\n", ","), sep=",")
            return numbers.reshape(-1, 65)
    from sklearn.datasets import load_digits

    digits = load_digits()
    return np.column_stack([digits.data, digits.target]).astype(np.float64)


def _letter(kind: int, rng: np.random.Generator) -> NDArray[np.float64]:
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("L", (SIDE, SIDE))
    font = ImageFont.load_default(size=int(rng.integers(12, 16)))
    left, top = rng.uniform(1, 5), rng.uniform(-1, 1)
    ImageDraw.Draw(picture).text((left, top), _LETTERS[kind], fill=255, font=font)
    return np.asarray(picture.rotate(rng.uniform(-15, 15), Image.Resampling.BILINEAR), dtype=np.float64)


def _shape(kind: int, rng: np.random.Generator) -> NDArray[np.float64]:
    centre = rng.uniform(6, 9, 2)
    radius = rng.uniform(3.5, 6)
    y, x = np.mgrid[0:SIDE, 0:SIDE] - centre[:, None, None]
    distance, wide, high = np.hypot(x, y), np.abs(x), np.abs(y)
    inside: dict[str, NDArray[np.bool_]] = {
        "circle": distance < radius,
        "cross": (np.minimum(wide, high) < radius / 3) & (np.maximum(wide, high) < radius),
        "diamond": wide + high < radius,
        "ring": (distance < radius) & (distance > radius * 0.6),
        "square": np.maximum(wide, high) < radius * 0.9,
        "triangle": (y > -radius) & (y < radius) & (wide < (y + radius) / 2),
    }
    return inside[_SHAPES[kind]].astype(np.float64) * 255


def _texture(kind: int, rng: np.random.Generator) -> NDArray[np.float64]:
    y, x = np.mgrid[0:SIDE, 0:SIDE] + rng.uniform(0, SIDE, 2)[:, None, None]
    wave = 2 * np.pi / rng.uniform(4, 6)
    value: dict[str, NDArray[np.float64]] = {
        "horizontal": np.sin(wave * y),
        "vertical": np.sin(wave * x),
        "rising": np.sin(wave * (x + y) * np.sqrt(0.5)),
        "falling": np.sin(wave * (x - y) * np.sqrt(0.5)),
        "checks": np.sign(np.sin(wave * x) * np.sin(wave * y)),
        "dots": np.maximum(np.sin(wave * x) * np.sin(wave * y), 0) * 2 - 1,
    }
    brightness: NDArray[np.float64] = 127.5 * (1 + value[_TEXTURES[kind]])
    return brightness


_DRAWN: dict[Builtin, tuple[tuple[str, ...], Callable[[int, np.random.Generator], NDArray[np.float64]]]] = {
    "letters": (tuple(_LETTERS), _letter),
    "shapes": (_SHAPES, _shape),
    "textures": (_TEXTURES, _texture),
}
