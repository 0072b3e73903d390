"""One cycle of one agent: generations of children, proposed together; then the best path is published.

µNet (2205.10937), µ4Net (2302.02721); docs/spec/munet.md#cycles. Every step is one transaction of the
store, and what to do next follows from its rows: a cycle that was killed anywhere goes on as if it had not been.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evodevo.errors import StoreDamagedError
from evodevo.multitask import ledger
from evodevo.multitask.agent import AGENTS, AgentClass, Child, GenerationContext, envelope, genome_hash, readable
from evodevo.multitask.genome import ComponentUse, Path, SubPath
from evodevo.multitask.ledger import ChildRow
from evodevo.multitask.library import Library
from evodevo.multitask.problem import EVALS, IMPROVED, ChildProblem
from evodevo.multitask.recorded import CHILD, DISCARDED, FAILED, KEPT, QUALITY, SCORE
from evodevo.multitask.search.population import Population, ScoredPath
from evodevo.multitask.search.score import NO_COST, ScoreSettings, quality_bar, score
from evodevo.multitask.settings import AgentSettings, CycleSettings, WorkSettings
from evodevo.multitask.transfer import table
from evodevo.multitask.transfer.problem import TransferProblem, table_of
from evodevo.multitask.transfer.table import TransferTable
from evodevo.randomness import generator, integer_seed
from evodevo.search.dispatch import Ticket
from evodevo.search.problem import DAMAGED, Outcome
from evodevo.search.recorder import Recorder
from evodevo.storage import Evaluation, Lease, NewIndividual, Score, Store
from evodevo.storage.systems.base import AgentRow, CycleRow, NewComponent, NewPath, Use, path_id


class Cycle:
    """A cycle that has begun.

    Args:
        store: Store of the records.
        recorder: Recorder of the agent's run, with its lease.
        library: Kept paths of the system.
        agent: Agent of the cycle.
        settings: Settings of the agent, those of the cycle included.
        row: Row of the cycle, with its view.
        seed: Seed of the system.
    """

    def __init__(
        self,
        store: Store,
        recorder: Recorder,
        library: Library,
        agent: AgentRow,
        settings: AgentSettings,
        row: CycleRow,
        seed: int,
    ) -> None:
        self.agent, self.settings, self.row = agent, settings, row
        self.kind: AgentClass = AGENTS.get(agent.kind)
        self.view = library.view(row.view)
        self._store, self._recorder, self._library, self._seed = store, recorder, library, seed
        self._cycle: CycleSettings = settings.cycle or CycleSettings()
        self._root = ledger.root_size(store, library, self.kind, agent.system_id, row.view)
        self._earlier = ledger.offspring(store, agent.id, before_cycle=row.number)
        self._start = [
            member
            for kept in library.known(ledger.kept_before(store, agent, row)).values()
            if (member := ledger.member(kept, agent.name, self.view, self._scoring, self._root)) is not None
        ]
        self._children: dict[str, ChildRow] = {child.id: child for child in ledger.children_of(store, row)}
        self._transfer = self._probes_of_others() if not self._probes else table.recorded(store, agent.id)

    @property
    def waiting(self) -> list[ChildRow]:
        """Children without a result, in the order of their places."""
        return [child for child in self._children.values() if child.result is None]

    @property
    def children(self) -> list[ChildRow]:
        """All children so far, in the order of their places."""
        return list(self._children.values())

    @property
    def done(self) -> bool:
        """Every child has a result; the cycle can be published."""
        return len(self._children) >= self._cycle.children and not self.waiting

    def population(self) -> Population:
        """The paths of the population after the last whole generation, with their counts of offspring."""
        return ledger.population(
            self._start, self.children, self._member, self._cycle, self._earlier, lambda g: self._draw(g, "prune")
        )

    def probes(self, work: WorkSettings, places: Mapping[str, str | None]) -> TransferProblem | None:
        """The probes that come before the first draw of a parent; None where there are some, or nothing to choose from.

        Args:
            work: Limits of the evaluation.
            places: Folders of the pool of blobs and of caches.
        """
        if not self._probes or self._transfer is not None:
            return None
        view = readable(self.view, self.kind, self.settings)
        paths = table.candidates(view, self.agent.name, self.settings.class_names, self.settings.modalities)
        if len(paths) < table.FEWEST:
            return None
        seed = integer_seed(self._seed, self.agent.name, "transfer")
        return TransferProblem(
            paths, self.agent.name, self.agent.task, self.settings, self.row.view, seed, work, places
        )

    def tell_probes(self, outcome: Outcome) -> TransferTable:
        """Record the probes; where they failed, that they did: parents are drawn uniformly then."""
        if outcome.reason is None:
            self._transfer = table_of(outcome)
        else:
            failed = f"{outcome.reason}: {outcome.detail[-500:]}"
            self._transfer = TransferTable(view=self.row.view, failed=failed)
        table.record(self._store, self._recorder.lease, self.agent, self._transfer)
        return self._transfer

    def ask(self) -> list[ChildRow]:
        """Record the next generation where none is open; returns the children that wait for a result, new or old."""
        if not self.waiting and not self.done:
            first = len(self._children)
            children = self.kind.breed(self._situation(), self._cycle.generation_size, self._draw_from(first))
            self._record(first, children)
        return self.waiting

    def ticket(self, child: ChildRow) -> Ticket:
        """The identity of the next evaluation of a child."""
        return Ticket(child.id, 0, child.attempts + 1)

    def problem(self, child: ChildRow, work: WorkSettings, places: Mapping[str, str | None]) -> ChildProblem:
        """The evaluation of a child, which follows from its rows alone.

        Args:
            child: Child of this cycle.
            work: Limits of the evaluation.
            places: Folders of the pool of blobs and of caches.
        """
        details = child.row.details
        sources = [part["source"] for part in details["parts"] if part["source"] is not None]
        digests = self._digests(sources, details["parent"])
        inside = self._library.known(details["subpaths"])
        request = {
            "components": {
                part["role"]: {
                    "digest": None if part["source"] is None else digests[part["source"]],
                    "train": part["train"],
                    "how": part["how"],
                    "source": part["source"],
                }
                for part in details["parts"]
            },
            "supports": [inside[individual].frozen for individual in details["subpaths"]],
            "task": self.agent.task,
            "task_settings": self.settings.task,
            "task_key": self.settings.task_key,
            "training": self.settings.training,
            **details["payload"],
            **places,
        }
        trained = {part["role"]: part["parameters"] for part in details["parts"] if part["train"]}
        bar = quality_bar(details["bar"], details["factor"])
        return ChildProblem(details["entry"], request, trained, bar, details["always"], work)

    def tell(self, ticket: Ticket, outcome: Outcome) -> ChildRow:
        """Record the outcome of a child; returns the child with its result.

        Raises:
            DiskFullError: The disk was full; the child waits until there is room.
            StoreDamagedError: Weights that the child needs are damaged; it waits until they are whole or given up.
        """
        child = self._children[ticket.individual]
        if outcome.reason == DAMAGED and not self._is_lost(child):
            raise StoreDamagedError(
                f"path {self.agent.name}/{child.path.number} cannot be trained: {outcome.detail} What was"
                " recorded is safe, and the run goes on from there with the same command."
            )
        # "lost" would mean that it is to be done again; it was, as often as the settings allow.
        reason = "killed" if outcome.reason == "lost" else outcome.reason
        decision = FAILED if reason is not None else KEPT if outcome.extra[IMPROVED] else DISCARDED
        details = child.row.details
        made = [
            NewComponent(part["id"], part["role"], part["parameters"], outcome.blobs[part["role"]])
            for part in details["parts"]
            if part["role"] in outcome.blobs
        ]
        uses = [Use(part["role"], part["id"]) for part in details["parts"]] if decision == KEPT else []
        quality = outcome.scores.get(QUALITY)
        value = score(quality, details["factor"])
        numbers = {} if quality is None else {QUALITY: Score(quality), SCORE: Score.of(value or 0.0)}
        answer = {name: fact for name, fact in outcome.extra.items() if name not in (EVALS, IMPROVED)}
        evaluation = Evaluation(
            child.id,
            CHILD,
            child.row.seed,
            ticket.attempt,
            "failed" if decision == FAILED else "done",
            reason,
            outcome.detail,
            scores=numbers,
            cost={key: details[key] for key in ("flops", "accounted", "factor", "parameters", "trainable")},
            extra={"fate": decision, "evals": outcome.extra.get(EVALS, []), "bar": details["bar"], "answer": answer},
            seconds=outcome.seconds,
        )

        def write(lease: Lease, row: Evaluation, roles: Sequence[str]) -> bool:
            return self._store.systems.tell(lease, row, made, uses, releases=roles)

        self._recorder.finish(ticket, evaluation, write, ended=True)
        self._children[child.id] = child = ledger.with_result(self._store, child)
        return child

    def publish(self) -> str | None:
        """Publish the best path and close the cycle; returns its individual, None where no child ever succeeded."""
        kept = [member.id for member in self.population()[: self._cycle.retained]]
        if not kept and self.settings.root:  # one that answers no task has no accuracy
            kept = [child.id for child in self.children if child.result and child.result.extra["fate"] == KEPT]
        best = kept[0] if kept else None
        self._store.systems.publish(self._recorder.lease, self.row.number, best, retained=kept[1:])
        return best

    # Inside

    @property
    def _probes(self) -> bool:
        """Whether draws of parents look at probes."""
        return self.kind.probes and not self.settings.root and self._cycle.parents.fallback == "probed"

    def _probes_of_others(self) -> TransferTable | None:
        """The table of the agent that probes for this one, whose first cycle has ended before this one's begins."""
        name = self.kind.probed_by(self.agent)
        other = None if name is None else self.view.agents.get(name)
        return None if other is None else table.recorded(self._store, other.id)

    @property
    def _scoring(self) -> ScoreSettings:
        return self._cycle.score if self.kind.priced else NO_COST

    def _is_lost(self, child: ChildRow) -> bool:
        """Whether ``repair`` has given up weights that a child needs, so that it can never be trained."""
        sources = {part["source"] for part in child.row.details["parts"]}
        inside = self._store.systems.components_of(child.row.details["subpaths"])
        needed = [part for parts in inside.values() for part in parts]
        needed += [part for part in self._store.systems.components(self.agent.system_id) if part.id in sources]
        return any(not part.held for part in needed)

    def _member(self, individual: str) -> ScoredPath | None:
        known = self._library.known([individual]).get(individual)
        if known is None:
            return None
        return ledger.member(known, self.agent.name, self.view, self._scoring, self._root)

    def _situation(self) -> GenerationContext:
        living = self.population()
        known = {**self._library.known([member.id for member in living])}
        known.update({offer.id: offer for offer in self.view.offers.values()})
        losses = {} if self._transfer is None else self._transfer.losses
        return GenerationContext(
            self.agent,
            self.settings,
            self._cycle,
            readable(self.view, self.kind, self.settings),
            living,
            known,
            self._root,
            self._library.by_number,
            lambda: ledger.history(self._store, self.agent.id),
            lambda individual: [known[name] for name in self._library.lineage(individual) if name in known],
            {one.id: losses[one.path.id] for one in known.values() if one.path.id in losses},
            {} if self._transfer is None else self._transfer.losses_of_agents,
        )

    def _draw(self, *purpose: int | str) -> np.random.Generator:
        return generator(self._seed, self.agent.name, self.row.number, *purpose)

    def _draw_from(self, first: int) -> Any:
        """Generators keyed by the child's place in the cycle; ``draw("generation", …)`` by the generation."""
        number = first // self._cycle.generation_size

        def draw(place: int | str, *purpose: int | str) -> np.random.Generator:
            key = first + place if isinstance(place, int) else place
            return self._draw(key, *([number] if place == "generation" else []), *purpose)

        return draw

    def _record(self, first: int, children: Sequence[Child]) -> None:
        counters = self._store.systems.counters(self.agent.id)
        number, component, paths = counters.path, counters.component, []
        for place, child in enumerate(children):
            new = self._new_path(number, first + place, component, child)
            paths.append(new)
            number, component = number + 1, component + new.new_components
        self._store.systems.ask(self._recorder.lease, self.row.number, paths)
        self._children = {one.id: one for one in ledger.children_of(self._store, self.row)}

    def _new_path(self, number: int, slot: int, first_component: int, child: Child) -> NewPath:
        parts, fresh = [], 0
        for part in child.parts:
            name = part.source
            if part.train:
                name, fresh = f"{self.agent.name}:{first_component + fresh}", fresh + 1
            parts.append({**dataclasses.asdict(part), "id": name})
        path = Path(
            agent=self.agent.name,
            number=number,
            task=self.agent.task,
            classes=self.settings.classes,
            kind=child.kind,
            structure=dict(child.structure),
            hparams=dict(child.hparams),
            mu=dict(child.mu),
            components=tuple(ComponentUse(role=part["role"], id=part["id"]) for part in parts),
            paths=tuple(SubPath(agent=sub.path.agent, number=sub.path.number) for sub in child.subpaths),
        )
        genome = envelope(path)
        parents = tuple(dict.fromkeys([*([child.parent] if child.parent else []), *(s.id for s in child.subpaths)]))
        individual = NewIndividual(
            path_id(self.agent.id, number),
            str(number),
            self.row.number,
            slot,
            genome,
            genome_hash(genome),
            "child" if child.parent else "root",
            self._details(child, parts),
            parents[:16],
            integer_seed(self._seed, self.agent.name, self.row.number, slot, "training"),
        )
        return NewPath(individual, number, first_component, fresh, tuple(sub.id for sub in child.subpaths))

    def _details(self, child: Child, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {
            "parent": child.parent,
            "accepted": child.accepted,
            "bar": child.bar,
            "factor": child.factor,
            "flops": child.flops,
            "accounted": child.accounted,
            "parameters": sum(part["parameters"] for part in parts),
            "trainable": sum(part["parameters"] for part in parts if part["train"]),
            "parts": [dict(part) for part in parts],
            "subpaths": [sub.id for sub in child.subpaths],
            "story": dict(child.story),
            "payload": dict(child.payload),
            "entry": child.entry,
            "always": child.always,
        }

    def _digests(self, sources: Sequence[str], parent: str | None) -> dict[str, str]:
        """Component -> digest; sources are components of the parent, or of paths in view."""
        near = [] if parent is None else [self._library.one(parent)]
        paths = [*self.view.offers.values(), *near]
        digests = {part.id: part.digest for path in paths for part in path.components}
        if any(source not in digests for source in sources):
            every = self._store.systems.components(self.agent.system_id)
            digests |= {part.id: part.digest for part in every if part.id in sources}
        return digests
