"""One sample of one's own, as a user writes it down: ``image=a.png``, ``text=...``, ``vectors=1,2,3``.

Shapes: L tokens at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError, quoted_list, unknown_name
from evodevo.tasks.base import Batch, InputSpec
from evodevo.tasks.image_arrays import read_bytes
from evodevo.tasks.pixels import Pixels, decode, uniform

Encode = Callable[[str, str], NDArray[np.int64]]


def read(inputs: Sequence[InputSpec], columns: Mapping[str, str], encode: Encode) -> Batch:
    """What a user gave as a batch of one sample; an input that is left out or empty is marked as absent.

    Args:
        inputs: what a sample holds.
        columns: input -> a text, the path of an image, or numbers with commas between them.
        encode: a text of an input as token ids; see ``SampleTask.encode``.

    Raises:
        UsageError: an input that is none (with the nearest name), no input at all, numbers that are none.
        DataError: an image that cannot be read.
    """
    for name in columns:
        if name not in {spec.name for spec in inputs}:
            raise unknown_name("input", name, [spec.name for spec in inputs])
    if not any(value.strip() for value in columns.values()):
        raise UsageError(f"no input is given. Give at least one of {quoted_list(spec.name for spec in inputs)}.")
    batch: dict[str, NDArray[Any]] = {}
    for spec in inputs:
        batch |= _input(spec, columns.get(spec.name, ""), encode)
    return batch


def image(path: str, spec: InputSpec, crop: Callable[[Pixels, str], Pixels] = lambda pixels, place: pixels) -> Pixels:
    """An image file in the size and colour of an input. Shape (height, width, channels).

    Raises:
        DataError: it cannot be read.
    """
    found = crop(decode(read_bytes(Path(path).expanduser()), path), path)
    pixels: Pixels = uniform([found], (spec.height, spec.width), "grey" if spec.channels == 1 else "rgb", path)[0]
    return pixels


def numbers(text: str, name: str) -> NDArray[np.float32]:
    """Numbers with commas or spaces between them, in brackets or not. Shape (numbers,).

    Raises:
        UsageError: something else stands between.
    """
    pieces = text.strip().removeprefix("[").removesuffix("]").replace(",", " ").split()
    try:
        found = np.asarray([float(piece) for piece in pieces], np.float32)
    except ValueError:
        raise UsageError(f"{name} wants numbers with commas between them, got {text[:80]!r}.") from None
    if not np.isfinite(found).all():
        raise UsageError(f"{name} wants finite numbers, got {text[:80]!r}.")
    return found


def _input(spec: InputSpec, given: str, encode: Encode) -> dict[str, NDArray[Any]]:
    present = bool(given.strip())
    there = {f"{spec.name}/present": np.asarray([present])}
    if spec.modality == "image":
        empty = np.zeros((spec.height, spec.width, spec.channels), np.uint8)
        return there | {spec.name: (image(given.strip(), spec) if present else empty)[None]}
    if spec.modality == "tokens":
        ids = np.zeros((1, spec.length), np.int64)
        found = encode(spec.name, given)[: spec.length] if present else np.zeros(0, np.int64)
        ids[0, : len(found)] = found
        there[f"{spec.name}/present"] = np.asarray([len(found) > 0])
        return there | {spec.name: ids, f"{spec.name}/mask": np.arange(spec.length)[None] < len(found)}
    if spec.modality == "vector":
        values = numbers(given, spec.name) if present else np.zeros(spec.size, np.float32)
        if len(values) != spec.size:
            raise UsageError(f"{spec.name} has {spec.size} numbers, got {len(values)}.")
        return there | {spec.name: values[None]}
    raise UsageError(f"{spec.name} holds features that an extractor made; they cannot be written down.")
