"""One sample of a person's own, from texts, files and numbers to the arrays that a network reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo import files
from evodevo.errors import UsageError, quoted_list
from evodevo.tasks.images.arrays import read_bytes
from evodevo.tasks.images.pixels import decode, uniform
from evodevo.tasks.inputs import InputSpec

MAX_TEXT_BYTES = 64 * files.MIB

Encode = Callable[[str, str], NDArray[np.int64]]


def own_sample(
    specs: Sequence[InputSpec], values: Mapping[str, str], encode: Encode, *, missing: bool
) -> dict[str, NDArray[Any]]:
    """A batch of one sample, without targets.

    Args:
        specs: inputs of the network.
        values: input -> a file; for tokens also a text, for vectors numbers with commas.
        encode: (input, text) -> token ids, as ``SampleTask.encode``.
        missing: whether the network accepts samples without an input.

    Raises:
        UsageError: an unknown input, a missing one that may not be missing, a value that is none for its input.
        DataError: a file that cannot be read.
    """
    names = [spec.name for spec in specs]
    unknown = [name for name in values if name not in names]
    if unknown:
        raise UsageError(f"the model has no input {unknown[0]!r}; its inputs: {quoted_list(names)}.")
    absent = [name for name in names if name not in values]
    if absent and not missing:
        raise UsageError(
            f"the input {absent[0]!r} is missing, and the model was built without missing inputs; "
            f"give --input {absent[0]}=…"
        )
    batch: dict[str, NDArray[Any]] = {}
    for spec in specs:
        name = spec.name
        batch[name] = _nothing(spec)
        if missing:
            batch[f"{name}/present"] = np.array([name in values])
        if spec.modality == "tokens":
            batch[f"{name}/mask"] = np.zeros((1, spec.length), np.bool_)
        if name not in values:
            continue
        if spec.modality == "image":
            batch[name] = _image(values[name], spec)
        elif spec.modality == "vector":
            batch[name][0] = _numbers(_text(values[name]), spec)
        else:
            ids = encode(name, _text(values[name]))
            if not len(ids):
                raise UsageError(f"the input {name!r} is empty; give at least one word.")
            batch[name][0, : len(ids)] = ids
            batch[f"{name}/mask"][0, : len(ids)] = True
    return batch


def _nothing(spec: InputSpec) -> NDArray[Any]:
    """Neutral value of an input of one sample: zeros."""
    if spec.modality == "tokens":
        return np.zeros((1, spec.length), np.int64)
    if spec.modality == "image":
        return np.zeros((1, spec.height, spec.width, spec.channels), np.uint8)
    return np.zeros((1, spec.size), np.float32)


def _image(value: str, spec: InputSpec) -> NDArray[np.uint8]:
    image = decode(read_bytes(Path(value)), value)
    return uniform([image], (spec.height, spec.width), "grey" if spec.channels == 1 else "rgb", value)


def _text(value: str) -> str:
    """The text of a file of that name, or the value itself."""
    path = Path(value)
    return files.read_text(path, MAX_TEXT_BYTES) if files.regular(path) else value


def _numbers(text: str, spec: InputSpec) -> list[float]:
    try:
        numbers = [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if len(numbers) != spec.size or not np.isfinite(numbers).all():
        raise UsageError(f"the input {spec.name!r} is {spec.size} finite numbers with commas; got {text[:60]!r}.")
    return numbers
