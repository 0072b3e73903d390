"""The reward of an event: what changed in metric, loss and costs from before its edits until its horizon is over."""

from __future__ import annotations

from dataclasses import dataclass

from evodevo.growth.events.probing import Probing
from evodevo.growth.events.records import GrowthMemory, Pending, RewardRecord
from evodevo.growth.fitness import FitnessHistory
from evodevo.growth.growable import GrowingNetwork
from evodevo.growth.price import price, rise
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.resources import Resources
from evodevo.growth.rewards import RewardState, reward
from evodevo.growth.spec import RewardSettings
from evodevo.growth.views import reward_state_of


@dataclass(frozen=True)
class Rewarding:
    """The rewards of one run.

    Attributes:
        settings: Settings of the rewards.
        probing: Probes of the run.
        start: Resources of the network at the start.
    """

    settings: RewardSettings
    probing: Probing
    start: Resources

    def state(self, zoo: GrowingNetwork, seen: ModuleProbe, history: FitnessHistory) -> RewardState:
        """Metric, loss and costs of the network as it is now; costs are multiples of those at the start."""
        now = Resources.of(zoo.structure, self.probing.around.task)
        cost, parameters = now.flops / max(self.start.flops, 1), now.parameters / max(self.start.parameters, 1)
        return reward_state_of(seen, history, cost, parameters)

    def priced(
        self, zoo: GrowingNetwork, shares: tuple[float, ...], values: tuple[float, ...]
    ) -> dict[str, float | None]:
        """What the price of an event's edits needs later on; empty where FLOPs are not priced in steps.

        Args:
            zoo: The network before the edits.
            shares, values: Share of the budget and metric at each event so far, this one included.
        """
        if self.settings.price != "steps" or not self.probing.around.in_flops:
            return {}
        return {"share": shares[-1], "flops": self.probing.prices(zoo).forward, "rise": rise(shares, values)}

    def reward(self, zoo: GrowingNetwork, memory: GrowthMemory) -> tuple[RewardRecord, GrowthMemory]:
        """The reward of the last event, whose horizon is over, and the memory with it."""
        pending = memory.pending
        assert pending is not None, "an event waits for its reward"
        seen, history = self.probing.look(zoo, memory.history, memory.portions)
        after = self.state(zoo, seen, history)
        value, scale = reward(
            pending.before.reward_state,
            after,
            (*pending.curve, after.value),
            memory.scale,
            self.settings,
            self._price(zoo, pending),
        )
        record = RewardRecord(number=pending.number, value=after.value, loss=after.loss, terms=value.terms)
        return record, memory.model_copy(update={"scale": scale}).with_pending(reward=value.total)

    def _price(self, zoo: GrowingNetwork, pending: Pending) -> float | None:
        """What the edits of an event cost in steps, in the unit of the metric; None where that is not known."""
        if pending.share is None or pending.flops is None or pending.rise is None:
            return None
        return price(pending.rise, pending.share, pending.flops, self.probing.prices(zoo).forward)
