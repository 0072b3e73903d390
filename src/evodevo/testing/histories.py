"""The history of a run without its random id: two runs are equal when their histories are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from evodevo import canonical
from evodevo.search.record import is_final
from evodevo.storage import EvaluationRow, Store


@dataclass(frozen=True)
class Birth:
    """One individual.

    Attributes:
        birth: its key in the run.
        genome: canonical text of its envelope.
        parents: their birth keys, or ids where they belong to another run.
        outcomes: one per seed: (seed, reason or "", scores with all their bits).
    """

    birth: str
    generation: int
    slot: int
    genome: str
    operation: str
    parents: tuple[str, ...]
    outcomes: tuple[tuple[int, str, tuple[tuple[str, str], ...]], ...]


def history(store: Store, run_id: str) -> list[Birth]:
    """All individuals of a run in order of generation and slot, with their final outcomes."""
    rows = store.individuals(run_id)
    births = {row.id: row.birth for row in rows}
    outcomes: dict[str, dict[int, EvaluationRow]] = {row.id: {} for row in rows}
    for evaluation in store.evaluations(run_id):
        if is_final(evaluation):
            outcomes[evaluation.individual_id][evaluation.seed] = evaluation
    return sorted(
        (
            Birth(
                birth=row.birth,
                generation=row.generation,
                slot=row.slot,
                genome=canonical.dumps(row.genome_envelope),
                operation=row.operation,
                parents=tuple(births.get(parent, parent) for parent in row.parents),
                outcomes=tuple(
                    (seed, outcome.reason or "", _bits(outcome)) for seed, outcome in sorted(outcomes[row.id].items())
                ),
            )
            for row in rows
        ),
        key=lambda birth: (birth.generation, birth.slot, birth.birth),
    )


def hypervolumes(store: Store, run_id: str) -> list[str]:
    """The recorded hypervolume of each generation with all its bits.

    Raises:
        AssertionError: a generation is missing or was recorded twice.
    """
    events = [event for event in store.events(run_id) if event.type == "generation"]
    numbers = [int(event.subject) for event in events]
    assert numbers == list(range(len(events))), f"generations recorded: {numbers}"
    return [float(event.payload["hypervolume"]).hex() for event in events]


def evaluated_twice(store: Store, run_id: str) -> list[str]:
    """Birth keys of the individuals with more than one final evaluation of one seed and fidelity."""
    births = {row.id: row.birth for row in store.individuals(run_id)}
    done = Counter(
        (evaluation.individual_id, evaluation.seed, evaluation.fidelity)
        for evaluation in store.evaluations(run_id)
        if is_final(evaluation)
    )
    return sorted({births[identity] for (identity, *_), count in done.items() if count > 1})


def difference(ours: Sequence[Birth], theirs: Sequence[Birth]) -> str:
    """The first individual that is not the same, for a message; empty where the histories are equal."""
    for first, other in zip(ours, theirs, strict=False):
        if first != other:
            return f"{first}\n  is not\n{other}"
    return "" if len(ours) == len(theirs) else f"{len(ours)} individuals are not {len(theirs)}"


def _bits(row: EvaluationRow) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, score.status if score.value is None else float(score.value).hex())
        for name, score in sorted(row.scores.items())
    )
