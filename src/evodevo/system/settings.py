"""Settings of a system and of its agents; no torch."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from evodevo.evolution.mu_agent_child import ChildSettings
from evodevo.evolution.mu_agent_parents import ParentSettings
from evodevo.evolution.mu_agent_population import PopulationSettings
from evodevo.evolution.mu_agent_score import ScoreSettings
from evodevo.settings import Settings


class CycleSettings(Settings):
    """One cycle: so many children, then the best is published (specification ``munet.md`` 2.6, 2.10)."""

    samples: int = Field(default=16, ge=1, le=100_000, description="children of a cycle; every generation is full")
    generation_size: int = Field(
        default=4, ge=1, le=4096, description="children asked for together; never the number of workers"
    )
    population: PopulationSettings = Field(default=PopulationSettings(), description="who lives on in a cycle")
    parents: ParentSettings = Field(default=ParentSettings(), description="how parents are chosen")
    child: ChildSettings = Field(default=ChildSettings(), description="how children differ from their parents")
    score: ScoreSettings = Field(default=ScoreSettings(), description="what size and work cost")
    retained: int = Field(
        default=1, ge=1, le=1000, description="paths that an agent keeps after a cycle; the best alone is published"
    )

    @property
    def generations(self) -> int:
        """Of a cycle."""
        return -(-self.samples // self.generation_size)

    @property
    def children(self) -> int:
        """Of a cycle; more than ``samples`` where the last generation would not be full."""
        return self.generations * self.generation_size


class WorkSettings(Settings):
    """Limits of one child's evaluation."""

    seconds: float | None = Field(default=None, gt=0, description="wall time; None = no limit")
    memory_bytes: int | None = Field(default=None, gt=0, description="of its processes together; None = no limit")
    retries: int = Field(
        default=2, ge=0, le=100, description="how often a child is begun again whose worker was killed from outside"
    )


class SystemSettings(Settings):
    """All that holds for a whole system. Recorded with it; agents may differ in what ``AgentSettings`` names."""

    cycle: CycleSettings = Field(default=CycleSettings(), description="of every agent that names none of its own")
    work: WorkSettings = Field(default=WorkSettings(), description="limits of evaluations")
    training: dict[str, Any] = Field(default_factory=dict, description="of a child, as its evaluator understands it")
    packages: tuple[str, ...] = Field(
        default=(), description="installed packages whose classes of agents, tasks and evaluators are used"
    )


class AgentSettings(Settings):
    """One agent: its task, and where it differs from its system.

    Attributes:
        classes: of the task.
        task: where its data come from, as the evaluator understands it.
        task_key: by which the prepared data are found; None opens the sources, each time.
        cycle: instead of the system's.
        training: on top of the system's, key by key.
        options: of its class.
        root: whether it makes one path and then rests.
        class_names: in order, for people; empty where nobody said.
        modalities: that its samples have; paths that need others are neither parents nor supports.
    """

    classes: int = Field(ge=0, le=1 << 24)
    task: dict[str, Any] = Field(default_factory=dict)
    task_key: str | None = None
    cycle: CycleSettings | None = None
    training: dict[str, Any] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    root: bool = False
    class_names: tuple[str, ...] = ()
    modalities: tuple[str, ...] = ("image",)
