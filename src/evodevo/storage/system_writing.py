"""Writing systems: functions over an open write transaction that has confirmed the agent's lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update

from evodevo import canonical
from evodevo.errors import NotFoundError, StoreDamagedError, UsageError, quoted_list
from evodevo.storage import recording
from evodevo.storage import system_reading as reading
from evodevo.storage.base import Evaluation
from evodevo.storage.blobs import BlobPool
from evodevo.storage.schema import run_table
from evodevo.storage.system_base import (
    AgentRow,
    ComponentRow,
    CycleRow,
    NewComponent,
    NewPath,
    PathRow,
    Use,
    component_key,
    split_component,
)
from evodevo.storage.system_schema import (
    agent_table,
    component_table,
    component_use_table,
    cycle_table,
    path_table,
    publication_table,
    subpath_table,
    system_table,
)

WEIGHTS = "weights"


def create_system(
    connection: Connection, name: str, seed: int, settings: Mapping[str, Any], versions: Mapping[str, Any], recipe: str
) -> str:
    """A new, empty system; returns the id of its run."""
    _check_name("system", name)
    if connection.execute(select(system_table.c.run_id).where(system_table.c.name == name)).first() is not None:
        raise UsageError(f"there is a system {name!r} already; choose another name.")
    run_id = recording.create_run(
        connection, kind="system", recipe=recipe, settings=settings, seed=seed, space=None, versions=versions
    )
    connection.execute(insert(system_table).values(run_id=run_id, name=name))
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
    """A new agent of a system; returns the id of its run, which nobody holds yet."""
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
    recording.add_event(connection, system_id, "agent.added", run_id, {"name": name, "class": kind, "task": task})
    return run_id


def begin_cycle(connection: Connection, agent_id: str, number: int, round: int | None, view: int) -> bool:
    """Commit what a cycle sees, before it looks; returns False where it had begun so already."""
    agent = reading.agent(connection, agent_id)
    current = reading.open_cycle(connection, agent_id)
    if current is not None:
        if (current.number, current.round, current.view) == (number, round, view):
            return False
        raise UsageError(
            f"{agent.name} is in cycle {current.number} (round {current.round}, view {current.view}); "
            f"finish it before cycle {number} (round {round}, view {view})."
        )
    last = reading.last_cycle(connection, agent_id)
    if number <= last:
        raise UsageError(
            f"{agent.name} has ended cycle {last}; the next one has a greater number than that, not {number}."
        )
    newest = reading.view_now(connection, agent.system_id)
    if not 0 <= view <= newest:
        raise UsageError(f"a view lies from 0 to {newest}, what was published last; got {view}.")
    _check_whole(connection, agent.system_id, view)
    payload = {"cycle": number, "round": round, "view": view}
    seq = recording.add_event(connection, agent_id, "cycle.begun", agent_id, payload)
    row = {"agent_id": agent_id, "number": number, "round": round, "view_seq": view, "state": "open"}
    connection.execute(insert(cycle_table).values(**row, retained="[]", opened_seq=seq))
    return True


def ask(connection: Connection, agent_id: str, cycle: int, paths: Sequence[NewPath]) -> int:
    """Record paths before they are trained; repeating it changes nothing. Returns how many were new."""
    agent = reading.agent(connection, agent_id)
    current = _open(connection, agent_id, cycle)
    known = reading.paths_by_id(connection, [one.individual.id for one in paths])
    counters = reading.counters(connection, agent_id)
    next_path, next_component, fresh = counters.path, counters.component, []
    for one in paths:
        end = one.first_component + one.new_components
        if one.individual.birth != str(one.number):
            raise UsageError(f"path {one.number} has birth {str(one.number)!r}, not {one.individual.birth!r}.")
        if (before := known.get(one.individual.id)) is not None:
            same = (before.cycle, before.first_component, before.end_component) == (cycle, one.first_component, end)
            inside = reading.subpaths_of(connection, [before.id])[before.id]
            if not same or tuple(inside) != tuple(one.subpaths):
                raise UsageError(f"path {one.number} of {agent.name} is recorded already, as something else.")
            continue
        if one.number < next_path or one.first_component < next_component or one.new_components < 0:
            raise UsageError(
                f"path {one.number} with components from {one.first_component}: {agent.name} has given out the numbers "
                f"of paths below {next_path} and of components below {next_component}; none is used twice."
            )
        next_path, next_component = one.number + 1, end
        fresh.append(one)
    recording.add_individuals(connection, agent_id, [one.individual for one in paths])
    if not fresh:
        return 0
    _check_subpaths(connection, agent.system_id, current, {sub for one in fresh for sub in one.subpaths})
    rows = [
        {
            "individual_id": one.individual.id,
            "agent_id": agent_id,
            "number": one.number,
            "cycle": cycle,
            "first_component": one.first_component,
            "end_component": one.first_component + one.new_components,
        }
        for one in fresh
    ]
    connection.execute(insert(path_table), rows)
    inside_rows = [
        {"individual_id": one.individual.id, "place": place, "subpath_id": sub}
        for one in fresh
        for place, sub in enumerate(one.subpaths)
    ]
    if inside_rows:
        connection.execute(insert(subpath_table), inside_rows)
    return len(fresh)


def tell(
    connection: Connection,
    pool: BlobPool,
    agent_id: str,
    evaluation: Evaluation,
    components: Sequence[NewComponent],
    uses: Sequence[Use],
) -> bool:
    """Record a result whole; returns False, with nothing written, where it came too late."""
    path = reading.path(connection, evaluation.individual_id)
    agent = reading.agent(connection, agent_id)
    if path.agent_id != agent_id:
        raise UsageError(f"individual {path.id} is no path of {agent.name}.")
    if components and not uses:
        raise UsageError("components come with the uses of the path that they were made for; a discarded one has none.")
    made = _component_rows(connection, agent, path, components)
    if made or (uses and not reading.components_of(connection, [path.id])[path.id]):
        _open(connection, agent_id, path.cycle)
    if not recording.finish_evaluation(connection, pool, agent_id, evaluation):
        return False
    for one in components:
        key = component_key(agent_id, split_component(one.id)[1])
        recording.refer(connection, pool, "component", key, {WEIGHTS: one.digest})
    if made:
        connection.execute(insert(component_table), made)
        names = [one.id for one in components]
        recording.add_event(connection, agent_id, "components.added", path.id, {"components": names})
    _add_uses(connection, agent.system_id, path.id, uses)
    return True


def publish(
    connection: Connection, agent_id: str, cycle: int | None, individual: str | None, retained: Sequence[str]
) -> int:
    """Append to what others may see, and close the cycle; returns the publication's seq."""
    agent = reading.agent(connection, agent_id)
    kept = [*retained, *([] if individual is None else [individual])]
    for one in kept:
        if reading.path(connection, one).agent_id != agent_id:
            raise UsageError(f"{agent.name} publishes and retains its own paths only; {one} is another's.")
    for one, parts in reading.components_of(connection, kept).items():
        _check_held(parts, f"path {one} of {agent.name}")
        if not parts:
            raise UsageError(f"path {one} of {agent.name} was never told with components; it cannot be published.")
    if cycle is not None:
        _open(connection, agent_id, cycle)
        waiting = reading.open_asks(connection, agent_id)
        if waiting and individual is not None:
            numbers = quoted_list(one.number for one in waiting)
            raise UsageError(f"cycle {cycle} of {agent.name} still waits for the results of paths {numbers}.")
    seq = reading.view_now(connection, agent.system_id) + 1
    payload = {"seq": seq, "cycle": cycle, "path": individual}
    event = recording.add_event(connection, agent_id, "publication", individual or agent_id, payload)
    row = {"system_id": agent.system_id, "seq": seq, "agent_id": agent_id, "cycle": cycle, "individual_id": individual}
    connection.execute(insert(publication_table).values(**row, created_seq=event))
    if cycle is not None:
        _close(connection, agent_id, cycle, event, retained)
    return seq


