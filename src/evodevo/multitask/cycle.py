"""One cycle of one agent: generations of children, asked for together; then the best path is published.

µNet (2205.10937), µ4Net (2302.02721); docs/spec/munet.md#cycles. Every step is one transaction of the
store, and what to do next follows from its rows: a cycle that was killed anywhere goes on as if it had not been.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evodevo.multitask import ledger
from evodevo.multitask.agent import AGENTS, AgentClass, Child, GenerationContext, envelope, genome_hash, readable
from evodevo.multitask.answers import Answer, read_answer
from evodevo.multitask.genome import ComponentUse, Path, SubPath
from evodevo.multitask.ledger import ChildRow
from evodevo.multitask.library import Library
from evodevo.multitask.recorded import CHILD, DISCARDED, FAILED, KEPT, QUALITY, SCORE
from evodevo.multitask.search.population import Population, ScoredPath
from evodevo.multitask.search.score import NO_COST, ScoreSettings, quality_bar, score
from evodevo.multitask.settings import AgentSettings, CycleSettings
from evodevo.randomness import generator, integer_seed
from evodevo.storage import Evaluation, Lease, NewIndividual, Score, Store
from evodevo.storage.systems.base import AgentRow, CycleRow, NewComponent, NewPath, Use, path_id


class Cycle:
    """A cycle that has begun.

    Args:
        store: store of the record.
        lease: lease of the agent.
        library: library of the system.
        agent: the agent of the cycle.
        settings: settings of the agent, with the cycle's filled in.
        row: the cycle, with its view.
        seed: seed of the system.
    """

    def __init__(
        self,
        store: Store,
        lease: Lease,
        library: Library,
        agent: AgentRow,
        settings: AgentSettings,
        row: CycleRow,
        seed: int,
    ) -> None:
        self.agent, self.settings, self.row = agent, settings, row
        self.kind: AgentClass = AGENTS.get(agent.kind)
        self.view = library.view(row.view)
        self._store, self._lease, self._library, self._seed = store, lease, library, seed
        self._cycle: CycleSettings = settings.cycle or CycleSettings()
        self._root = ledger.root_size(store, library, self.kind, agent.system_id, row.view)
        self._earlier = ledger.offspring(store, agent.id, before_cycle=row.number)
        self._start = [
            member
            for known_path in library.known(ledger.kept_before(store, agent, row)).values()
            if (member := ledger.member(known_path, agent.name, self.view, self._scoring, self._root)) is not None
        ]
        self._asked: dict[str, ChildRow] = {child.id: child for child in ledger.asked(store, row)}

    @property
    def waiting(self) -> list[ChildRow]:
        """Children without a result, in the order of their places."""
        return [child for child in self._asked.values() if child.result is None]

    @property
    def children(self) -> list[ChildRow]:
        """All children so far, in the order of their places."""
        return list(self._asked.values())

    @property
    def done(self) -> bool:
        """Every child has a result; the cycle can be published."""
        return len(self._asked) >= self._cycle.children and not self.waiting

    def population(self) -> Population:
        """The living paths after the last whole generation, with their offspring."""
        return ledger.population(
            self._start, self.children, self._member, self._cycle, self._earlier, lambda g: self._draw(g, "prune")
        )

    def ask(self) -> list[ChildRow]:
        """Record the next generation where none is under way; children that wait for a result, new or old."""
        if not self.waiting and not self.done:
            first = len(self._asked)
            children = self.kind.breed(self._situation(), self._cycle.generation_size, self._draw_from(first))
            self._record(first, children)
        return self.waiting

    def tell(self, individual: str, answer: Answer) -> str:
        """Record what became of a child; returns its fate: "kept", "discarded" or "failed"."""
        child = self._asked[individual]
        details = child.row.details
        fate = FAILED if answer.reason is not None else KEPT if answer.improved else DISCARDED
        parts = details["parts"]
        made = [
            NewComponent(part["id"], part["role"], trained.parameters, trained.digest)
            for part in parts
            if part["train"] and (trained := answer.components.get(part["role"])) is not None
        ]
        uses = [Use(part["role"], part["id"]) for part in parts] if fate == KEPT else []
        value = score(answer.quality, details["factor"])
        numbers = {} if answer.quality is None else {QUALITY: Score(answer.quality), SCORE: Score.of(value or 0.0)}
        evaluation = Evaluation(
            individual,
            CHILD,
            child.row.seed,
            child.attempts + 1,
            "failed" if fate == FAILED else "done",
            answer.reason,
            answer.detail,
            scores=numbers,
            cost={key: details[key] for key in ("flops", "accounted", "factor", "parameters", "trainable")},
            extra={"fate": fate, "evals": list(answer.evals), "bar": details["bar"], "answer": dict(answer.facts)},
            seconds=answer.seconds,
        )
        self._store.systems.tell(self._lease, evaluation, made, uses)
        self._asked[individual] = ledger.with_result(self._store, child)
        return fate

    def lost(self, child: ChildRow) -> bool:
        """Whether ``repair`` has given up weights that a child needs, so that it can never be trained."""
        sources = {part["source"] for part in child.row.details["parts"]}
        inside = self._store.systems.components_of(child.row.details["subpaths"])
        needed = [part for parts in inside.values() for part in parts]
        every = self._store.systems.components(self.agent.system_id)
        return any(not part.held for part in [*needed, *(own for own in every if own.id in sources)])

    def read(self, child: ChildRow, answer: bytes) -> Answer:
        """The answer of a child's evaluator.

        Raises:
            UsageError: it contradicts the request, or itself.
        """
        details = child.row.details
        trained = {part["role"]: part["parameters"] for part in details["parts"] if part["train"]}
        return read_answer(answer, trained, quality_bar(details["bar"], details["factor"]), always=details["always"])

    def publish(self) -> str | None:
        """Publish the best path and close the cycle; returns its individual, None where no child ever succeeded."""
        kept = [path.id for path in self.population()[: self._cycle.retained]]
        if not kept and self.settings.root:  # one that answers no task has no accuracy
            kept = [
                child.id for child in self.children if child.result is not None and child.result.extra["fate"] == KEPT
            ]
        best = kept[0] if kept else None
        self._store.systems.publish(self._lease, self.row.number, best, retained=kept[1:])
        return best

    def payload(self, child: ChildRow) -> dict[str, Any]:
        """Input of a child's evaluator; it follows from the rows of the store alone."""
        details, path = child.row.details, child.row.genome_envelope["genes"]
        sources = [part["source"] for part in details["parts"] if part["source"] is not None]
        digests = self._digests(sources, details["parent"])
        return {
            "path": path,
            "components": {
                part["role"]: {
                    "digest": None if part["source"] is None else digests[part["source"]],
                    "train": part["train"],
                    "how": part["how"],
                    "source": part["source"],
                }
                for part in details["parts"]
            },
            "supports": [
                {
                    "path": sub.path.model_dump(mode="json"),
                    "components": {part.role: part.digest for part in sub.components},
                }
                for sub in self._subpaths(child)
            ],
            "task": self.agent.task,
            "task_settings": self.settings.task,
            "task_key": self.settings.task_key,
            "training": self.settings.training,
            "bar": quality_bar(details["bar"], details["factor"]),
            "seed": child.row.seed,
            **details["payload"],
        }

    # Inside

    @property
    def _scoring(self) -> ScoreSettings:
        return self._cycle.score if self.kind.priced else NO_COST

    def _member(self, individual: str) -> ScoredPath | None:
        known = self._library.known([individual]).get(individual)
        if known is None:
            return None
        return ledger.member(known, self.agent.name, self.view, self._scoring, self._root)

    def _situation(self) -> GenerationContext:
        living = self.population()
        known = {**self._library.known([path.id for path in living])}
        known.update({offer.id: offer for offer in self.view.offers.values()})
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
        )

    def _draw(self, *purpose: int | str) -> np.random.Generator:
        return generator(self._seed, self.agent.name, self.row.number, *purpose)

    def _draw_from(self, first: int) -> Any:
        """Keyed by the child's place in the cycle; ``draw("generation", …)`` by the generation."""
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
        self._store.systems.ask(self._lease, self.row.number, paths)
        self._asked = {child.id: child for child in ledger.asked(self._store, self.row)}

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

    def _subpaths(self, child: ChildRow) -> list[Any]:
        inside = child.row.details["subpaths"]
        paths = self._library.known(inside)
        return [paths[individual] for individual in inside]

    def _digests(self, sources: Sequence[str], parent: str | None) -> dict[str, str]:
        """Component -> digest; sources are components of the parent, or of paths in view."""
        near = [] if parent is None else [self._library.one(parent)]
        digests = {part.id: part.digest for offer in (*self.view.offers.values(), *near) for part in offer.components}
        missing = [component for component in sources if component not in digests]
        if missing:
            every = {
                component.id: component.digest for component in self._store.systems.components(self.agent.system_id)
            }
            digests.update({component: every[component] for component in missing})
        return digests
