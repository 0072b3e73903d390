"""The rules of an agent that extends a multitask system: open this file first.

An agent's generation, in order: parents (``parents``), their children's values and rates (``child``, ``mutation``),
components (``components``) and supports (``supports``, ``sampler``); then, with their accuracies, scores (``score``)
and the survivors (``population``). All are functions of values and of a generator: the driver keeps the record, and the
same record gives the same children. The rules of the published code are in ``versions``.

Source: docs/spec/munet.md#versions; µNet (2205.10937), µ2Net (2205.12755), µ2Net+ (2209.07326),
µ4Net (2302.02721).
"""

from __future__ import annotations

from pydantic import Field

from evodevo.multitask.search.child import ChildSettings
from evodevo.multitask.search.parents import ParentSettings
from evodevo.multitask.search.population import PopulationSettings
from evodevo.multitask.search.score import ScoreSettings
from evodevo.settings import Settings


class CycleSettings(Settings):
    """One cycle: so many children, then the best is published (docs/spec/munet.md#cycles)."""

    samples: int = Field(default=16, ge=1, le=100_000, description="children of a cycle; every generation is full")
    generation_size: int = Field(
        default=4, ge=1, le=4096, description="children asked for together; never the number of workers"
    )
    population: PopulationSettings = Field(default=PopulationSettings(), description="survival of paths in a cycle")
    parents: ParentSettings = Field(default=ParentSettings(), description="choice of parents")
    child: ChildSettings = Field(default=ChildSettings(), description="changes of children to their parents")
    score: ScoreSettings = Field(default=ScoreSettings(), description="discount for size and work")
    retained: int = Field(
        default=1, ge=1, le=1000, description="paths that an agent keeps after a cycle; the best alone is published"
    )

    @property
    def generations(self) -> int:
        """Number of generations of a cycle."""
        return -(-self.samples // self.generation_size)

    @property
    def children(self) -> int:
        """Number of children of a cycle; more than ``samples`` where the last generation would not be full."""
        return self.generations * self.generation_size
