"""Kept paths as later decisions need them, read from the store once each: rows never change."""

from __future__ import annotations

from collections.abc import Iterable

from evodevo.errors import NotFoundError, StoreDamagedError
from evodevo.multitask.agent import PublishedPath, SystemView, path_of
from evodevo.multitask.recorded import QUALITY, deciding
from evodevo.storage import Store
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
        return {one.name: one for one in self._store.systems.agents(self.system_id)}

    def known(self, ids: Iterable[str]) -> dict[str, PublishedPath]:
        """Those of these individuals that were kept.

        Raises:
            StoreDamagedError: one has components, and no result.
        """
        wanted = list(dict.fromkeys(ids))
        new = [one for one in wanted if one not in self._known]
        if new:
            systems = self._store.systems
            rows, parts = systems.individuals(new), systems.components_of(new)
            results = systems.evaluations_of(new)
            for one in new:
                if one not in rows or not parts[one]:
                    continue
                result = deciding(results[one])
                if result is None:
                    raise StoreDamagedError(f"path {one} has components and no result. Next: evodevo repair.")
                quality = result.scores[QUALITY].value if QUALITY in result.scores else None
                flops = float(result.cost.get("flops", 0.0))
                self._known[one] = PublishedPath(one, path_of(rows[one]), tuple(parts[one]), quality, flops)
        return {one: self._known[one] for one in wanted if one in self._known}

    def one(self, individual: str) -> PublishedPath:
        """A kept path.

        Raises:
            NotFoundError: it is none.
        """
        found = self.known([individual])
        if individual not in found:
            raise NotFoundError(f"individual {individual} is no path that was kept.")
        return found[individual]

    def by_number(self, agent: str, number: int) -> PublishedPath:
        """A kept path by its agent's name and number.

        Raises:
            NotFoundError: there is none.
        """
        agents = self.agents()
        if agent not in agents:
            raise NotFoundError(f"this system has no agent {agent!r}.")
        return self.one(path_id(agents[agent].id, number))

    def lineage(self, individual: str) -> list[str]:
        """Individuals from which a path inherited, nearest first, whether they were kept or not."""
        found, one = [], self._parent(individual)
        while one is not None:
            found.append(one)
            one = self._parent(one)
        return found

    def view(self, seq: int) -> SystemView:
        """State of the system up to a publication."""
        visible = self._store.systems.visible(self.system_id, seq)
        agents = self.agents()
        offered = {name: one.path_id for name, one in visible.items() if one.path_id is not None}
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
