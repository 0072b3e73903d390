"""Replay of a growing backbone: its structures made again from the log of edits, and compared with what is kept."""

from __future__ import annotations

from evodevo.backbone.spec import BackboneStructure
from evodevo.errors import DataError, GenomeError, UsageError
from evodevo.growth.backbone.log import BackboneLog
from evodevo.growth.backbone.records import begun, events_of, grown_structure
from evodevo.growth.replayed import Replay, ReplayedEdit
from evodevo.networks.spec import NetworkEnvelope, NetworkSpec
from evodevo.runs.archive import Individual


def replay_backbone(individual: Individual, log: BackboneLog, kept: NetworkEnvelope | None, blobs: int) -> Replay:
    """Make all structures again.

    Args:
        individual: Individual of a training of ``grow_backbone``.
        log: Its log.
        kept: The kept network; None where none is kept.
        blobs: Number of blobs that were read and have their digest.

    Raises:
        DataError: The log is not what was recorded, does not begin as the training did, has an edit that cannot be
            made, or does not lead to the kept network.
    """
    if log.events != events_of(individual):
        raise DataError(f"the log of {individual.id} is not what was recorded when its training ended.")
    planned: NetworkSpec = individual.genome.network
    if log.start != begun(planned.structure, individual):
        raise DataError(f"the log of {individual.id} begins with another network than its training.")
    edits: list[ReplayedEdit] = []
    structure = log.start
    try:
        for event in log.events:
            before = _livs(structure)
            structure = grown_structure(structure, (event,))
            change = f"{len(before)} LIVs, then {len(_livs(structure))}"
            edits += [
                ReplayedEdit(
                    event=event.number,
                    step=event.step,
                    operation=edit.kind,
                    parents=(),
                    child=change if event.kept else None,
                    parameters=0,
                    weights=None,
                    note=edit.words() if event.kept else f"{edit.words()}: {event.note}",
                )
                for edit in event.edits
            ]
    except (UsageError, GenomeError) as error:
        raise DataError(f"the log of {individual.id} has an edit that cannot be made: {error}") from None
    if kept is not None and kept.network.structure != structure:
        raise DataError(f"the log of {individual.id} does not lead to its kept network.")
    return Replay(
        start=_livs(log.start),
        modules=_livs(structure),
        edits=tuple(edits),
        blobs=blobs,
        is_compared=kept is not None,
    )


def _livs(structure: BackboneStructure) -> tuple[str, ...]:
    """Names of the LIV classes in order."""
    space, genome = structure.parse()
    return tuple(liv.row.name for liv in space.plan(genome))