def withdraw(connection: Connection, agent_id: str) -> int:
    """Offer nothing any more; an open cycle ends with it. Returns the publication's seq."""
    current = reading.open_cycle(connection, agent_id)
    return publish(connection, agent_id, None if current is None else current.number, None, ())


def _close(connection: Connection, agent_id: str, cycle: int, event: int, retained: Sequence[str]) -> None:
    table = cycle_table
    change = update(table).where(table.c.agent_id == agent_id, table.c.number == cycle)
    connection.execute(change.values(state="closed", closed_seq=event, retained=canonical.dumps(list(retained))))


def _open(connection: Connection, agent_id: str, cycle: int) -> CycleRow:
    current = reading.open_cycle(connection, agent_id)
    if current is None or current.number != cycle:
        now = "in no cycle" if current is None else f"in cycle {current.number}"
        raise UsageError(f"cycle {cycle} of agent {agent_id} is not open: it is {now}.")
    return current


def _component_rows(
    connection: Connection, agent: AgentRow, path: PathRow, components: Sequence[NewComponent]
) -> list[dict[str, Any]]:
    """Rows of those components that are not recorded; one whose weights were lost may come back with the same bytes."""
    known = {one.id: one for one in reading.components_of_path(connection, path.id)}
    rows = []
    for one in components:
        name, number = split_component(one.id)
        if name != agent.name or not path.first_component <= number < path.end_component:
            allowed = f"{agent.name}:{path.first_component} up to, without, {agent.name}:{path.end_component}"
            raise UsageError(f"component {one.id} was not set aside for path {path.number}; that were {allowed}.")
        if (before := known.get(one.id)) is None:
            row = {"id": component_key(agent.id, number), "agent_id": agent.id, "number": number, "role": one.role}
            rows.append({**row, "parameters": one.parameters, "digest": one.digest, "individual_id": path.id})
        elif (before.role, before.parameters, before.digest) != (one.role, one.parameters, one.digest):
            raise UsageError(f"component {one.id} is recorded already, with other weights; a component never changes.")
    return rows


