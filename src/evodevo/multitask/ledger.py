"""An agent's population, from its rows: no other state is kept in memory.

So a killed agent goes on exactly where it was: its state is a function of what was committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evodevo.multitask.agent import AgentClass, PublishedPath, SystemView
from evodevo.multitask.library import Library
from evodevo.multitask.recorded import KEPT, deciding, supports_in
from evodevo.multitask.search.accounts import accounted_parameters
from evodevo.multitask.search.population import Population, ScoredPath, ordered, with_generation
from evodevo.multitask.search.score import ScoreSettings, cost, score
from evodevo.multitask.settings import CycleSettings
from evodevo.storage import Store
from evodevo.storage.base import EvaluationRow, IndividualRow
from evodevo.storage.systems.base import AgentRow, CycleRow, PathRow


@dataclass(frozen=True)
class ChildRow:
    """A child of a cycle: its rows, and its result where there is one."""

    path: PathRow
    row: IndividualRow
    result: EvaluationRow | None
    attempts: int

    @property
    def id(self) -> str:
        """Its individual."""
        return self.row.id


def children_of(store: Store, cycle: CycleRow) -> list[ChildRow]:
    """The children of a cycle so far, in the order of their places."""
    paths = store.systems.paths(cycle.agent_id, cycle.number)
    rows = store.systems.individuals([path.id for path in paths])
    results = store.systems.evaluations_of([path.id for path in paths])
    children = [
        ChildRow(path, rows[path.id], deciding(results[path.id]), max((r.attempt for r in results[path.id]), default=0))
        for path in paths
    ]
    return sorted(children, key=lambda child: child.row.slot)


def with_result(store: Store, child: ChildRow) -> ChildRow:
    """A child with the result that it has by now."""
    results = store.systems.evaluations_of([child.id])[child.id]
    return replace(child, result=deciding(results), attempts=max((result.attempt for result in results), default=0))


def offspring(store: Store, agent_id: str, *, before_cycle: int) -> Counter[str]:
    """Number of times that each path was accepted as a parent in an agent's earlier cycles."""
    counted: Counter[str] = Counter()
    for row in store.individuals(agent_id):
        parent = row.details.get("parent")
        if parent is not None and row.generation < before_cycle:
            counted[parent] += bool(row.details.get("accepted"))
    return counted


def history(store: Store, agent_id: str) -> list[tuple[tuple[str, ...], bool]]:
    """The supports' agents of each of an agent's multipath children that has a result, and whether it was kept."""
    rows = store.individuals(agent_id)
    results = store.systems.evaluations_of([row.id for row in rows])
    entries = []
    for row in sorted(rows, key=lambda entry: int(entry.birth)):
        result = deciding(results[row.id])
        if result is not None and result.state == "done":
            entries.append((supports_in(row), result.extra["fate"] == KEPT))
    return entries


def kept_before(store: Store, agent: AgentRow, cycle: CycleRow) -> list[str]:
    """Individuals with which a cycle begins: the agent's last published path, and those that it retained."""
    earlier = [row for row in store.systems.cycles(agent_id=agent.id) if row.number < cycle.number]
    kept = list(earlier[-1].retained) if earlier else []
    published = store.systems.visible(agent.system_id, cycle.view).get(agent.name)
    if published is not None and published.path_id is not None:
        kept.insert(0, published.path_id)
    return list(dict.fromkeys(kept))


def member(
    known: PublishedPath, agent: str, view: SystemView, settings: ScoreSettings, root: tuple[float, float]
) -> ScoredPath | None:
    """A kept path with its score at a view; None where it has no quality."""
    accounted = accounted_parameters(known.sizes, view.locks, agent)
    value = score(known.quality, cost(accounted, known.flops, settings, root).factor)
    return None if value is None else ScoredPath(known.id, known.path.number, value)


def population(
    start: Sequence[ScoredPath],
    children: Sequence[ChildRow],
    members: Callable[[str], ScoredPath | None],
    settings: CycleSettings,
    earlier: Counter[str],
    generator: Callable[[int], np.random.Generator],
) -> Population:
    """The living paths after the whole generations among the children, in order.

    Args:
        start: the living paths at the beginning of the cycle.
        children: children of the cycle, in the order of their places.
        members: a kept child with its score; None where it has no accuracy.
        settings: settings of the cycle.
        earlier: numbers of offspring before the cycle.
        generator: generation -> generator of its pruning.
    """
    counts, size = earlier.copy(), settings.generation_size
    living = ordered(start)
    for generation in range(len(children) // size):
        batch = children[generation * size : (generation + 1) * size]
        if any(child.result is None for child in batch):
            break
        counts.update(child.row.details["parent"] for child in batch if child.row.details["accepted"])
        kept = [child.id for child in batch if child.result is not None and child.result.extra["fate"] == KEPT]
        improved = [scored for child in kept if (scored := members(child)) is not None]
        living = with_generation(with_counts(living, counts), improved, settings.population, generator(generation))
    return with_counts(living, counts)


def with_counts(living: Sequence[ScoredPath], counted: Counter[str]) -> Population:
    """The population with its offspring so far."""
    return tuple(replace(path, offspring=counted[path.id]) for path in living)


def root_size(store: Store, library: Library, kind: AgentClass, system_id: str, view: int) -> tuple[float, float]:
    """Parameters and FLOPs of the first root that a class may read, the bases of its scores.

    A root that was withdrawn since stays the base: scores do not change because of it. (0, 0) before any: no discount.
    """
    agents = {row.id: row for row in library.agents().values()}
    for publication in store.systems.publications(system_id, until=view):
        agent = agents[publication.agent_id]
        if publication.path_id is not None and agent.settings.get("root") and kind.reads(agent):
            known = library.one(publication.path_id)
            return float(known.parameters), known.flops
    return 0.0, 0.0
