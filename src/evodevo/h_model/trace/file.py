"""Routing traces as blobs: safetensors, with names and facts as JSON in one of the tensors. Nothing is pickled."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save as save_arrays

from evodevo import canonical
from evodevo.errors import UnsafeFileError, UsageError
from evodevo.h_model.trace.spec import RoutingTrace
from evodevo.training.parts import read_tensors

FORMAT = "evodevo.trace/1"
_ARRAYS = {
    "first": (np.float32, 3),
    "connections": (np.float32, 4),
    "inflow": (np.float32, 3),
    "norms": (np.float32, 3),
    "called": (np.bool_, 3),
    "steps": (np.int64, 1),
}
_MAX_WORDS = 16 << 20


def trace_to_bytes(trace: RoutingTrace) -> bytes:
    """The bytes of a trace's blob."""
    words = {
        "format": FORMAT,
        "inputs": list(trace.inputs),
        "hidden": list(trace.hidden),
        "outputs": list(trace.outputs),
        "kinds": list(trace.kinds),
        "names": {name: list(values) for name, values in trace.names.items()},
        "facts": list(trace.facts),
        "samples": [dict(sample) for sample in trace.samples],
    }
    text = np.frombuffer(canonical.dumps(words).encode("utf-8", "replace"), dtype=np.uint8)
    arrays: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(getattr(trace, name), dtype=kind) for name, (kind, _) in _ARRAYS.items()
    }
    facts = {f"fact/{name}": np.ascontiguousarray(values, dtype=np.int64) for name, values in trace.facts.items()}
    return bytes(save_arrays({**arrays, **facts, "words": text}))


def trace_from_bytes(data: bytes) -> RoutingTrace:
    """Read a trace from the bytes of its blob.

    Raises:
        UnsafeFileError: Anything else, or parts that do not fit together.
    """
    tensors = read_tensors(data, "the routing trace")
    if "words" not in tensors or tensors["words"].dtype != torch.uint8:
        raise UnsafeFileError("the routing trace has no words; it is no trace of this format.")
    try:
        words = canonical.loads(tensors["words"].numpy().tobytes(), what="the routing trace", max_bytes=_MAX_WORDS)
        return _read(words, {name: tensor.numpy() for name, tensor in tensors.items()})
    except (UsageError, LookupError, TypeError, AttributeError) as error:
        raise UnsafeFileError(f"not a routing trace of format {FORMAT!r}: {error}") from None


def _read(words: Any, arrays: dict[str, NDArray[Any]]) -> RoutingTrace:
    if words["format"] != FORMAT:
        raise UsageError(f"it has format {str(words['format'])[:40]!r}.")
    for name, (kind, dimensions) in _ARRAYS.items():
        if arrays[name].dtype != kind or arrays[name].ndim != dimensions:
            raise UsageError(f"{name} is {arrays[name].dtype} with {arrays[name].ndim} dimensions.")
    trace = RoutingTrace(
        inputs=tuple(map(str, words["inputs"])),
        hidden=tuple(map(str, words["hidden"])),
        outputs=tuple(map(str, words["outputs"])),
        kinds=tuple(map(str, words["kinds"])),
        facts={name: arrays[f"fact/{name}"] for name in words["facts"]},
        names={name: tuple(map(str, values)) for name, values in words["names"].items()},
        samples=tuple({str(k): str(v) for k, v in sample.items()} for sample in words["samples"]),
        **{name: arrays[name] for name in _ARRAYS},
    )
    count, (i, h, o) = trace.count, map(len, (trace.inputs, trace.hidden, trace.outputs))
    t, n = trace.iterations, h + o
    wanted = {
        "first": (count, i, n),
        "connections": (count, t, h, n),
        "inflow": (count, t + 1, n),
        "norms": (count, t, h),
        "called": (count, t, h),
        "steps": (count,),
    }
    wrong = [name for name, shape in wanted.items() if getattr(trace, name).shape != shape]
    wrong += [name for name, values in trace.facts.items() if values.shape != (count,)]
    if wrong or len(trace.kinds) != h or len(trace.samples) not in (0, count):
        raise UsageError(f"the parts do not fit together: {', '.join(wrong) or 'names'}.")
    return trace