def _add_uses(connection: Connection, system_id: str, path: str, uses: Sequence[Use]) -> None:
    if not uses:
        return
    before = reading.components_of(connection, [path])[path]
    if before:
        if [one.id for one in before] != [one.id for one in uses]:
            raise UsageError(f"path {path} is recorded already, with other components; a path never changes.")
        return
    ids = {one.name: one.id for one in reading.agents(connection, system_id)}
    keys = [component_key(ids.get(name, ""), number) for name, number in (split_component(one.id) for one in uses)]
    if missing := reading.missing_components(connection, dict(zip(keys, (one.id for one in uses), strict=True))):
        raise UsageError(f"path {path} uses {quoted_list(missing[:5])}, which this system does not have.")
    rows = [
        {"individual_id": path, "place": place, "role": one.role, "component_id": key}
        for place, (one, key) in enumerate(zip(uses, keys, strict=True))
    ]
    connection.execute(insert(component_use_table), rows)
    _check_held(reading.components_of(connection, [path])[path], f"path {path}")


def _check_subpaths(connection: Connection, system_id: str, cycle: CycleRow, subpaths: set[str]) -> None:
    seen = {one.path_id for one in reading.publications(connection, system_id, until=cycle.view)}
    if unseen := sorted(subpaths - seen):
        raise UsageError(f"sub-paths {quoted_list(unseen)} were not published at view {cycle.view} of this system.")
    for one, parts in reading.components_of(connection, subpaths).items():
        _check_held(parts, f"path {one}")


def _check_whole(connection: Connection, system_id: str, view: int) -> None:
    offered = reading.visible(connection, system_id, view)
    paths = {one.path_id: name for name, one in offered.items() if one.path_id is not None}
    inside = reading.subpaths_of(connection, paths)
    users = {**{sub: paths[one] for one, subs in inside.items() for sub in subs}, **paths}
    for one, parts in reading.components_of(connection, users).items():
        _check_held(parts, f"what {users[one]} published")


def _check_held(parts: Sequence[ComponentRow], what: str) -> None:
    gone = [part.id for part in parts if not part.held]
    if gone:
        raise StoreDamagedError(
            f"the weights of {quoted_list(gone[:5])} are gone, so that {what} cannot be used. "
            "Next: evodevo repair; or withdraw the tasks that use them."
        )


def _check_name(what: str, name: str) -> None:
    if not (0 < len(name) <= 500 and name.isprintable() and name == name.strip()):
        raise UsageError(f"the name of a {what} has 1 to 500 printable characters; got {name[:80]!r}.")
