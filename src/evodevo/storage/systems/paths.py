"""Writing of paths: ``ask`` before the training, ``tell`` after it; over a write transaction with a confirmed lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert

from evodevo.errors import UsageError, quoted_list
from evodevo.storage import recording, seals
from evodevo.storage.base import Evaluation
from evodevo.storage.blobs import BlobPool
from evodevo.storage.systems import parts as system_parts
from evodevo.storage.systems import reading, sealing
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


def ask(connection: Connection, agent_id: str, cycle: int, paths: Sequence[NewPath]) -> int:
    """Record paths before they are trained; repeating the call changes nothing. Returns the number of new paths."""
    agent = reading.agent(connection, agent_id)
    current = require_open(connection, agent_id, cycle)
    known = reading.paths_by_id(connection, [path.individual.id for path in paths])
    counters = reading.counters(connection, agent_id)
    next_path, next_component, fresh = counters.path, counters.component, []
    for path in paths:
        end = path.first_component + path.new_components
        if path.individual.birth != str(path.number):
            raise UsageError(f"path {path.number} has birth {str(path.number)!r}, not {path.individual.birth!r}.")
        if (before := known.get(path.individual.id)) is not None:
            same = (before.cycle, before.first_component, before.end_component) == (cycle, path.first_component, end)
            inside = system_parts.subpaths_of(connection, [before.id])[before.id]
            if not same or tuple(inside) != tuple(path.subpaths):
                raise UsageError(f"path {path.number} of {agent.name} is recorded already, as something else.")
            continue
        if path.number < next_path or path.first_component < next_component or path.new_components < 0:
            raise UsageError(
                f"path {path.number} with components from {path.first_component}: {agent.name} has given out the "
                f"numbers of paths below {next_path} and of components below {next_component}; none is used twice."
            )
        next_path, next_component = path.number + 1, end
        fresh.append(path)
    recording.add_individuals(connection, agent_id, [path.individual for path in paths])
    if not fresh:
        return 0
    _check_subpaths(connection, agent.system_id, current, {sub for path in fresh for sub in path.subpaths})
    rows = [
        {
            "individual_id": path.individual.id,
            "agent_id": agent_id,
            "number": path.number,
            "cycle": cycle,
            "first_component": path.first_component,
            "end_component": path.first_component + path.new_components,
        }
        for path in fresh
    ]
    connection.execute(insert(path_table), rows)
    for row in rows:
        seals.put(connection, agent_id, seals.PATH, sealing.path(row))
    inside_rows = [
        {"individual_id": path.individual.id, "place": index, "subpath_id": sub}
        for path in fresh
        for index, sub in enumerate(path.subpaths)
    ]
    if inside_rows:
        connection.execute(insert(subpath_table), inside_rows)
        seals.put(connection, agent_id, seals.SUBPATHS, sealing.in_order(seals.SUBPATHS, inside_rows))
    return len(fresh)


def tell(
    connection: Connection,
    pool: BlobPool,
    agent_id: str,
    evaluation: Evaluation,
    components: Sequence[NewComponent],
    uses: Sequence[Use],
) -> bool:
    """Record a whole result; returns False, with nothing written, where it came too late."""
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
    # Before anything else is written, because a late attempt must leave no trace.
    if not recording.finish_evaluation(connection, pool, agent_id, evaluation):
        return False
    for component in components:
        key = component_key(agent_id, split_component(component.id)[1])
        recording.refer(connection, pool, agent_id, "component", key, {sealing.WEIGHTS: component.digest})
    if made:
        connection.execute(insert(component_table), made)
        for row in made:
            seals.put(connection, agent_id, seals.COMPONENT, sealing.component(row))
        names = [component.id for component in components]
        recording.add_event(connection, agent_id, "components.added", path.id, {"components": names})
    _add_uses(connection, agent, path.id, uses)
    return True


def _component_rows(
    connection: Connection, agent: AgentRow, path: PathRow, components: Sequence[NewComponent]
) -> list[dict[str, Any]]:
    """Rows of the components that are not recorded; one whose weights were lost may be added again with equal bytes."""
    known = {component.id: component for component in system_parts.components_of_path(connection, path.id)}
    rows = []
    for component in components:
        name, number = split_component(component.id)
        if name != agent.name or not path.first_component <= number < path.end_component:
            allowed = f"{agent.name}:{path.first_component} up to, without, {agent.name}:{path.end_component}"
            raise UsageError(f"component {component.id} was not set aside for path {path.number}; that were {allowed}.")
        if (before := known.get(component.id)) is None:
            row = {
                "id": component_key(agent.id, number),
                "agent_id": agent.id,
                "number": number,
                "role": component.role,
            }
            rows.append(
                {**row, "parameters": component.parameters, "digest": component.digest, "individual_id": path.id}
            )
        elif (before.role, before.parameters, before.digest) != (
            component.role,
            component.parameters,
            component.digest,
        ):
            raise UsageError(
                f"component {component.id} is recorded already, with other weights; a component never changes."
            )
    return rows


def _add_uses(connection: Connection, agent: AgentRow, path: str, uses: Sequence[Use]) -> None:
    if not uses:
        return
    before = system_parts.components_of(connection, [path])[path]
    if before:
        if [component.id for component in before] != [use.id for use in uses]:
            raise UsageError(f"path {path} is recorded already, with other components; a path never changes.")
        return
    ids = {other.name: other.id for other in reading.agents(connection, agent.system_id)}
    keys = [component_key(ids.get(name, ""), number) for name, number in (split_component(use.id) for use in uses)]
    if missing := system_parts.missing_components(connection, dict(zip(keys, (use.id for use in uses), strict=True))):
        raise UsageError(f"path {path} uses {quoted_list(missing[:5])}, which this system does not have.")
    rows = [
        {"individual_id": path, "place": index, "role": use.role, "component_id": key}
        for index, (use, key) in enumerate(zip(uses, keys, strict=True))
    ]
    connection.execute(insert(component_use_table), rows)
    seals.put(connection, agent.id, seals.USES, sealing.in_order(seals.USES, rows))
    check_held(system_parts.components_of(connection, [path])[path], f"path {path}")


def _check_subpaths(connection: Connection, system_id: str, cycle: CycleRow, subpaths: set[str]) -> None:
    seen = {entry.path_id for entry in system_views.publications(connection, system_id, until=cycle.view)}
    if unseen := sorted(subpaths - seen):
        raise UsageError(f"sub-paths {quoted_list(unseen)} were not published at view {cycle.view} of this system.")
    for subpath, parts in system_parts.components_of(connection, subpaths).items():
        check_held(parts, f"path {subpath}")
