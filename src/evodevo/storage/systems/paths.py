"""Asking for paths and telling what became of them, over a write transaction that has confirmed the agent's lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert

from evodevo.errors import UsageError, quoted_list
from evodevo.storage import recording
from evodevo.storage.base import Evaluation
from evodevo.storage.blobs import BlobPool
from evodevo.storage.systems import parts as system_parts
from evodevo.storage.systems import reading
from evodevo.storage.systems import views as system_views
from evodevo.storage.systems.base import (
    AgentRow,
    CycleRow,
    NewComponent,
    NewPath,
    PathRow,
    Use,
    component_key,
    split_component,
)
from evodevo.storage.systems.schema import component_table, component_use_table, path_table, subpath_table
from evodevo.storage.systems.writing import check_held, require_open

WEIGHTS = "weights"


def ask(connection: Connection, agent_id: str, cycle: int, paths: Sequence[NewPath]) -> int:
    """Record paths before they are trained; repeating it changes nothing. Returns how many were new."""
    agent = reading.agent(connection, agent_id)
    current = require_open(connection, agent_id, cycle)
    known = reading.paths_by_id(connection, [one.individual.id for one in paths])
    counters = reading.counters(connection, agent_id)
    next_path, next_component, fresh = counters.path, counters.component, []
    for one in paths:
        end = one.first_component + one.new_components
        if one.individual.birth != str(one.number):
            raise UsageError(f"path {one.number} has birth {str(one.number)!r}, not {one.individual.birth!r}.")
        if (before := known.get(one.individual.id)) is not None:
            same = (before.cycle, before.first_component, before.end_component) == (cycle, one.first_component, end)
            inside = system_parts.subpaths_of(connection, [before.id])[before.id]
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
    if uses and evaluation.state != "done":
        raise UsageError(f"path {path.number} of {agent.name} failed ({evaluation.reason}); it is made of nothing.")
    made = _component_rows(connection, agent, path, components)
    if made or (uses and not system_parts.components_of(connection, [path.id])[path.id]):
        require_open(connection, agent_id, path.cycle)
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


def _component_rows(
    connection: Connection, agent: AgentRow, path: PathRow, components: Sequence[NewComponent]
) -> list[dict[str, Any]]:
    """Rows of those components that are not recorded; one whose weights were lost may come back with the same bytes."""
    known = {one.id: one for one in system_parts.components_of_path(connection, path.id)}
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
    before = system_parts.components_of(connection, [path])[path]
    if before:
        if [one.id for one in before] != [one.id for one in uses]:
            raise UsageError(f"path {path} is recorded already, with other components; a path never changes.")
        return
    ids = {one.name: one.id for one in reading.agents(connection, system_id)}
    keys = [component_key(ids.get(name, ""), number) for name, number in (split_component(one.id) for one in uses)]
    if missing := system_parts.missing_components(connection, dict(zip(keys, (one.id for one in uses), strict=True))):
        raise UsageError(f"path {path} uses {quoted_list(missing[:5])}, which this system does not have.")
    rows = [
        {"individual_id": path, "place": place, "role": one.role, "component_id": key}
        for place, (one, key) in enumerate(zip(uses, keys, strict=True))
    ]
    connection.execute(insert(component_use_table), rows)
    check_held(system_parts.components_of(connection, [path])[path], f"path {path}")


def _check_subpaths(connection: Connection, system_id: str, cycle: CycleRow, subpaths: set[str]) -> None:
    seen = {one.path_id for one in system_views.publications(connection, system_id, until=cycle.view)}
    if unseen := sorted(subpaths - seen):
        raise UsageError(f"sub-paths {quoted_list(unseen)} were not published at view {cycle.view} of this system.")
    for one, parts in system_parts.components_of(connection, subpaths).items():
        check_held(parts, f"path {one}")
