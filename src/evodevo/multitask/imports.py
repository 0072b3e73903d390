"""A network that was trained elsewhere becomes part of a system: its blobs, an agent that hands them in, its path.

Nothing is trained. Blobs of another store are copied; what both stores have is kept once. From then on the components
are as safe as all others: they are held by the path, whatever becomes of the run that they come from.
"""

from __future__ import annotations

from pathlib import Path

from evodevo.errors import UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.agent import IMPORT, PublishedPath
from evodevo.multitask.agents.network import ImportedPart, ImportOptions, ImportOrigin
from evodevo.multitask.genome import agent_name
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.storage.blobs import BlobPool
from evodevo.storage.systems.base import AgentRow


def import_network(
    system: System, name: str, pool: BlobPool, origin: ImportOrigin, *, cache_folder: Path | None = None
) -> PublishedPath:
    """Import a network, and publish it.

    An import that was killed halfway is resumed by the same call, or with the next run of the system.

    Args:
        system: the system that receives it; its store is on disk.
        name: of your choice, unlike those of tasks; the agent is ``Import~name``.
        pool: pool of the checkpoint ``origin.weights``, of this store or of another one.
        origin: origin of the network.
        cache_folder: folder of prepared data, with the tokenizer of a network that reads texts.

    Returns:
        The path that is offered.

    Raises:
        UsageError: the name is taken, the network is there already, or it is one that no other task can have read.
        NotFoundError, UnsafeFileError, StoreDamagedError, DataError: the checkpoint cannot be used.
    """
    from evodevo.multitask.paths.network.imports import read_import

    agent_of = next((agent for agent in system.agents(kinds=[IMPORT]) if agent.task == name), None)
    _check_name(system, name, agent_of)
    _check_new(system, name, origin.weights)
    imported = read_import(pool, origin.weights, cache_folder)
    sizes = {part.role: part.parameters for part in imported.structure.parts}
    components = {
        role: ImportedPart(digest=digest, parameters=sizes[role]) for role, digest in imported.digests.items()
    }
    options = ImportOptions(
        structure=imported.structure.model_dump(mode="json"), components=components, origin=origin
    ).model_dump(mode="json")
    settings = AgentSettings(classes=0, root=True, options=options, modalities=imported.modalities)
    if agent_of is not None and agent_of.settings["options"] != options:
        raise _taken(system, name)
    for digest in sorted({*imported.digests.values()}):
        system.store.blobs.put_bytes(pool.get(digest))  # also where it is: what was put lately is no garbage
    agent = agent_of or system.add_agent(IMPORT, name, settings)
    with SerialExecutor() as executor:
        system.run([agent], 1, executor)
    return system.view().offers[agent.name]


def _check_name(system: System, name: str, before: AgentRow | None) -> None:
    try:
        agent_name(IMPORT, name)
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    others = [agent for agent in system.agents(tasks=[name]) if agent.kind != IMPORT]
    if others:
        raise UsageError(f"{name!r} is a task of system {system.row.name!r}; give the import another name.")
    if before is not None and (before.name in system.view().offers or system.is_withdrawn(before)):
        raise _taken(system, name)


def _check_new(system: System, name: str, weights: str) -> None:
    for agent in system.agents(kinds=[IMPORT]):
        same = agent.settings["options"]["origin"]["weights"] == weights
        if same and agent.task != name and not system.is_withdrawn(agent):
            raise UsageError(f"system {system.row.name!r} has this network already, as {agent.name}.")


def _taken(system: System, name: str) -> UsageError:
    return UsageError(f"system {system.row.name!r} has an import {name!r} already; give this one another name.")
