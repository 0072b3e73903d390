"""Routers without attention, keys of modules that have not run, and the choice of the modules that run.

Source: docs/spec/architect_thyself.md#router.

Parameters of one module are kept by its id, so that modules can be added and removed.

Legend: B samples, N modules, d width, U hidden units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError, unknown_name
from evodevo.module_zoo.router.base import ModuleRouter
from evodevo.module_zoo.router.graph_attention import GraphAttentionRouter
from evodevo.module_zoo.router.relations import Relations
from evodevo.module_zoo.spec import ZooRouterStructure
from evodevo.networks.routing.gates import FAR, widened
from evodevo.networks.routing.skipping import largest

SMALL = 0.02
OPEN = 1.0
"""Start of the logits of a ``relu`` gate: at 0 all weights and all gradients would be 0."""


def build_router(width: int, structure: ZooRouterStructure, ids: Sequence[str]) -> ModuleRouter:
    """Build the router of a structure for modules with these ids.

    Raises:
        UsageError: An id that PyTorch reserves, where the router has parameters of each module.
    """
    if structure.kind == "graph_attention":
        return GraphAttentionRouter(width, structure)
    if structure.kind == "mlp_gate":
        return GateRouter(width, structure, ids)
    if structure.kind == "architecture":
        return ArchitectureRouter(width, structure, ids)
    return MeanRouter(width, structure)


def chosen(logits: Tensor, count: int, legal: Tensor | None = None) -> Tensor:
    """True at the ``count`` modules with the largest logits, (B, N); of equal ones the first, none that is illegal."""
    if legal is None:
        return largest(logits, count)
    return largest(widened(logits).masked_fill(~legal, 2 * FAR), count) & legal


class ModuleRows(nn.Module):
    """A row of parameters for each module.

    Args:
        ids: Ids of the modules.
        size: Length of a row.
        spread: Standard deviation of their normal start; 0 for zeros.
        last: Value added to the last number of a row at the start.
    """

    def __init__(self, ids: Sequence[str], size: int, *, spread: float = 0.0, last: float = 0.0) -> None:
        super().__init__()
        self.size = size
        self.spread = spread
        self.last = last
        self.of = nn.ParameterDict()
        for name in ids:
            self.insert(name)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in the order of their birth."""
        return tuple(self.of)

    def insert(self, name: str) -> None:
        """Add a row for a new module.

        Raises:
            UsageError: The module has one, or PyTorch reserves its id.
        """
        if name in self.of:
            raise UsageError(f"there is a module {name!r} already; ids are for ever, take another.")
        row = torch.randn(self.size) * self.spread
        row[-1] += self.last
        like = next(iter(self.of.values()), None)
        if like is not None:
            row = row.to(like)
        try:
            self.of[name] = nn.Parameter(row)
        except KeyError:
            raise UsageError(f"a module cannot have the id {name!r}, a word of PyTorch; take another.") from None

    def remove(self, name: str) -> None:
        """Remove the row of a module.

        Raises:
            UsageError: There is none of that id.
        """
        if name not in self.of:
            raise unknown_name("module", name, self.ids)
        del self.of[name]

    def forward(self, ids: Sequence[str] | None = None) -> Tensor:
        """Rows (N, size), in the order of ``ids``; all if left out."""
        names = self.ids if ids is None else ids
        unknown = next((name for name in names if name not in self.of), None)
        if unknown is not None:
            raise unknown_name("module", unknown, self.ids)
        return torch.stack([self.of[name] for name in names])


class RouterPredictor(nn.Module):
    """A small network from f to one logit per module: w_m . gelu(W f + b) + b_m.

    Args:
        width: Width d.
        structure: Structure whose ``predictor_hidden`` is U.
        ids: Ids of the modules.
        start: Initial value of all logits.
    """

    def __init__(self, width: int, structure: ZooRouterStructure, ids: Sequence[str], *, start: float = 0.0) -> None:
        super().__init__()
        units = structure.predictor_hidden or width
        self.inner = nn.Linear(width, units)
        self.rows = ModuleRows(ids, units + 1, last=start)  # the last number is b_m

    def forward(self, query: Tensor, ids: Sequence[str] | None = None) -> Tensor:
        """Logits (B, N) in float32 at least, from f (B, d); N as ``ids``, or all."""
        rows: Tensor = self.rows(ids)
        hidden = F.gelu(self.inner(query))
        return widened(F.linear(hidden, rows[:, :-1], rows[:, -1]))


