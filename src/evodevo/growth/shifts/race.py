"""The choice of a network at a shift: short trainings on the new data, and the best goes on.

All begin with the weights and the moments of the network as it is; fresh modules count at once. They race in
successive halving (``growth.races.halving``), judged by their loss on the new data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evodevo.growth.edit_spec import Edit
from evodevo.growth.forks.sides import Batches
from evodevo.growth.growable import GrowingNetwork
from evodevo.growth.races.halving import DIVERGED, Entrant, Halving, Prize
from evodevo.growth.shifts.entrants import Continuation, in_turn
from evodevo.growth.shifts.records import ShiftedNetwork, ShiftRecord
from evodevo.growth.zoo.bank import ModuleBank
from evodevo.tasks.base import SampleTask

FEWEST = 2
"""Networks of the smallest race."""


@dataclass(frozen=True)
class Altered:
    """What a continuation did to a network.

    Attributes:
        edits: The edits, refused ones included.
        bank: Modules that were removed, those of before included.
    """

    edits: tuple[Edit, ...]
    bank: ModuleBank

    @property
    def refused(self) -> str:
        """Why it cannot be; empty where it can."""
        return next((edit.note for edit in self.edits if edit.module is None), "")


Alter = Callable[[GrowingNetwork, Continuation], Altered]
"""Applies a continuation to a network, in place."""


@dataclass(frozen=True)
class ShiftChoice:
    """The outcome.

    Attributes:
        record: What is recorded.
        prize: The network that goes on; None where there was no race.
        altered: What was done to it; None where there was no race.
    """

    record: ShiftRecord
    prize: Prize | None = None
    altered: Altered | None = None


@dataclass
class ShiftEntrant:
    """A network that may race at a shift.

    Attributes:
        continuation: Its difference from the network as it is.
        altered: What that did to its copy.
        entrant: Its place in the race.
    """

    continuation: Continuation
    altered: Altered
    entrant: Entrant = field(default_factory=Entrant)

    @property
    def record(self) -> ShiftedNetwork:
        """What is recorded of it."""
        side, _ = self.entrant.begun
        entrant = self.entrant
        return ShiftedNetwork(
            name=self.continuation.name,
            modules=side.zoo.live,
            losses=tuple(entrant.losses),
            steps=entrant.steps,
            expected=entrant.expected,
        )


class ShiftRaces:
    """The choice at the shift of one run.

    Args:
        halving: The race of this run.
    """

    def __init__(self, halving: Halving) -> None:
        self.halving = halving

    def choose(
        self,
        zoo: GrowingNetwork,
        kinds: Sequence[Sequence[Continuation]],
        record: ShiftRecord,
        *,
        alter: Alter,
        task: SampleTask,
        batches: Batches,
        before_next: float,
        spent: float,
    ) -> ShiftChoice:
        """Choose the network that goes on; neither the network nor the position of the training changes.

        Args:
            zoo: The network, between two segments.
            kinds: Networks that may go on (``shifts.entrants.continuations``).
            record: Record of the shift so far.
            alter: Applies a continuation.
            task: The new data, with the split ``architecture``.
            batches: Batch of the new data by number of the step.
            before_next: Share of the budget after which the next choice comes; 1 where none does.
            spent: FLOPs that have been used up.
        """
        halving, found = self.halving, sum(map(len, kinds))
        reason = halving.no_race()
        if reason:
            return ShiftChoice(record.model_copy(update={"instead": reason}))
        allowed, border = halving.allowed(before_next, spent), halving.bench.branch()
        samples, refused = len(halving.places(task)), dict[str, str]()
        made: dict[Continuation, ShiftEntrant] = {}

        def entered(continuation: Continuation) -> ShiftEntrant | None:
            if continuation not in made and continuation.name not in refused:
                results: list[Altered] = []
                copy = halving.changed(zoo, border, lambda copied: results.append(alter(copied, continuation)))
                if results[0].refused:
                    refused[continuation.name] = results[0].refused
                else:
                    made[continuation] = ShiftEntrant(continuation, results[0])
                    halving.enter(made[continuation].entrant, copy, spent, batches)
            return made.get(continuation)

        for count in range(min(found, halving.settings.networks), FEWEST - 1, -1):
            racing = [one for continuation in in_turn(kinds, count) if (one := entered(continuation)) is not None]
            entrants = [one.entrant for one in racing]
            heat = halving.plan(entrants, samples, allowed) if len(racing) >= FEWEST else None
            if heat is not None:
                break
        else:
            instead = halving.no_room(allowed)
            return ShiftChoice(record.model_copy(update={"instead": instead, "left_out": found, "refused": refused}))
        winner, used = halving.run(entrants, heat, batches, task)
        won = next((one for one in racing if one.entrant is winner), None)
        kept = 0.0 if won is None else won.entrant.flops
        update = {
            "networks": tuple(one.record for one in racing),
            "left_out": found - len(racing) - len(refused),
            "refused": refused,
            "instead": DIVERGED if won is None else "",
            "winner_flops": kept,
            "steps": 0 if won is None else won.entrant.steps,
            "spent": used - kept,
        }
        if won is None:
            return ShiftChoice(record.model_copy(update=update))
        record = record.model_copy(update={**update, "chosen": won.continuation.name})
        return ShiftChoice(record, won.entrant.prize, won.altered)
