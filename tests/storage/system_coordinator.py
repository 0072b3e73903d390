"""A process that runs a small system: tests fork and kill it. It prints a line after what it believes to be safe."""

from __future__ import annotations

import signal
from pathlib import Path

from evodevo.errors import NotFoundError
from evodevo.storage import Lease, NewComponent, PathRow, Store, Use
from evodevo.testing.multitask.systems import path_of, result

TASKS = ("root", "a", "b")
ROUNDS = 2
CHILDREN = 2


def say(*words: object) -> None:
    print(*words, flush=True)


def run(folder: Path) -> None:
    """Two rounds of all agents, from where an earlier one was killed; of two children the second improves."""
    with Store.open(folder) as store:
        _run(store)


def _run(store: Store) -> None:
    systems = store.systems
    try:
        system = systems.find_system("zoo").id
    except NotFoundError:
        system = systems.create_system("zoo", 7, {})
    there = {one.task for one in systems.agents(system)}
    for task in TASKS:
        if task not in there:
            systems.add_agent(system, f"Vit~{task}", "Vit", task, 3, {})
    leases = [store.acquire(one.id) for one in systems.agents(system)]
    for round in range(ROUNDS):
        known = [one.view for one in systems.cycles(system_id=system) if one.round == round]
        view = known[0] if known else systems.view_now(system)
        for lease in leases:
            run_cycle(store, lease, round, view)
    say("end")


def run_free(folder: Path, task: str, cycles: int) -> None:
    """Cycles of one agent that look at what others have published in the meantime."""
    with Store.open(folder) as store:
        systems = store.systems
        (agent,) = [one for one in systems.agents(systems.find_system("zoo").id) if one.task == task]
        lease = store.acquire(agent.id)
        say("held")
        for number in range(cycles):
            run_cycle(store, lease, number, None)
        say("end")
        signal.pause()


def run_cycle(store: Store, lease: Lease, number: int, view: int | None) -> None:
    systems = store.systems
    if any(one.number == number and one.state == "closed" for one in systems.cycles(agent_id=lease.run_id)):
        return
    seen = systems.begin_cycle(lease, number, round=None if view is None else number, view=view).view
    agent = systems.agent(lease.run_id)
    if not systems.paths(lease.run_id, number):
        counters = systems.counters(lease.run_id)
        first = [counters.component + 2 * child for child in range(CHILDREN)]
        systems.ask(
            lease,
            number,
            [path_of(lease.run_id, counters.path + child, first[child]) for child in range(CHILDREN)],
        )
    say("asked", agent.name, number)
    offered = systems.visible(agent.system_id, seen).get("Vit~root")
    shared = [] if offered is None else [systems.components_of([offered.path_id or ""])[offered.path_id or ""][0]]
    for path in systems.open_asks(lease.run_id):
        tell(store, lease, agent.name, path, [Use("shared", one.id) for one in shared])
        say("told", path.id)
    best = systems.paths(lease.run_id, number)[-1]
    say("published", systems.publish(lease, number, best.id))


def tell(store: Store, lease: Lease, agent: str, path: PathRow, shared: list[Use]) -> None:
    asked = path_of(lease.run_id, path.number, path.first_component)
    attempt = store.start_evaluation(lease, path.id, result(asked).fidelity, 0)
    numbers = range(path.first_component, path.end_component) if path.number % 2 else range(0)
    made = [
        NewComponent(f"{agent}:{one}", f"part_{one}", 5, store.blobs.put_bytes(f"{agent}:{one}".encode()))
        for one in numbers
    ]
    uses = [*shared, *(Use(one.role, one.id) for one in made)] if made else []
    assert store.systems.tell(lease, result(asked, attempt=attempt), made, uses)
