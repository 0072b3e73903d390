"""Modules that went, kept for a newborn that is the same again (docs/spec/architect_thyself.md#pruning)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from evodevo import canonical
from evodevo.growth.edit_spec import TensorSource
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.operators.base import Operator


@dataclass(frozen=True)
class Banked:
    """A module that was removed.

    Attributes:
        name: its id.
        genotype: its architecture.
        state: its weights, on the CPU.
        digest: digest of their blob.
    """

    name: str
    genotype: ModuleGenotype
    state: Mapping[str, Tensor]
    digest: str | None = None


@dataclass
class ModuleBank:
    """The last modules that went.

    Attributes:
        most: largest number of kept modules; 0 keeps none.
        entries: the oldest first.
    """

    most: int = 10
    entries: list[Banked] = field(default_factory=list)

    def keep(self, name: str, genotype: ModuleGenotype, state: Mapping[str, Tensor], digest: str | None = None) -> None:
        """Keep a copy of a module's weights; the oldest module goes where there is no room, and an equal one always."""
        copied = {key: value.detach().cpu().clone() for key, value in state.items()}
        others = [entry for entry in self.entries if _tensors(entry.genotype) != _tensors(genotype)]
        kept = [*others, Banked(name, genotype, copied, digest)]
        self.entries = kept[len(kept) - min(self.most, len(kept)) :]

    def find(self, genotype: ModuleGenotype) -> Banked | None:
        """The one whose tensors have the same names, sizes and meaning."""
        return next((entry for entry in self.entries if _tensors(entry.genotype) == _tensors(genotype)), None)


def start_from(child: Operator, banked: Banked) -> tuple[TensorSource, ...]:
    """Give a newborn the weights of a removed module; returns the source of each of its tensors."""
    child.load_state_dict(dict(banked.state))
    return tuple(
        TensorSource(tensor=name, rule="bank", parent=banked.name, source=name, digest=banked.digest)
        for name in child.state_dict()
    )


def _tensors(genotype: ModuleGenotype) -> str:
    """Equal where graphs are, ids of nodes included, as tensors go by them; lineage and order of nodes do not count."""
    nodes = {node.id: node.model_dump(mode="json", exclude={"id", "lineage"}) for node in genotype.graph.nodes}
    return canonical.digest([genotype.width, nodes, [list(edge) for edge in genotype.graph.edges]])
