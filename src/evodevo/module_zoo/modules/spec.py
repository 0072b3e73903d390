"""A module of a zoo as plain data: a graph of typed nodes (Architect Thyself 3.3, appendix E).

Source: docs/spec/architect_thyself.md#genotype.

Archetypes are preset graphs, hybrids are free ones; everything that builds, costs or draws a module reads the graph
alone. Sizes are numbers of channels, not factors, so that a graph determines its tensors exactly.

Legend: d width of the zoo, L positions.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from evodevo import canonical
from evodevo.module_zoo.modules.attributes import Attribute
from evodevo.module_zoo.modules.nodes.base import Node
from evodevo.settings import Settings

INPUT, OUTPUT = "in", "out"
"""The ends of every graph: what the module reads, (B, L, d), and what it answers, (B, L, d)."""
HYBRID = "hybrid"
"""Name in place of an archetype for a free graph."""
MAX_NODES = 256
ModuleOutputPool = Literal["mean", "attention", "positions"]
"""Poolings of a module's output sequence to one vector."""


class ModuleGraph(Settings):
    """Nodes and the edges between them; ``check_graph`` of ``module_zoo.modules.graph`` checks its validity.

    Attributes:
        nodes: nodes in any order.
        edges: (from, to); ``in`` has none that ends there, ``out`` exactly one. The order of the edges that end at a
            node is the order of what it reads. ``sum`` and ``concat`` read one or more, every other node exactly one.
    """

    nodes: tuple[Node, ...] = Field(default=(), max_length=MAX_NODES)
    edges: tuple[tuple[str, str], ...] = Field(default=((INPUT, OUTPUT),), max_length=4 * MAX_NODES)


class ModuleGenotype(Settings):
    """One architecture of a module.

    Attributes:
        archetype: a row of ``zoo_archetypes.ARCHETYPES``, or ``hybrid`` for a free graph.
        width: d of its zoo.
        attributes: parameters of the archetype's graph; empty for a hybrid.
        graph: the nodes and edges that are built.
    """

    archetype: str = Field(min_length=1, max_length=40)
    width: int = Field(ge=1, le=1 << 16)
    attributes: dict[str, Attribute] = Field(default_factory=dict)
    graph: ModuleGraph

    def __hash__(self) -> int:
        return hash(canonical.dumps(self.model_dump(mode="json")))


class ZooModule(Settings):
    """A module of a zoo.

    Attributes:
        id: permanent name; all statistics are kept by it, never by position.
        genotype: its architecture.
        seed: seed of its initial weights.
        parents: ids; none for a module that was there from the start.
        birth_event: the event of growth that made it; 0 for the start.
    """

    id: str = Field(pattern=r"^[a-z0-9_\-]{1,40}$")
    genotype: ModuleGenotype
    seed: int = Field(default=0, ge=0, lt=1 << 64)
    parents: tuple[str, ...] = ()
    birth_event: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _is_not_its_own_parent(self) -> Self:
        if self.id in self.parents:
            raise ValueError(f"the module {self.id!r} names itself as a parent")
        return self
