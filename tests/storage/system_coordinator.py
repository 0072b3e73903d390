"""A process that runs a small system: started by tests that kill it. ``system_coordinator.py FOLDER [TASK CYCLES]``.

Without a task it runs all agents in rounds, goes on where an earlier one was killed, and prints a line after each thing
that it believes to be safe for ever. With one it runs that agent freely: each cycle sees what is there when it begins.
"""

from __future__ import annotations

import sys

from evodevo.errors import NotFoundError
from evodevo.storage import Lease, NewComponent, PathRow, Store, Use
from evodevo.testing.multitask.systems import path_of, result

TASKS = ("root", "a", "b")
ROUNDS = 2
CHILDREN = 2


def say(*words: object) -> None:
    print(*words, flush=True)


def run(store: Store) -> None:
    """Two rounds of all agents; of the two children of a cycle the second improves."""
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


def run_free(store: Store, task: str, cycles: int) -> None:
    """Cycles of one agent that look at what others have published in the meantime."""
    systems = store.systems
    (agent,) = [one for one in systems.agents(systems.find_system("zoo").id) if one.task == task]
    lease = store.acquire(agent.id)
    say("held")
    for number in range(cycles):
        run_cycle(store, lease, number, None)
    say("end")
    sys.stdin.read()


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


if __name__ == "__main__":
    with Store.open(sys.argv[1]) as opened:
        if len(sys.argv) > 2:
            run_free(opened, sys.argv[2], int(sys.argv[3]))
        else:
            run(opened)
