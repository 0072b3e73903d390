"""Writing of systems, agents, cycles and publications, over an open write transaction; ``paths`` writes paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update

from evodevo import canonical
from evodevo.errors import NotFoundError, StoreDamagedError, UsageError, quoted_list
from evodevo.storage import recording, seals
from evodevo.storage.schema import run_table
from evodevo.storage.systems import parts as system_parts
from evodevo.storage.systems import reading, sealing
from evodevo.storage.systems import views as system_views
from evodevo.storage.systems.base import ComponentRow, CycleRow
from evodevo.storage.systems.schema import agent_table, cycle_table, publication_table, system_table


def create_system(
    connection: Connection, name: str, seed: int, settings: Mapping[str, Any], versions: Mapping[str, Any], recipe: str
) -> str:
    """Record a new, empty system; returns the id of its run."""
    _check_name("system", name)
    if connection.execute(select(system_table.c.run_id).where(system_table.c.name == name)).first() is not None:
        raise UsageError(f"there is a system {name!r} already; choose another name.")
    run_id = recording.create_run(
        connection, kind="system", recipe=recipe, settings=settings, seed=seed, space=None, versions=versions
    )
    row = {"run_id": run_id, "name": name}
    connection.execute(insert(system_table).values(row))
    seals.put(connection, seals.STORE, seals.SYSTEM, sealing.system(row))
    return run_id


def add_agent(
    connection: Connection,
    system_id: str,
    name: str,
    kind: str,
    task: str,
    seed: int,
    settings: Mapping[str, Any],
    versions: Mapping[str, Any],
) -> str:
    """Record a new agent of a system; returns the id of its run, which has no owner yet."""
    _check_name("agent", name)
    if ":" in name:
        raise UsageError(f"the name of an agent has no ':'; got {name[:80]!r}.")
    table = agent_table
    if connection.execute(select(system_table.c.run_id).where(system_table.c.run_id == system_id)).first() is None:
        raise NotFoundError(f"no system {system_id!r} in this store.")
    same = select(table.c.run_id).where(table.c.system_id == system_id, table.c.name == name)
    if connection.execute(same).first() is not None:
        raise UsageError(f"this system has an agent {name!r} already; a task is added once to each class.")
    recipe = connection.execute(select(run_table.c.recipe).where(run_table.c.id == system_id)).scalar_one()
    run_id = recording.create_run(
        connection, kind="agent", recipe=recipe, settings=settings, seed=seed, space=None, versions=versions
    )
    row = {"run_id": run_id, "system_id": system_id, "name": name, "class": kind, "task": task}
    connection.execute(insert(table).values(row))
    seals.put(connection, system_id, seals.AGENT, sealing.agent(row))
    recording.add_event(connection, system_id, "agent.added", run_id, {"name": name, "class": kind, "task": task})
    return run_id


def begin_cycle(connection: Connection, agent_id: str, number: int, round: int | None, view: int | None) -> CycleRow:
    """Record the view of a new cycle; an open cycle with the same number, round and view is returned unchanged."""
    agent = reading.agent(connection, agent_id)
    current = reading.open_cycle(connection, agent_id)
    if current is not None:
        if (current.number, current.round) == (number, round) and view in (None, current.view):
            return current
        raise UsageError(
            f"{agent.name} is in cycle {current.number} (round {current.round}, view {current.view}); "
            f"finish it before cycle {number} (round {round}, view {view})."
        )
    last = reading.last_cycle(connection, agent_id)
    if number <= last:
        raise UsageError(
            f"{agent.name} has ended cycle {last}; the next one has a greater number than that, not {number}."
        )
    newest = system_views.view_now(connection, agent.system_id)
    seen = newest if view is None else view
    if not 0 <= seen <= newest:
        raise UsageError(f"a view lies from 0 to {newest}, what was published last; got {view}.")
    _check_whole(connection, agent.system_id, seen)
    payload = {"cycle": number, "round": round, "view": seen}
    seq = recording.add_event(connection, agent_id, "cycle.begun", agent_id, payload)
    row = {"agent_id": agent_id, "number": number, "round": round, "view_seq": seen, "state": "open"}
    row |= {"retained": "[]", "opened_seq": seq}
    connection.execute(insert(cycle_table).values(row))
    seals.put(connection, agent_id, seals.CYCLE, sealing.cycle(row))
    return CycleRow(agent_id, number, round, seen, "open", ())


def publish(
    connection: Connection, agent_id: str, cycle: int | None, individual: str | None, retained: Sequence[str]
) -> int:
    """Append a publication and close the cycle; returns the publication's seq."""
    agent = reading.agent(connection, agent_id)
    kept = [*retained, *([] if individual is None else [individual])]
    for kept_path in kept:
        if reading.path(connection, kept_path).agent_id != agent_id:
            raise UsageError(f"{agent.name} publishes and retains its own paths only; {kept_path} is another's.")
    for kept_path, parts in system_parts.components_of(connection, kept).items():
        check_held(parts, f"path {kept_path} of {agent.name}")
        if not parts:
            raise UsageError(f"path {kept_path} of {agent.name} has no recorded components; it cannot be published.")
    if cycle is not None:
        require_open(connection, agent_id, cycle)
        waiting = reading.open_asks(connection, agent_id)
        if waiting and individual is not None:
            numbers = quoted_list(path.number for path in waiting)
            raise UsageError(f"cycle {cycle} of {agent.name} still waits for the results of paths {numbers}.")
    seq = system_views.view_now(connection, agent.system_id) + 1
    payload = {"seq": seq, "cycle": cycle, "path": individual}
    event = recording.add_event(connection, agent_id, "publication", individual or agent_id, payload)
    row = {"system_id": agent.system_id, "seq": seq, "agent_id": agent_id, "cycle": cycle, "individual_id": individual}
    row["created_seq"] = event
    connection.execute(insert(publication_table).values(row))
    seals.put(connection, agent.system_id, seals.PUBLICATION, sealing.publication(row))
    if cycle is not None:
        closed = {"state": "closed", "closed_seq": event, "retained": canonical.dumps(list(retained))}
        ours = (cycle_table.c.agent_id == agent_id, cycle_table.c.number == cycle)
        before = connection.execute(select(cycle_table).where(*ours)).mappings().one()
        connection.execute(update(cycle_table).where(*ours).values(**closed))
        seals.put(connection, agent_id, seals.CYCLE, sealing.cycle({**before, **closed}))
    return seq


