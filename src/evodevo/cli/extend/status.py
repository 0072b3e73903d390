"""``evodevo extend status``: list systems, show the state of one, and the outcome of each child."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evodevo.cli import output
from evodevo.cli.extend.options import Document
from evodevo.cli.options import DEFAULT_STORE, StoreFolder

if TYPE_CHECKING:
    from evodevo.multitask.report.status import AgentStatus, SystemStatus
    from evodevo.storage import Store


def status(
    system: Annotated[
        str | None, typer.Argument(metavar="[SYSTEM]", help="Its name, or a beginning of it; all systems if left out.")
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="TASK", help="This task's agents, cycle by cycle.")] = None,
    children: Annotated[
        bool, typer.Option("--children", help="Every child: what was changed, the bar, the score, why it was kept.")
    ] = False,
    store: StoreFolder = DEFAULT_STORE,
    json: Document = False,
) -> None:
    """Show the state of a system: the best agent of each task, shared and added components, running agents.

    The best agent is that of the highest validation accuracy. Test accuracy is shown where it was measured, and never
    used.
    """
    from evodevo.errors import UsageError
    from evodevo.multitask.report.status import standing
    from evodevo.storage import Store

    with Store.open(store, "ro", create=False) as opened:
        if system is None:
            if task is not None or children:
                raise UsageError("--task and --children say more of one system. Name it: evodevo extend status SYSTEM")
            _list(opened, store, json)
            return
        found = standing(opened, opened.systems.find_system(system))
        _show(opened, found, _chosen(found, task), in_depth=task is not None, children=children, json=json)


def _chosen(found: SystemStatus, task: str | None) -> list[AgentStatus]:
    from evodevo.errors import NotFoundError, UsageError, unknown_name

    if task is None:
        return list(found.agents)
    agents = [one for one in found.agents if one.task == task]
    if agents:
        return agents
    names = [one.name for one in found.tasks]
    if not names:
        raise NotFoundError(f"system {found.system.name!r} has no tasks yet. Add one with: evodevo extend add.")
    try:
        raise unknown_name("task", task, names)
    except UsageError as error:
        raise NotFoundError(f"system {found.system.name!r}: {error}") from None


def _show(
    store: Store, found: SystemStatus, agents: list[AgentStatus], *, in_depth: bool, children: bool, json: bool
) -> None:
    from evodevo.cli.extend import record as status_record
    from evodevo.cli.extend import tables as status_tables
    from evodevo.multitask.report.history import course

    courses = {one.name: course(store, found.system, one) for one in agents} if in_depth else {}
    told = []
    if children:
        from evodevo.multitask.report.outcomes import fates

        told = fates(store, [path.id for one in agents for path in store.systems.paths(one.id)])
    if json:
        names = {one.name for one in agents}
        data = status_record.system(found, names)
        data |= {"course": status_record.courses(courses)} if in_depth else {}
        data |= {"children_told": told} if children else {}
        output.document("evodevo.extend.status/1", data)
        return
    status_tables.head(found)
    if in_depth:
        for one in agents:
            status_tables.agent(found, one, courses[one.name])
    elif not children:
        status_tables.tasks(found)
        status_tables.agents(found)
    if children:
        output.line()
        status_tables.children(told)


def _list(store: Store, folder: Path, json: bool) -> None:
    from evodevo.cli.extend import record as status_record
    from evodevo.cli.extend import tables as status_tables

    systems = store.systems.listing()
    owners = store.owners()
    every = [status_record.listed(one, owners) for one in systems]
    if json:
        output.document("evodevo.extend.status/1", {"store": str(folder), "systems": every})
        return
    status_tables.systems(every)
