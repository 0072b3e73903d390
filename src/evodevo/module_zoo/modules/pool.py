"""The modules of a zoo, run only on the samples that chose them (docs/spec/architect_thyself.md#keys).

Legend: B samples, L positions, d width, N requested modules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.module_zoo.modules.build import build_module
from evodevo.module_zoo.modules.spec import ModuleOutputPool, ZooModule
from evodevo.networks.routing.pools import masked_mean, softmax_mean
from evodevo.operators.base import Operator
from evodevo.randomness import integer_seed


class ModulePool(nn.Module):
    """Modules by id.

    Args:
        modules: modules in the order in which they were born.
        width: d.
        pool: pooling of a module's output (L, d) to u (d): the mean over real positions, attention with a learned
            query, or the mean of a learned map of each position, the same ones for all modules.
        length: largest L; read by ``positions`` alone, 0 where it is not known.

    Attributes:
        calls: id -> calls since ``reset``.
        rows: id -> samples that it was run on.

    Raises:
        UsageError: an id that PyTorch keeps for itself.
    """

    def __init__(self, modules: Sequence[ZooModule], width: int, pool: ModuleOutputPool, length: int = 0) -> None:
        super().__init__()
        self.parts = nn.ModuleDict()
        # One draw for all: equal modules of two networks differ as their seeds do, in whatever order they are.
        start = int(torch.randint(1 << 62, ()))
        for module in modules:
            self._build(module, integer_seed(start, module.id, module.seed))
        self.length = length
        self.query = nn.Parameter(torch.zeros(width)) if pool == "attention" else None
        self.maps = nn.Parameter(_identities(length, width)) if pool == "positions" else None
        self.calls: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()

    def insert(self, module: ZooModule) -> None:
        """Build a newborn from its genotype and its own seed, and nothing else."""
        self._build(module, module.seed)

    def exchange(self, module: ZooModule, like: Tensor, state: Mapping[str, Tensor] | None) -> None:
        """Put another module at the place of the one with this id, in the precision and on the device of ``like``."""
        built = build_module(module.genotype, module.seed).to(like.device, like.dtype)
        if state is not None:
            built.load_state_dict(dict(state))
        self.parts[module.id] = built

    def map_positions(self, like: Tensor) -> None:
        """Turn the mean into that of a map of each position, which changes no output; as ``like`` in type and device.

        Raises:
            UsageError: the pooling is not the mean, or the number of positions is not known.
        """
        if self.query is not None or self.maps is not None:
            raise UsageError("outputs of modules are pooled by learned weights already; only a mean can get maps.")
        if not self.length:
            raise UsageError("the number of positions that modules read is not known, and each needs a map.")
        self.maps = nn.Parameter(_identities(self.length, like.shape[-1]).to(like))

    def _build(self, module: ZooModule, seed: int) -> None:
        try:
            self.parts[module.id] = build_module(module.genotype, seed=seed)
        except KeyError:
            raise UsageError(f"a module cannot have the id {module.id!r}, a word of PyTorch; take another.") from None

    def remove(self, name: str) -> None:
        """Let a module go."""
        del self.parts[name]
        self.calls.pop(name, None)
        self.rows.pop(name, None)

    def reset(self) -> None:
        """Count from 0."""
        self.calls.clear()
        self.rows.clear()

    def forward(self, ids: Sequence[str], x: Tensor, mask: Tensor | None, chosen: Tensor | None = None) -> Tensor:
        """The outputs of modules on the samples.

        Args:
            ids: ids of the N modules.
            x: (B, L, d).
            mask: (B, L), true at real positions; None where all are.
            chosen: (B, N), true where the module is run on the sample; None runs every module on every sample.

        Returns:
            u, (B, N, d); 0 where a module was not run.
        """
        if chosen is None:
            return torch.stack([self._run(name, x, mask) for name in ids], 1)
        wanted = chosen.T.cpu()  # the one wait for the device: on it, each list of places would be another
        outputs = []
        for name, samples, count in zip(ids, wanted, wanted.sum(1).tolist(), strict=True):
            if count == x.shape[0]:
                outputs.append(self._run(name, x, mask))
                continue
            u = x.new_zeros(x.shape[0], x.shape[-1])
            if count:
                places = samples.nonzero().squeeze(1).to(x.device)
                part = self._run(name, x[places], None if mask is None else mask[places])
                u = u.to(part.dtype).index_put((places,), part)
            outputs.append(u)
        return torch.stack(outputs, 1)

    def _run(self, name: str, x: Tensor, mask: Tensor | None) -> Tensor:
        module = self.parts[name]
        assert isinstance(module, Operator)
        self.calls[name] += 1
        self.rows[name] += x.shape[0]
        y: Tensor = module(x, mask=mask).y
        if self.maps is not None:
            return mapped_mean(y, self.maps, mask)
        if self.query is None:
            return masked_mean(y, mask)
        return softmax_mean(y, (y @ self.query) * y.shape[-1] ** -0.5, mask)


def _identities(length: int, width: int) -> Tensor:
    """(L, d, d)."""
    return torch.eye(width).repeat(length, 1, 1)


def mapped_mean(y: Tensor, maps: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over real positions of y_s W_s, (B, d); zeros where there is none.

    Args:
        y: (B, S, d), S at most L.
        maps: W, (L, d, d).
        mask: (B, S), true at real positions; None where all are.
    """
    places = y.shape[1]
    weights = maps[:places].to(y.dtype).flatten(0, 1)
    if mask is None:
        return y.flatten(1) @ weights / places
    real = mask.to(y.dtype)
    total: Tensor = (y * real.unsqueeze(-1)).flatten(1) @ weights
    return total / real.sum(1, keepdim=True).clamp(min=1.0)