def withdraw(connection: Connection, agent_id: str) -> int:
    """Withdraw the agent's publications and close its open cycle, if any; returns the publication's seq."""
    current = reading.open_cycle(connection, agent_id)
    return publish(connection, agent_id, None if current is None else current.number, None, ())


def require_open(connection: Connection, agent_id: str, cycle: int) -> CycleRow:
    current = reading.open_cycle(connection, agent_id)
    if current is None or current.number != cycle:
        now = "in no cycle" if current is None else f"in cycle {current.number}"
        raise UsageError(f"cycle {cycle} of agent {agent_id} is not open: it is {now}.")
    return current


def _check_whole(connection: Connection, system_id: str, view: int) -> None:
    offered = system_views.visible(connection, system_id, view)
    paths = {entry.path_id: name for name, entry in offered.items() if entry.path_id is not None}
    inside = system_parts.subpaths_of(connection, paths)
    users = {**{sub: paths[path] for path, subs in inside.items() for sub in subs}, **paths}
    for path, parts in system_parts.components_of(connection, users).items():
        check_held(parts, f"what {users[path]} published")


def check_held(parts: Sequence[ComponentRow], what: str) -> None:
    gone = [part.id for part in parts if not part.held]
    if gone:
        raise StoreDamagedError(
            f"the weights of {quoted_list(gone[:5])} are gone, so that {what} cannot be used. "
            "Next: evodevo repair; or withdraw the tasks that use them."
        )


def _check_name(what: str, name: str) -> None:
    if not (0 < len(name) <= 500 and name.isprintable() and name == name.strip()):
        raise UsageError(f"the name of a {what} has 1 to 500 printable characters; got {name[:80]!r}.")
