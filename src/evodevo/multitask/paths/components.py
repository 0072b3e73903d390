"""One component of a path from its source: a blob as it is, one that is resized, or a new one."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from evodevo.errors import DataError
from evodevo.multitask.evaluate_settings import ComponentSource
from evodevo.multitask.paths.weights import load_state
from evodevo.storage.blobs import BlobPool

State = dict[str, Tensor]


def component_of(
    role: str,
    source: ComponentSource,
    pool: BlobPool,
    *,
    make: Callable[[bool], nn.Module],
    restore: Callable[[State], nn.Module],
    resize: Callable[[State], State],
) -> nn.Module:
    """A component, on the CPU.

    Args:
        role: role of the component.
        source: source of its weights.
        pool: pool of the blobs.
        make: constructor of a new one; the argument is true where it shall change no answer at first.
        restore: constructor of one with stored weights.
        resize: weights of a position embedding for another size of samples -> those for this path's.

    Raises:
        StoreDamagedError: its blob is gone or damaged.
        DataError: it is of another structure, or should have weights and names none.
    """
    if source.digest is None:
        if source.how not in ("new", "insert", ""):
            raise DataError(f"the component for {role!r} shall be a {source.how!r}, and no weights are named.")
        return make(source.how == "insert")
    state = load_state(pool, source.digest, role, source.source)
    return restore(resize(state) if source.how == "resize" else state)
