"""Kept paths as later decisions need them, read from the store once each: rows never change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evodevo.errors import NotFoundError, StoreDamagedError
from evodevo.multitask.agent import PublishedPath, SystemView, path_of
from evodevo.multitask.recorded import QUALITY, deciding
from evodevo.storage import Store
from evodevo.storage.base import as_written
from evodevo.storage.systems.base import AgentRow, path_id


class Library:
    """The kept paths of a system.

    Args:
        store: store of the system.
        system_id: id of the system.
    """

    def __init__(self, store: Store, system_id: str) -> None:
        self._store = store
        self.system_id = system_id
        self._known: dict[str, PublishedPath] = {}
        self._parents: dict[str, str | None] = {}

    def agents(self) -> dict[str, AgentRow]:
        """Agents of the system by name, in agent order."""
        return {agent.name: agent for agent in self._store.systems.agents(self.system_id)}

    def known(self, ids: Iterable[str]) -> dict[str, PublishedPath]:
        """Those of these individuals that were kept.

        Raises:
            StoreDamagedError: one has components, and no result.
        """
        wanted = list(dict.fromkeys(ids))
        new = [name for name in wanted if name not in self._known]
        if new:
            systems = self._store.systems
            rows, parts = systems.individuals(new), systems.components_of(new)
            results = systems.evaluations_of(new)
            for name in new:
                if name not in rows or not parts[name]:
                    continue
                result = deciding(results[name])
                if result is None:
                    raise StoreDamagedError(f"path {name} has components and no result. Next: evodevo repair.")
                quality = result.scores[QUALITY].value if QUALITY in result.scores else None
                with as_written(f"evaluation {result.id}", "a cost"):
                    flops = float(result.cost.get("flops", 0.0))
                self._known[name] = PublishedPath(name, path_of(rows[name]), tuple(parts[name]), quality, flops)
        return {name: self._known[name] for name in wanted if name in self._known}

    def one(self, individual: str) -> PublishedPath:
        """A kept path.

        Raises:
            NotFoundError: it is none.
        """
        paths = self.known([individual])
        if individual not in paths:
            raise NotFoundError(f"individual {individual} is no path that was kept.")
        return paths[individual]

    def by_number(self, agent: str, number: int) -> PublishedPath:
        """A kept path by its agent's name and number.

        Raises:
            NotFoundError: there is none.
        """
        agents = self.agents()
        if agent not in agents:
            raise NotFoundError(f"this system has no agent {agent!r}.")
        return self.one(path_id(agents[agent].id, number))

    def request(self, known: PublishedPath) -> dict[str, Any]:
        """A worker's request for a kept path, as plain data: what it is made of, and its task."""
        return {
            "path": known.path.model_dump(mode="json"),
            "components": {part.role: {"digest": part.digest} for part in known.components},
            "supports": [self.by_number(sub.agent, sub.number).frozen for sub in known.path.paths],
            "task": known.path.task,
        }

    def lineage(self, individual: str) -> list[str]:
        """Individuals from which a path inherited, nearest first, whether they were kept or not."""
        ancestors, parent = [], self._parent(individual)
        while parent is not None:
            ancestors.append(parent)
            parent = self._parent(parent)
        return ancestors

    def view(self, seq: int) -> SystemView:
        """State of the system up to a publication."""
        visible = self._store.systems.visible(self.system_id, seq)
        agents = self.agents()
        offered = {
            name: publication.path_id for name, publication in visible.items() if publication.path_id is not None
        }
        known = self.known(offered.values())
        lost = [name for name, individual in offered.items() if individual not in known]
        if lost:
            raise StoreDamagedError(f"what {lost[0]} published is no path that was kept. Next: evodevo repair.")
        return SystemView(
            seq,
            {name: known[individual] for name, individual in offered.items()},
            {name: agents[name] for name in offered},
            self._store.systems.locks(self.system_id, seq),
        )

    def _parent(self, individual: str) -> str | None:
        if individual not in self._parents:
            rows = self._store.systems.individuals([individual])
            self._parents[individual] = rows[individual].details.get("parent") if individual in rows else None
        return self._parents[individual]
