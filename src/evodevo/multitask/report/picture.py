"""From a recorded system to the facts of its drawings: what it offered at any publication, and how it came there.

Source: docs/spec/munet.md#accounted-parameters; no torch. All rows are read once for all frames.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from evodevo.errors import NotFoundError, UsageError, quoted_list
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.diagrams.system.frame import Joined, OfferedPath, PartMark, Stream, SystemFrame
from evodevo.multitask.paths.multipath_spec import ROUTER, connector
from evodevo.multitask.recorded import ACCURACY, TEST, value_of, weights_of
from evodevo.multitask.schedule import is_root
from evodevo.multitask.settings import TASK_HEAD
from evodevo.multitask.system import System
from evodevo.storage.base import EvaluationRow
from evodevo.storage.systems.base import AgentRow, ComponentRow, Publication, path_id


@dataclass(frozen=True)
class FrameState:
    """A state of a system that is worth a frame: after a round, after a publication without rounds, a withdrawal."""

    seq: int
    label: str


class SystemFrames:
    """Frames of a system.

    Args:
        system: opened for reading; what is published later is not seen.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self._store = system.store
        self.publications: Sequence[Publication] = self._store.systems.publications(system.row.id)
        self.agents: Mapping[str, AgentRow] = {agent.name: agent for agent in system.agents()}

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Tasks of all agents, in the order in which they were added; roots are none."""
        return tuple(dict.fromkeys(agent.task for agent in self.agents.values() if not is_root(agent)))

    @cached_property
    def moments(self) -> list[FrameState]:
        """One for each round, for each publication of the schedule ``free``, and for each withdrawal."""
        rounds = {
            (cycle.agent_id, cycle.number): cycle.round
            for cycle in self._store.systems.cycles(system_id=self.system.row.id)
        }
        done: dict[str, int] = defaultdict(int)
        groups: list[tuple[int | None, list[Publication]]] = []
        for publication in self.publications:
            number = None if publication.cycle is None else rounds.get((publication.agent_id, publication.cycle))
            if number is not None and groups and groups[-1][0] == number:
                groups[-1][1].append(publication)
            else:
                groups.append((number, [publication]))
        moments = []
        for _, members in groups:
            for publication in members:
                done[publication.agent] += publication.path_id is not None
            moments.append(FrameState(members[-1].seq, self._label(members, done)))
        return moments

    def frame(self, seq: int | None = None) -> SystemFrame:
        """The offers at a publication; None is the present.

        Raises:
            UsageError: there is no such publication.
        """
        last = self.publications[-1].seq if self.publications else 0
        if seq is not None and not 0 <= seq <= last:
            raise UsageError(
                f"the last publication of system {self.system.row.name!r} is {last}; {seq} is none of its."
                if last
                else f"system {self.system.row.name!r} has published nothing yet. Next: evodevo extend run."
            )
        at = last if seq is None else seq
        label = next((state.label for state in reversed(self.moments) if state.seq <= at), "")
        return self._frame(at, label)

    def at_cycle(self, cycle: int) -> SystemFrame:
        """The last state in which no agent had ended more than so many cycles.

        Raises:
            UsageError: no agent has ended so many.
        """
        done: dict[str, int] = defaultdict(int)
        seq, most = 0, 0
        for publication in self.publications:
            done[publication.agent] += publication.path_id is not None
            most = max(most, done[publication.agent])
            if most <= cycle:
                seq = publication.seq
        if not 1 <= cycle <= most:
            raise UsageError(
                f"agents of system {self.system.row.name!r} have ended at most {most} cycles; {cycle} is out of reach."
            )
        return self.frame(seq)

    def frames(self, limit: int | None = None) -> list[SystemFrame]:
        """One for each moment; of more than ``limit``, 2 or more, evenly chosen ones with the first and the last."""
        moments, count = self.moments, len(self.moments)
        if limit is not None and count > limit:
            places = {round(place * (count - 1) / (limit - 1)) for place in range(limit)}
            moments = [moments[place] for place in sorted(places)]
        return [self._frame(state.seq, state.label) for state in moments]

    def courses(self) -> dict[str, list[PublishedPath]]:
        """Agent's name -> the path that it published at each of its cycles; not of roots."""
        paths: dict[str, list[PublishedPath]] = {name: [] for name, agent in self.agents.items() if not is_root(agent)}
        for publication in self.publications:
            if publication.path_id is not None and publication.agent in paths:
                paths[publication.agent].append(self._known[publication.path_id])
        return paths

    def test(self, individual: str) -> float | None:
        """Accuracy of a published path on the test split, where it was measured."""
        return value_of(self._measured.get(individual), ACCURACY)

    def joined(self, frame: SystemFrame, task: str) -> Joined:
        """The multipath model of a task.

        Raises:
            NotFoundError: none answers it.
        """
        models = {model.task: model for model in frame.joined}
        if task not in models:
            there = f"it has some for {quoted_list(models)}" if models else "it has none for any task"
            at = f"system {frame.system!r} at publication {frame.seq}"
            raise NotFoundError(f"{at} has no multipath model for task {task!r}; {there}.")
        return models[task]

    # Inside

    @cached_property
    def _known(self) -> dict[str, PublishedPath]:
        offered = {publication.path_id for publication in self.publications if publication.path_id is not None}
        known = self.system.library.known(sorted(offered))
        inside = {self._individual(sub.agent, sub.number) for offer in known.values() for sub in offer.path.paths}
        return known | self.system.library.known(sorted(inside))

    @cached_property
    def _results(self) -> dict[str, list[EvaluationRow]]:
        return self._store.systems.evaluations_of(sorted(self._known))

    @cached_property
    def _measured(self) -> dict[str, EvaluationRow]:
        return {
            individual: result
            for individual, results in self._results.items()
            for result in results
            if result.fidelity == TEST and result.state == "done"
        }

    def _individual(self, agent: str, number: int) -> str:
        return path_id(self.agents[agent].id, number)

    def _label(self, members: Sequence[Publication], done: Mapping[str, int]) -> str:
        if members[0].cycle is None:
            return f"{members[0].agent} withdrawn"
        rows = [self.agents[publication.agent] for publication in members]
        if all(is_root(row) for row in rows):
            names = ", ".join(row.name.rpartition("~")[2] for row in rows)
            return f"root{'s' if len(rows) > 1 else ''} {names}"
        count = max(done[row.name] for row in rows)
        ended = f"{count} cycle{'s' if count != 1 else ''}"
        if len(rows) == 1:
            return f"{rows[0].name} after {ended}"
        kinds = dict.fromkeys(row.kind for row in rows)
        return f"{' and '.join(kinds)} after {ended}"

    def _frame(self, seq: int, label: str) -> SystemFrame:
        offers: dict[str, PublishedPath | None] = {}
        for publication in self.publications:
            if publication.seq <= seq:
                offers[publication.agent] = None if publication.path_id is None else self._known[publication.path_id]
        there = {name: known for name, known in offers.items() if known is not None}
        routes, models = self._best(there)
        joined = [self._joined(model, there) for model in models]
        parts: dict[str, PartMark] = {}
        for known in [
            *routes,
            *(self._sub(sub.agent, sub.number) for model in models for sub in model.path.paths),
            *models,
        ]:
            self._add_parts(parts, known)
        return SystemFrame(
            self.system.row.name,
            seq,
            label,
            self.tasks,
            tuple(self._route(route) for route in routes),
            tuple(joined),
            parts,
            tuple(name for name, offer in offers.items() if offer is None),
            len({part.id for route in routes for part in route.components} - parts.keys()),
        )

    def _best(self, offers: Mapping[str, PublishedPath]) -> tuple[list[PublishedPath], list[PublishedPath]]:
        """The best path of one stream and the best of several for each task; every root."""
        best: tuple[dict[str, PublishedPath], dict[str, PublishedPath]] = ({}, {})
        ordered = [(agent, offers[agent.name]) for agent in self.agents.values() if agent.name in offers]
        for agent, known in ordered:
            place = best[bool(known.path.paths)]
            key = agent.name if is_root(agent) else agent.task
            if key not in place or (known.quality or 0.0) > (place[key].quality or 0.0):
                place[key] = known
        return list(best[0].values()), list(best[1].values())

    def _sub(self, agent: str, number: int) -> PublishedPath:
        return self._known[self._individual(agent, number)]

    def _add_parts(self, parts: dict[str, PartMark], known: PublishedPath) -> None:
        for part in on_the_way(known):
            if part.id not in parts:
                maker = self.agents[part.id.rpartition(":")[0]]
                parts[part.id] = PartMark(part.id, part.role, part.parameters, maker.task, is_root(maker))

    def _route(self, known: PublishedPath) -> OfferedPath:
        agent = self.agents[known.path.agent]
        return OfferedPath(
            agent.task,
            agent.name,
            known.path.id,
            tuple(part.id for part in on_the_way(known)),
            known.quality,
            self.test(known.id),
            is_root(agent),
        )

    def _joined(self, known: PublishedPath, offers: Mapping[str, PublishedPath]) -> Joined:
        router = known.component(ROUTER)
        weights = self._weights(known)
        streams = []
        for place, sub in enumerate(known.path.paths):
            inside, offered = self._sub(sub.agent, sub.number), offers.get(sub.agent)
            maps, task, root = (
                known.component(connector(place)),
                self.agents[sub.agent].task,
                is_root(self.agents[sub.agent]),
            )
            streams.append(
                Stream(
                    task,
                    inside.path.id,
                    tuple(part.id for part in on_the_way(inside)),
                    None if maps is None else maps.id,
                    weights[place] if place < len(weights) else None,
                    offered is not None and offered.id == inside.id,
                    root,
                )
            )
        return Joined(
            known.path.task,
            known.path.agent,
            known.path.id,
            tuple(streams),
            None if router is None else router.id,
            known.quality,
            self.test(known.id),
        )

    def _weights(self, known: PublishedPath) -> Sequence[float]:
        """Mean weight of each inner path over the test samples; empty before it was measured on them."""
        result = self._measured.get(known.id)
        return () if result is None else weights_of(result) or ()


def on_the_way(known: PublishedPath) -> list[ComponentRow]:
    """Components that one sample passes: of a joint root all but the heads of its tasks."""
    return [part for part in known.components if not part.role.startswith(TASK_HEAD)]
