"""``evodevo extend status``: list systems, show the state of one, and the outcome of each child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from evodevo.cli import output
from evodevo.cli.extend.options import Document
from evodevo.cli.options import DEFAULT_STORE, StoreFolder

if TYPE_CHECKING:
    from evodevo.multitask.report.status import AgentStatus, SystemStatus
    from evodevo.storage import Store
    from evodevo.storage.addresses import Place


def status(
    system: Annotated[
        str | None, typer.Argument(metavar="[SYSTEM]", help="Its name, or a beginning of it; all systems if left out.")
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="TASK", help="This task's agents, cycle by cycle.")] = None,
    children: Annotated[
        bool, typer.Option("--children", help="Every child: what was changed, the bar, the score, why it was kept.")
    ] = False,
    transfer: Annotated[
        bool, typer.Option("--transfer", help="What each agent's probes found of the paths of others.")
    ] = False,
    store: StoreFolder = DEFAULT_STORE,
    json: Document = False,
) -> None:
    """Show the state of a system: the best agent of each task, shared and added components, running agents.

    The best agent is that of the highest validation accuracy. Test accuracy is shown where it was measured, and never
    used.
    """
    from evodevo.errors import UsageError
    from evodevo.multitask.report.status import status_of
    from evodevo.storage import Store

    with Store.open(store, "ro", create=False) as opened:
        if system is None:
            if task is not None or children or transfer:
                raise UsageError(
                    "--task, --children and --transfer show more of one system. Name it: evodevo extend status SYSTEM"
                )
            _list(opened, store, json)
            return
        system_status = status_of(opened, opened.systems.find_system(system))
        agents = _chosen(system_status, task)
        if transfer:
            _show_transfer(opened, system_status, agents, json=json)
        else:
            _show(opened, system_status, agents, in_depth=task is not None, children=children, json=json)


def _chosen(system_status: SystemStatus, task: str | None) -> list[AgentStatus]:
    from evodevo.errors import NotFoundError, UsageError, unknown_name

    if task is None:
        return list(system_status.agents)
    agents = [agent for agent in system_status.agents if agent.task == task]
    if agents:
        return agents
    names = [row.name for row in system_status.tasks]
    if not names:
        raise NotFoundError(f"system {system_status.system.name!r} has no tasks yet. Add one with: evodevo extend add.")
    try:
        raise unknown_name("task", task, names)
    except UsageError as error:
        raise NotFoundError(f"system {system_status.system.name!r}: {error}") from None


def _show_transfer(store: Store, system_status: SystemStatus, agents: list[AgentStatus], *, json: bool) -> None:
    from evodevo.cli.extend import tables as status_tables
    from evodevo.multitask.transfer.table import recorded

    found = {agent.name: recorded(store, agent.id) for agent in agents if not agent.root}
    if json:
        tables = {name: None if table is None else table.model_dump(mode="json") for name, table in found.items()}
        output.document("evodevo.extend.transfer/1", {"system": system_status.system.name, "agents": tables})
        return
    status_tables.head(system_status)
    status_tables.transfer(found)


def _show(
    store: Store, system_status: SystemStatus, agents: list[AgentStatus], *, in_depth: bool, children: bool, json: bool
) -> None:
    from evodevo.cli.extend import record as status_record
    from evodevo.cli.extend import tables as status_tables
    from evodevo.multitask.report.history import course

    courses = {agent.name: course(store, system_status.system, agent) for agent in agents} if in_depth else {}
    records = []
    if children:
        from evodevo.multitask.report.outcomes import child_records

        records = child_records(store, [path.id for agent in agents for path in store.systems.paths(agent.id)])
    if json:
        names = {agent.name for agent in agents}
        data = status_record.system(system_status, names)
        data |= {"course": status_record.courses(courses)} if in_depth else {}
        data |= {"children_told": records} if children else {}
        output.document("evodevo.extend.status/1", data)
        return
    status_tables.head(system_status)
    if in_depth:
        for agent in agents:
            status_tables.agent(system_status, agent, courses[agent.name])
    elif not children:
        status_tables.tasks(system_status)
        status_tables.agents(system_status)
    if children:
        output.line()
        status_tables.children(records)


def _list(store: Store, folder: Place, json: bool) -> None:
    from evodevo.cli.extend import record as status_record
    from evodevo.cli.extend import tables as status_tables

    systems = store.systems.listing()
    owners = store.owners()
    every = [status_record.listed(system, owners) for system in systems]
    if json:
        output.document("evodevo.extend.status/1", {"store": str(folder), "systems": every})
        return
    status_tables.systems(every)
