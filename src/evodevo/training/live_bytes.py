"""Counts bytes of tensors that are alive, on any device, without asking its allocator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context in which the storages that operations make are counted, each once, while something holds them.

    What was there before is not counted, and neither is what a kernel takes inside for a while. Activations that the
    backward pass needs are held by the graph, recomputed ones are not.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # A weak reference also keeps the address of a dead storage from being used again.
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self._given: dict[int, StorageWeakRef] = {}
        self._sum = 0
        self._peak = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and count its results."""
        kwargs = kwargs or {}
        for storage in _storages((args, kwargs)):
            if storage._cdata not in self._alive and storage._cdata not in self._given:
                self._given[storage._cdata] = _weak(storage)
        results = function(*args, **kwargs)
        for storage in _storages(results):
            key = storage._cdata
            if key in self._given or key in self._alive:
                continue
            self._alive[key] = (_weak(storage), storage.nbytes())
            self._sum += storage.nbytes()
            # The sum holds dead ones too: only where it would be a new peak are these looked for.
            if self._sum > self._peak:
                self._peak = max(self._peak, self.now())
        return results

    def now(self) -> int:
        """Bytes that are alive."""
        self._alive = {key: pair for key, pair in self._alive.items() if not _is_dead(pair[0])}
        self._sum = sum(size for _, size in self._alive.values())
        return self._sum

    @property
    def peak(self) -> int:
        """Largest number of bytes that were alive at the end of an operation."""
        return self._peak


def _storages(values: Any) -> Iterator[torch.UntypedStorage]:
    return (value.untyped_storage() for value in tree_iter(values) if isinstance(value, Tensor))


def _weak(storage: torch.UntypedStorage) -> StorageWeakRef:
    return StorageWeakRef(storage)  # type: ignore[no-untyped-call]


def _is_dead(storage: StorageWeakRef) -> bool:
    return bool(storage.expired())  # type: ignore[no-untyped-call]
