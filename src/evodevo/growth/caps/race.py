"""The choice of a smaller network where a cap falls: short trainings of what may be left, and the best goes on.

Source: docs/spec/architect_thyself.md#falling-caps.

Each network begins with the weights and the moments of the whole one, without the modules that go. All are judged
right after the removal. Then the most promising of each kind (``caps.smaller.kinds_under``) race
(``growth.races.halving``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from evodevo.experiments.racing.plan import Heat, ranked
from evodevo.experiments.trainer import Branch
from evodevo.growth.caps.records import FallRecord, SmallerNetwork
from evodevo.growth.caps.smaller import ALONE, Ids, only, seated
from evodevo.growth.forks.sides import Batches
from evodevo.growth.growable import GrowingNetwork
from evodevo.growth.races.halving import DIVERGED, Entrant, Halving, Prize
from evodevo.tasks.base import SampleTask

SCREENED = 4
"""How many times as many networks as race are judged right after the removal, on as many times fewer samples before
a race: it then costs as much as judging once those that race."""
STEP = 3
"""Forward passes in a step."""
ONE_LEFT = "only one smaller network has a finite loss"


@dataclass(frozen=True)
class Choice:
    """The outcome.

    Attributes:
        record: What is recorded.
        prize: The network that goes on; None where there was no race.
    """

    record: FallRecord
    prize: Prize | None = None


@dataclass
class Shrunk:
    """A smaller network that may race.

    Attributes:
        ids: Its modules.
        before: Loss right after the removal; None before that, and where it is not finite.
        entrant: Its place in the race.
    """

    ids: Ids
    before: float | None
    entrant: Entrant

    @property
    def record(self) -> SmallerNetwork:
        """What is recorded of it."""
        losses, steps = tuple(self.entrant.losses), self.entrant.steps
        return SmallerNetwork(modules=self.ids, before=self.before, losses=losses, steps=steps)


class CapRaces:
    """The choices of one run.

    Args:
        halving: The races of this run.
        alone: Whether single modules have seats before other networks (``caps.smaller.seated``).
    """

    def __init__(self, halving: Halving, *, alone: bool = False) -> None:
        self.halving = halving
        self.alone = alone

    def choose(
        self,
        zoo: GrowingNetwork,
        kinds: Sequence[Sequence[Ids]],
        record: FallRecord,
        *,
        task: SampleTask,
        batches: Batches,
        share: float,
        before_next: float,
        spent: float,
    ) -> Choice:
        """Choose the network that goes on; neither the network nor the position of the training changes.

        Args:
            zoo: The whole network, between two segments.
            kinds: Smaller networks under the cap (``caps.smaller.kinds_under``), of each kind the most promising
                first; at least one in all.
            record: Record of the fall so far.
            task: Task with the split ``architecture``.
            batches: Batch by number of the step.
            share: Share of the budget that is used up.
            before_next: Share of the budget after which the next choice comes; 1 where none does.
            spent: FLOPs that have been used up.
        """
        halving = self.halving
        border = halving.bench.branch()
        found, allowed = sum(map(len, kinds)), halving.allowed(before_next, spent)
        count, instead = self._room(zoo, kinds, allowed, task)
        enough = self.alone and count <= len(kinds[ALONE])
        looked = seated(kinds, count if enough else SCREENED * count, alone=self.alone) if count else kinds[:1]
        networks = {ids: Shrunk(ids, None, Entrant()) for ids in chain.from_iterable(looked)}
        best, judged, raced = next(iter(networks.values())), 0.0, 0.0
        if len(networks) == 1:
            instead = ""
        else:
            places = halving.places(task, SCREENED if count else 1)
            judged = self._look(networks.values(), zoo, border, share, task, places)
            order = [[kind[place] for place in ranked([networks[ids].before for ids in kind])] for kind in looked]
            known = [networks[ids] for kind in order for ids in kind]
            best = known[0] if known else best  # of those that fill the caps: small ones have lost more
            if count:
                if self.alone:  # where not all have room to race, the dearest are left out
                    order[ALONE].sort(key=lambda ids: halving.price(only(zoo.structure, ids)))

                def enter(network: Shrunk) -> None:
                    copy = halving.changed(zoo, border, _only(network.ids))
                    halving.enter(network.entrant, copy, spent + judged, batches)

                kinds = order if known else looked
                racing, heat = self._taking_part(kinds, count, networks, allowed - judged, enter, task)
                if heat is None:
                    instead = ONE_LEFT if len(known) == 1 else halving.no_room(allowed - judged)
                else:
                    winner, raced = halving.run([network.entrant for network in racing], heat, batches, task)
                    won = next((network for network in racing if network.entrant is winner), None)
                    best, instead = (best, DIVERGED) if won is None else (won, "")
        kept = 0.0 if instead else best.entrant.flops
        record = record.model_copy(
            update={
                "networks": tuple(network.record for network in networks.values()),
                "left_out": found - len(networks),
                "chosen": best.ids,
                "instead": instead,
                "winner_flops": kept,
                "steps": best.entrant.steps if kept else 0,
                "spent": judged + raced - kept,
            }
        )
        return Choice(record, best.entrant.prize if kept else None)

    # Within

    def _room(
        self, zoo: GrowingNetwork, kinds: Sequence[Sequence[Ids]], allowed: float, task: SampleTask
    ) -> tuple[int, str]:
        """How many networks can race, were they as dear as any that fills the caps; 0 and the reason for no race.

        Where single modules come first and the two cheapest have room, the plan leaves out the dearest
        (``_taking_part``).
        """
        halving, settings = self.halving, self.halving.settings
        reason = halving.no_race()
        if reason:
            return 0, reason
        samples = len(halving.places(task)) + STEP * settings.least * halving.training.batch_size
        if self.alone and len(kinds[ALONE]) > 1:
            _, second, *_ = sorted(halving.price(only(zoo.structure, ids)) for ids in kinds[ALONE])
            room = 2 * samples * second <= allowed
            return (min(settings.networks, sum(map(len, kinds))), "") if room else (0, halving.no_room(allowed))
        dearest = samples * max(halving.price(only(zoo.structure, ids)) for ids in kinds[0])
        count = min(settings.networks, int(allowed / dearest)) if allowed > 0 else 0
        return (count, "") if count > 1 else (0, halving.no_room(allowed))

    def _look(
        self,
        networks: Iterable[Shrunk],
        zoo: GrowingNetwork,
        border: Branch,
        share: float,
        task: SampleTask,
        places: NDArray[np.int64],
    ) -> float:
        """Judge each right after the removal, on these samples; FLOPs of that."""
        judged = 0.0
        for network in networks:
            reduced, _ = self.halving.changed(zoo, border, _only(network.ids))
            self.halving.ripen(reduced, share)
            network.before, cost = self.halving.loss(reduced, task, places)
            judged += cost
        return judged

    def _taking_part(
        self,
        kinds: Sequence[Sequence[Ids]],
        most: int,
        networks: Mapping[Ids, Shrunk],
        allowed: float,
        enter: Callable[[Shrunk], None],
        task: SampleTask,
    ) -> tuple[list[Shrunk], Heat | None]:
        """As many networks as the race has room for, and its plan; None where there is not room for two."""
        samples = len(self.halving.places(task))
        for count in range(min(sum(map(len, kinds)), most), 1, -1):
            racing = [networks[ids] for ids in chain.from_iterable(seated(kinds, count, alone=self.alone))]
            for network in racing:
                if network.entrant.side is None:
                    enter(network)
            heat = self.halving.plan([network.entrant for network in racing], samples, allowed)
            if heat is not None:
                return racing, heat
        return [], None


def _only(ids: Ids) -> Callable[[GrowingNetwork], None]:
    """Removes all other modules."""

    def remove(zoo: GrowingNetwork) -> None:
        for name in zoo.live:
            if name not in ids:
                zoo.remove(name)

    return remove
