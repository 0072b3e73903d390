"""A small system, written as a coordinator writes it; the tests of systems begin with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evodevo.storage import Evaluation, Lease, NewIndividual, Score, Store
from evodevo.storage.systems.base import NewComponent, NewPath, Use, path_id

FIDELITY = "samples=100"


@dataclass
class HeldAgent:
    """An agent that this process holds, and how far it has come."""

    store: Store
    system: str
    name: str
    lease: Lease
    cycle: int = -1
    told: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.lease.run_id

    def begin(self, *, view: int | None = None, round: int | None = None) -> None:
        self.cycle += 1
        self.store.systems.begin_cycle(self.lease, self.cycle, round=round, view=view)

    def new_path(self, *, components: int = 2, subpaths: Sequence[str] = (), **other: Any) -> NewPath:
        """The next path, with numbers for some new components."""
        counters = self.store.systems.counters(self.id)
        return path_of(self.id, counters.path, counters.component, components, subpaths, **other)

    def ask(self, **other: Any) -> NewPath:
        path = self.new_path(**other)
        self.store.systems.ask(self.lease, self.cycle, [path])
        return path

    def tell(self, path: NewPath, *, others: Sequence[Use] = (), weights: bytes | None = None, attempt: int = 1) -> str:
        """The path improved: its new components hold ``weights`` (else bytes of their own), after those of others."""
        made = [
            NewComponent(
                f"{self.name}:{number}",
                f"role_{len(others) + number - path.first_component}",
                10 + number,
                self.store.blobs.put_bytes(f"{self.name}:{number}".encode() if weights is None else weights),
            )
            for number in range(path.first_component, path.first_component + path.new_components)
        ]
        uses = [*others, *(Use(component.role, component.id) for component in made)]
        assert self.store.systems.tell(self.lease, result(path, attempt=attempt), made, uses)
        self.told.append(path.individual.id)
        return path.individual.id

    def publish(self, individual: str | None, **other: Any) -> int:
        return self.store.systems.publish(self.lease, self.cycle, individual, **other)

    def run_cycle(self, *, others: Sequence[Use] = (), subpaths: Sequence[str] = (), components: int = 2) -> str:
        """A whole cycle of one child."""
        self.begin()
        individual = self.tell(self.ask(components=components, subpaths=subpaths), others=others)
        self.publish(individual)
        return individual


def path_of(
    agent_id: str, number: int, first: int, components: int = 2, subpaths: Sequence[str] = (), **other: Any
) -> NewPath:
    """Path ``number`` with component numbers from ``first``."""
    individual = NewIndividual(
        path_id(agent_id, number),
        str(number),
        0,
        number,
        {"space": "path", "version": 1, "genes": {"number": number}},
        f"hash-{number}",
        "child",
        {"bar": None, "offspring": 1},
        seed=number,
        **other,
    )
    return NewPath(individual, number, first, components, tuple(subpaths))


def result(path: NewPath, *, accuracy: float = 0.5, attempt: int = 1, **other: Any) -> Evaluation:
    scores = {"quality": Score(accuracy)}
    return Evaluation(path.individual.id, FIDELITY, 0, attempt, scores=scores, extra={"fate": "kept"}, **other)


def new_system(store: Store, name: str = "zoo") -> str:
    return store.systems.create_system(name, 7, {"generation_size": 4})


def new_agent(store: Store, system: str, task: str, kind: str = "Vit") -> HeldAgent:
    agent_id = store.systems.add_agent(system, f"{kind}~{task}", kind, task, 3, {"samples": 16})
    return HeldAgent(store, system, f"{kind}~{task}", store.acquire(agent_id))


def uses_of(store: Store, individual: str) -> list[Use]:
    """Components of a path as uses, for a child that shares them."""
    return [Use(component.role, component.id) for component in store.systems.components_of([individual])[individual]]
