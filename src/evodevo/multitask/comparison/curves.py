"""Accuracy after each cycle of a recipe's agents, on validation and, looked at once, on test (µ4Net, Fig. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from evodevo.multitask.comparison.systems import RecipeRunner
from evodevo.multitask.diagrams.system.cycles import CycleCurve
from evodevo.multitask.system import System
from evodevo.storage.systems.base import AgentRow


@dataclass(frozen=True)
class Looks:
    """One agent: accuracies in [0, 1] of what it published, one for each of its cycles."""

    validation: tuple[float, ...]
    test: tuple[float, ...]


UNSEEN = Looks((), ())


@dataclass(frozen=True)
class Curve:
    """One row of a recipe.

    Attributes:
        name: name of the row.
        copies: for each copy, the measurements of its agents.
    """

    name: str
    copies: Sequence[Sequence[Looks]]

    def arm(self, split: str) -> CycleCurve:
        """The mean over an arm's agents, one course for each copy."""
        return CycleCurve(self.name, [_mean([getattr(agent, split) for agent in agents]) for agents in self.copies])

    def to_json(self) -> dict[str, object]:
        """Split -> copy -> cycle -> mean over agents."""
        return {split: [list(course) for course in self.arm(split).courses] for split in ("validation", "test")}


def looks(course: RecipeRunner, system: System, agent: AgentRow, *, since: int = 0) -> Looks:
    """Measurements of the paths that an agent published from a cycle on; each path is measured on the test split once,
    and no selection reads the result.

    Raises:
        InterruptedRecipe: it was stopped.
    """
    paths = [
        system.library.one(publication.path_id)
        for publication in course.store.systems.publications(system.row.id)
        if publication.agent_id == agent.id
        and publication.path_id is not None
        and publication.cycle is not None
        and publication.cycle >= since
    ]
    tests = tuple(course.measured(system, path).accuracy for path in paths)
    return Looks(tuple(path.quality or 0.0 for path in paths), tests)


def _mean(courses: Sequence[Sequence[float]]) -> list[float]:
    return [fmean(values) for values in zip(*courses, strict=False)]  # an agent whose cycle came to nothing is behind
