"""A trained network of any run, of this store or another one, becomes part of a system."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evodevo.errors import NotFoundError, UsageError
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.run.create import open_system
from evodevo.storage import Store
from evodevo.storage.systems.base import AgentRow

if TYPE_CHECKING:
    from evodevo.runs.archive import Archive, Individual


@dataclass(frozen=True)
class ImportResult:
    """The result of an import.

    Attributes:
        system: name of the system.
        agent: agent that offers it.
        path: the offered path.
        individual: the individual that it comes from.
        modalities: modalities that it can read.
    """

    system: str
    agent: AgentRow
    path: PublishedPath
    individual: str
    modalities: tuple[str, ...]


def import_individual(
    system: str,
    name: str,
    run: str | None = None,
    *,
    individual: str | None = None,
    source: str | Path | None = None,
    store: str | Path = "runs",
    cache_folder: Path | None = None,
) -> ImportResult:
    """Import a network that was trained elsewhere into a system: as a support of multipath models, and as a parent of
    paths of class ``Net``. Nothing is trained; the blobs of its checkpoint are shared, or copied from another store.

    Args:
        system: its name, id, or the beginning of one.
        name: a name of the user's choice, unlike those of tasks.
        run: run whose best network is taken (``last`` is the newest run); see ``runs.predict.best_trained``.
        individual: another individual of the run, by the beginning of its id.
        source: the store of that run; that of the system if left out.
        store: folder of the system's store.
        cache_folder: folder of prepared data, with the tokenizer of a network that reads texts.

    Raises:
        NotFoundError: no such system, run or individual, or no weights of it were kept.
        UsageError: neither a run nor an individual, a name that is taken, or a network that no task here can have read.
        UnsafeFileError, StoreDamagedError, DataError: a checkpoint that cannot be used.
    """
    from evodevo.multitask.agents.network import ImportOrigin
    from evodevo.multitask.imports import import_network
    from evodevo.runs.archive import Archive

    with Store.open(store, create=False) as opened, Archive(Path(source or store)) as archive:
        opened_system = open_system(opened, system)
        record = _chosen(archive, run, individual)
        origin = ImportOrigin(
            run=record.run.id,
            recipe=record.run.recipe,
            individual=record.id,
            genome=record.row.genome_hash,
            weights=record.weights(),
        )
        path = import_network(opened_system, name, archive.store.blobs, origin, cache_folder=cache_folder)
        agent = opened_system.agent(path.path.agent)
        return ImportResult(opened_system.row.name, agent, path, record.id, tuple(agent.settings["modalities"]))


def _chosen(archive: Archive, run: str | None, individual: str | None) -> Individual:
    from evodevo.runs.predict import best_trained

    if individual is None:
        if run is None:
            raise UsageError("choose the network: --run RUN takes its best one, --individual I any other.")
        return best_trained(archive, run)
    record = archive.individual(individual)
    if run is not None and archive.run(run).id != record.run.id:
        raise NotFoundError(f"individual {record.id} is of run {record.run.id}, not of {run}.")
    return record
