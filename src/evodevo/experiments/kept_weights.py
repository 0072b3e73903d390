"""Weights of networks that a procedure keeps between its stages: in the pool where there is one, else in memory."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from evodevo.experiments.trainer import Trainer
from evodevo.networks.base import Network
from evodevo.training.parts import load_part, save_part


class KeptWeights:
    """Weights by key.

    Args:
        bench: Trainer of the procedure.
        what: Their description, for errors about a damaged file.
    """

    def __init__(self, bench: Trainer, what: str) -> None:
        self._bench = bench
        self._what = what
        self._in_memory: dict[str, dict[str, Tensor]] = {}  # where there is no pool

    def keep(self, name: str, network: Network) -> str:
        """Keep the weights of a network as they are now; the key. ``name`` is unique in the training."""
        pool, tensors = self._bench.pool, network.state_dict()
        if pool is None:
            self._in_memory[name] = {key: value.clone() for key, value in tensors.items()}
            return name
        return str(self._bench.once(f"weights: {name}", lambda: save_part(pool, tensors)))

    def give(self, network: Network, key: str, *, strict: bool = True) -> None:
        """Load them, but where the next stage had begun before an interruption: its checkpoint has the weights then.

        Args:
            network: The network.
            key: Key from ``keep``.
            strict: Whether names of the network without kept weights are an error.
        """
        if self._bench.recalls:
            return
        pool = self._bench.pool
        tensors = self._in_memory[key] if pool is None else load_part(pool, key, self._what)
        network.load_state_dict(tensors, strict=strict)

    def hold(self, keys: Iterable[str]) -> None:
        """Forget all but these; a checkpoint holds their blobs."""
        held = set(keys)
        if self._bench.pool is None:
            self._in_memory = {key: value for key, value in self._in_memory.items() if key in held}
        else:
            self._bench.held = sorted(held)