class GenotypeKeys(nn.Module):
    """Inputs of keys before a module has run: e_m + MLP(genotype vector of m).

    Source: docs/spec/architect_thyself.md#keys.

    e_m is learned, so that two modules of one genotype can differ.

    Args:
        width: Width d.
        vectors: Genotype vector by id; all of one length.
    """

    def __init__(self, width: int, vectors: Mapping[str, Sequence[float]]) -> None:
        super().__init__()
        size = len(next(iter(vectors.values())))
        self.vectors = {name: tuple(vector) for name, vector in vectors.items()}
        self.embedding = ModuleRows(tuple(vectors), width, spread=SMALL)
        self.map = nn.Sequential(nn.Linear(size, width), nn.GELU(), nn.Linear(width, width))

    def insert(self, name: str, vector: Sequence[float]) -> None:
        """Add a new module; see ``ModuleRows.insert``."""
        self.embedding.insert(name)
        self.vectors[name] = tuple(vector)

    @torch.no_grad()
    def exchange(self, name: str, vector: Sequence[float]) -> None:
        """Another genotype for a module whose key stays: e_m takes up the difference."""
        row = self.embedding.of[name]
        old, new = (self.map(torch.tensor(each).to(row)) for each in (self.vectors[name], vector))
        row += old - new
        self.vectors[name] = tuple(vector)

    def remove(self, name: str) -> None:
        """Remove a module; see ``ModuleRows.remove``."""
        self.embedding.remove(name)
        del self.vectors[name]

    def forward(self, ids: Sequence[str] | None = None) -> Tensor:
        """Inputs of keys (N, d), in the order of ``ids``, or all."""
        embedding: Tensor = self.embedding(ids)
        names = self.embedding.ids if ids is None else ids
        vectors = torch.tensor([self.vectors[name] for name in names], dtype=embedding.dtype, device=embedding.device)
        mapped: Tensor = self.map(vectors)
        return embedding + mapped


class MeanRouter(ModuleRouter):
    """Equal weights of all legal modules; there is no top-K, as nothing ranks them."""

    def __init__(self, width: int, structure: ZooRouterStructure) -> None:
        super().__init__(width, structure.model_copy(update={"gate": "softmax", "top_k": None}), 1)

    def _logits(
        self,
        query: Tensor,
        relations: Relations,
        ids: Sequence[str] | None,
        legal: Tensor | None,
        contribution: Tensor | None,
    ) -> Tensor:
        return widened(query.new_zeros(())).expand(query.shape[0], 1, relations.count)


class GateRouter(ModuleRouter):
    """Weights from a small network on f alone, as in mixtures of experts. Contributions play no part.

    Args:
        width: Width d.
        structure: Its gate, top-K and values.
        ids: Ids of the modules.
    """

    def __init__(self, width: int, structure: ZooRouterStructure, ids: Sequence[str]) -> None:
        super().__init__(width, structure, 1)
        self.scores = RouterPredictor(width, structure, ids, start=_start(structure))

    def insert(self, name: str) -> None:
        """See ``ModuleRouter``."""
        self.scores.rows.insert(name)

    def remove(self, name: str) -> None:
        """See ``ModuleRouter``."""
        self.scores.rows.remove(name)

    def _logits(
        self,
        query: Tensor,
        relations: Relations,
        ids: Sequence[str] | None,
        legal: Tensor | None,
        contribution: Tensor | None,
    ) -> Tensor:
        scores: Tensor = self.scores(query, ids)
        return scores.unsqueeze(1)


class ArchitectureRouter(ModuleRouter):
    """Learned weights that are independent of the input, as in DARTS. Contributions play no part.

    Args:
        width: Width d.
        structure: Its gate, top-K and values.
        ids: Ids of the modules.
    """

    def __init__(self, width: int, structure: ZooRouterStructure, ids: Sequence[str]) -> None:
        super().__init__(width, structure, 1)
        self.rows = ModuleRows(ids, 1, last=_start(structure))

    def insert(self, name: str) -> None:
        """See ``ModuleRouter``."""
        self.rows.insert(name)

    def remove(self, name: str) -> None:
        """See ``ModuleRouter``."""
        self.rows.remove(name)

    def _logits(
        self,
        query: Tensor,
        relations: Relations,
        ids: Sequence[str] | None,
        legal: Tensor | None,
        contribution: Tensor | None,
    ) -> Tensor:
        rows: Tensor = self.rows(ids)
        return widened(rows.mT).expand(query.shape[0], 1, -1)


def _start(structure: ZooRouterStructure) -> float:
    return OPEN if structure.gate == "relu" else 0.0
