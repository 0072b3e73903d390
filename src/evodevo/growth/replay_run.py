"""Replay of a growth: the network's history rebuilt from its log and blobs, and compared with what is stored.

Source: docs/spec/architect_thyself.md#edit-log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from evodevo.errors import DataError, EvodevoError, StoreDamagedError, UsageError
from evodevo.growth.around.after import surrounded
from evodevo.growth.backbone.log import is_log as is_backbone_log
from evodevo.growth.backbone.log import read_log as read_backbone_log
from evodevo.growth.backbone.replaying import replay_backbone
from evodevo.growth.growable import GROWABLES, OPAQUE
from evodevo.growth.log import Log, read_log
from evodevo.growth.replayed import Replay, ReplayedEdit
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.networks.spec import NetworkEnvelope
from evodevo.settings import validate

if TYPE_CHECKING:
    from evodevo.growth.edits import Replayed
    from evodevo.runs.archive import Individual

LOG, PARENTS, WEIGHTS = "edits", "parents/", "weights"
"""Roles of the blobs of a growth; ``PARENTS`` is followed by the digest that the log names."""


def replay(individual: Individual) -> Replay:
    """Rebuild all genotypes and the first weights of all newborns, and compare them with what is kept.

    Args:
        individual: Individual of a training that grew.

    Raises:
        UsageError: The training has no log of edits.
        StoreDamagedError: A blob is missing or has another digest.
        DataError: The log does not fit its blobs, the record beside it, or the kept network.
    """
    evaluation = individual.evaluation
    if evaluation is None or LOG not in evaluation.blobs:
        raise UsageError(
            f"{individual.id} has no log of edits: it is no network that grew, or its training has not ended. "
            "See: evodevo grow"
        )
    held = dict(evaluation.blobs)
    _check_blobs(individual, held)
    data, what = _get(individual, held[LOG]), f"the log of {individual.id}"
    if is_backbone_log(data):
        kept = _kept(individual, held[WEIGHTS]) if WEIGHTS in held else None
        return replay_backbone(individual, read_backbone_log(data, what=what), kept, len(held))
    log = read_log(data, what=what)
    _check_record(individual, log)
    replayed = _replayed(individual, log, held)
    is_compared = WEIGHTS in held
    if is_compared:
        _check_network(individual, log, replayed, held[WEIGHTS])
    return Replay(
        start=tuple(module.id for module in log.start),
        modules=tuple(module.id for module in replayed.modules),
        edits=tuple(_described(individual, log, replayed)),
        blobs=len(held),
        is_compared=is_compared,
    )


def _check_blobs(individual: Individual, held: Mapping[str, str]) -> None:
    blobs = individual.run.archive.store.blobs
    for role, digest in held.items():
        if blobs.size(digest) is None:
            raise StoreDamagedError(
                f"the blob {digest} ({role[:40]}) of {individual.id} is missing. Next: evodevo repair."
            )
        wrong = blobs.verify(digest)
        if wrong is not None:
            raise StoreDamagedError(f"{individual.id}, {role[:40]}: {wrong}")
        if role.startswith(PARENTS) and role.removeprefix(PARENTS) != digest:
            raise DataError(f"{individual.id} holds the blob {digest[:12]} under another name, {role[:60]}.")


def _check_record(individual: Individual, log: Log) -> None:
    """Check that the log equals the edits that are recorded beside the scores, tensors apart."""
    growth = individual.fact.get("growth", {})
    replayed_edits = [edit.model_dump(mode="json", exclude={"tensors"}) for edit in log.edits]
    recorded = growth.get("edits")
    if recorded is not None and replayed_edits != recorded:
        place = next(
            (n for n, pair in enumerate(zip(replayed_edits, recorded, strict=False)) if pair[0] != pair[1]), None
        )
        where = (
            f"{len(replayed_edits)} edits instead of {len(recorded)}"
            if place is None
            else f"edit {place + 1} is another one"
        )
        raise DataError(f"the log of {individual.id} is not what was recorded when its training ended: {where}.")


def _replayed(individual: Individual, log: Log, held: Mapping[str, str]) -> Replayed:
    from evodevo.growth.edits import replay_log

    def fetch(digest: str) -> bytes:
        if PARENTS + digest not in held:
            raise DataError(f"the log of {individual.id} names the blob {digest}, which is not kept with it.")
        return _get(individual, digest)

    try:
        return replay_log(log.start, log.edits, fetch, log.birth)
    except DataError as error:
        raise DataError(f"the log of {individual.id} does not fit to its blobs: {error}") from None
    except EvodevoError:
        raise
    except (LookupError, ValueError, RuntimeError, AssertionError) as error:
        # A log from an untrusted source may name tensors and nodes that do not exist.
        raise DataError(
            f"the log of {individual.id} does not fit to its blobs: {type(error).__name__}: {str(error)[:200]}"
        ) from None


def _kept(individual: Individual, weights: str) -> NetworkEnvelope:
    from evodevo.training import checkpoints

    manifest = checkpoints.load(individual.run.archive.store.blobs, weights).manifest
    return validate(NetworkEnvelope, manifest.genome or {}, what=f"the kept network of {individual.id}")


def _check_network(individual: Individual, log: Log, replayed: Replayed, weights: str) -> None:
    envelope = _kept(individual, weights)
    there = GROWABLES.get(envelope.network.kind).of(envelope.network.structure).modules
    # H-Model layers that are no modules have no names of their own: theirs follow their indices.
    kept, made = ({state.id: state for state in each if _is_named(state)} for each in (there, replayed.modules))
    if kept.keys() != made.keys():
        raise DataError(
            f"the log of {individual.id} ends with the modules {', '.join(made) or 'none'}; its kept network has "
            f"{', '.join(kept) or 'none'}."
        )
    wrong = [name for name in made if made[name] != kept[name]]
    if wrong:
        raise DataError(
            f"the log of {individual.id} does not lead to its kept network: {', '.join(wrong)} would be another module."
        )
    _check_surroundings(individual, log, envelope)
    layers, others = ([state.genotype for state in each if not _is_named(state)] for each in (there, replayed.modules))
    if layers != others:
        raise DataError(f"the log of {individual.id} does not lead to its kept network, which has other layers.")


def _check_surroundings(individual: Individual, log: Log, kept: NetworkEnvelope) -> None:
    """Check that the log leads to what the kept network has around its modules."""
    planned, there = (GROWABLES.get(one.kind).of(one.structure) for one in (individual.genome.network, kept.network))
    made = surrounded(planned, log.edits).with_modules(there.modules)
    if made.in_place and made.structure != there.structure:
        raise DataError(
            f"the log of {individual.id} does not lead to its kept network, which is another around its modules."
        )


def _is_named(module: ZooModule) -> bool:
    return module.genotype.archetype != OPAQUE


def _described(individual: Individual, log: Log, replayed: Replayed) -> list[ReplayedEdit]:
    from evodevo.training.parts import part_digest

    steps = {entry["event"]: entry["step"] for entry in individual.fact.get("growth", {}).get("timeline", ())}
    differences = []
    for edit in log.edits:
        born = edit.after if edit.born else None
        gone = edit.before.get(edit.module) if edit.module is not None and edit.action.operation == "prune" else None
        weights = replayed.newborns.get(edit.module) if edit.module is not None and born is not None else None
        parameters = 0
        if born is not None:
            parameters = genotype_parameters(born)
        elif gone is not None:
            parameters = -genotype_parameters(gone)
        elif edit.enlarged and edit.module is not None and edit.after is not None:
            parameters = genotype_parameters(edit.after) - genotype_parameters(edit.before[edit.module])
            weights = replayed.enlarged[edit.event, edit.order]
        differences.append(
            ReplayedEdit(
                event=edit.event,
                step=steps.get(edit.event),
                operation=edit.action.operation,
                parents=edit.action.modules,
                child=edit.module,
                parameters=parameters,
                weights=None if weights is None else part_digest(weights),
                note=edit.note,
            )
        )
    return differences


def _get(individual: Individual, digest: str) -> bytes:
    return individual.run.archive.store.blobs.get(digest)
