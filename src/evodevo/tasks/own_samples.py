"""Reading of one sample from a user's text: ``image=a.png``, ``text=...``, ``vectors=1,2,3``.

Shapes: L tokens at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, UsageError, quoted_list, unknown_name
from evodevo.tasks.images.arrays import read_bytes
from evodevo.tasks.images.pixels import ADVICE, Pixels, decode, uniform
from evodevo.tasks.inputs import Batch, InputSpec

_LARGEST = float(np.finfo(np.float32).max)

Encode = Callable[[str, str], NDArray[np.int64]]
Crop = Callable[[Pixels], Pixels]


def read(inputs: Sequence[InputSpec], columns: Mapping[str, str], encode: Encode, crop: Crop | None = None) -> Batch:
    """A user's sample as a batch of one; an input that is left out or empty is marked as absent.

    Args:
        inputs: Inputs of the task.
        columns: Input -> text, path of an image, or numbers separated by commas.
        encode: Function from an input and its text to token ids; see ``SampleTask.encode``.
        crop: Function that cuts the relevant part out of an image; None = the whole image.

    Raises:
        UsageError: An input is unknown, all inputs are missing, or numbers cannot be read.
        DataError: An image cannot be read.
    """
    for name in columns:
        if name not in {spec.name for spec in inputs}:
            raise unknown_name("input", name, [spec.name for spec in inputs])
    if not any(value.strip() for value in columns.values()):
        raise UsageError(f"no input is given. Give at least one of {quoted_list(spec.name for spec in inputs)}.")
    batch: dict[str, NDArray[Any]] = {}
    for spec in inputs:
        batch |= _input(spec, columns.get(spec.name, ""), encode, crop)
    return batch


def image(path: str, spec: InputSpec, crop: Crop | None = None) -> Pixels:
    """An image file, or its part after ``crop``, in the size and colour of an input. Shape (height, width, channels).

    Raises:
        DataError: The file cannot be read.
    """
    try:
        decoded = decode(read_bytes(Path(path.strip()).expanduser()), path)
    except DataError as error:
        # A single sample cannot be skipped, so the advice to skip is replaced.
        raise DataError(f"{str(error).removesuffix(ADVICE)} Give another image.") from None
    decoded = decoded if crop is None else crop(decoded)
    pixels: Pixels = uniform([decoded], (spec.height, spec.width), "grey" if spec.channels == 1 else "rgb", path)[0]
    return pixels


def numbers(text: str, name: str) -> NDArray[np.float32]:
    """Numbers separated by commas or spaces, in brackets or not. Shape (numbers,).

    Raises:
        UsageError: The text has anything else.
    """
    pieces = text.strip().removeprefix("[").removesuffix("]").replace(",", " ").split()
    try:
        values = np.asarray([float(piece) for piece in pieces], np.float64)
    except ValueError:
        raise UsageError(f"{name} needs numbers with commas between them, got {text[:80]!r}.") from None
    if not (np.abs(values) <= _LARGEST).all():
        raise UsageError(f"{name} needs finite numbers, got {text[:80]!r}.")
    return values.astype(np.float32)


def padded(spec: InputSpec, texts: Sequence[NDArray[np.int64]]) -> dict[str, NDArray[Any]]:
    """Token ids of texts, cut or padded to the input's length, and the mask; a text without ids is absent."""
    tokens = np.zeros((len(texts), spec.length), np.int64)
    for row, ids in enumerate(texts):
        tokens[row, : len(ids)] = ids[: spec.length]
    lengths = np.asarray([len(ids) for ids in texts], np.int64)
    mask = np.arange(spec.length) < lengths[:, None]
    return {spec.name: tokens, f"{spec.name}/mask": mask, f"{spec.name}/present": lengths > 0}


def _input(spec: InputSpec, given: str, encode: Encode, crop: Crop | None) -> dict[str, NDArray[Any]]:
    present = bool(given.strip())
    there = {f"{spec.name}/present": np.asarray([present])}
    if spec.modality == "image":
        empty = np.zeros((spec.height, spec.width, spec.channels), np.uint8)
        return there | {spec.name: (image(given, spec, crop) if present else empty)[None]}
    if spec.modality == "tokens":
        return padded(spec, [encode(spec.name, given) if present else np.zeros(0, np.int64)])
    if spec.modality == "vector":
        values = numbers(given, spec.name) if present else np.zeros(spec.size, np.float32)
        if len(values) != spec.size:
            raise UsageError(f"{spec.name} has {spec.size} numbers, got {len(values)}.")
        return there | {spec.name: values[None]}
    raise UsageError(f"{spec.name} holds features that an extractor made; they cannot be written down.")
