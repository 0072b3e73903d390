"""The strategist of a run, and the edits of this run and of earlier ones from which it learns."""

from __future__ import annotations

from evodevo.growth.compute_budget import Portions
from evodevo.growth.events.probing import Probing, size_of
from evodevo.growth.events.records import GrowthMemory
from evodevo.growth.events.surroundings import Surroundings
from evodevo.growth.growable import GrowingNetwork
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.base import StrategistState, create
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.memory_of_policy import PolicyMemory
from evodevo.growth.strategists.settings import settings_for
from evodevo.growth.strategists.state import State
from evodevo.growth.strategists.transition import Transition
from evodevo.randomness import integer_seed
from evodevo.training.parts import save_part


class Learner:
    """A strategist that learns from events.

    Args:
        settings: Settings of the growth.
        around: Store of its state.
        seed: Seed of the run.
        memory: Memory of an interrupted run, or an empty one.
        edits: Edits of earlier runs; those of an interrupted run replace them.
        policy: Policy of an earlier run, from which the strategist goes on; None for one that begins anew.

    Attributes:
        strategist: The strategist.
        edits: Edits of this run and of earlier ones.
        policy: As given.

    Raises:
        UsageError: The policy belongs to another strategist, or has another shape.
    """

    def __init__(
        self,
        settings: GrowthSettings,
        around: Surroundings,
        *,
        seed: int,
        memory: GrowthMemory,
        edits: EditMemory,
        policy: PolicyMemory | None = None,
    ) -> None:
        self.around = around
        self.policy = policy
        self.edits = edits
        if memory.learned_blob is not None:
            self.edits = EditMemory.loads(around.blobs.get(memory.learned_blob).decode())
        self.strategist = create(
            settings.strategist,
            settings=settings_for(settings),
            actions=settings.events.actions,
            seed=integer_seed(seed, "strategist"),
        )
        if memory.strategist_blob is not None:
            tensors = around.tensors(memory.strategist_blob)
            self.strategist.load_state_dict(StrategistState(tensors, memory.strategist))
        elif policy is not None:  # no imitation: it would be no step of the objective
            policy.check(settings.strategist)
            self.strategist.load_state_dict(policy.state)
        elif settings.memory and self.edits.edits:  # before the first event, also of a run that was killed there
            self.strategist.remember(self.edits)

    def conclude(self, memory: GrowthMemory, after: State | None) -> tuple[GrowthMemory, dict[str, float]]:
        """Pass the last event to the strategist, now that the state after it is known.

        Returns:
            The memory, and metrics of the strategist's update by name; none where there is no event with a reward.
        """
        pending = memory.pending
        if pending is None or pending.reward is None:
            return memory, {}
        transition = Transition(
            state=pending.state,
            decisions=pending.decisions,
            reward=pending.reward,
            cost=pending.cost,
            after=after,
            gain=pending.gain,
        )
        self.edits = self.edits.with_event(transition, pending.children)
        digest = self.around.blobs.put_bytes(self.edits.dumps().encode())
        memory = memory.model_copy(update={"pending": None, "learned_blob": digest})
        return memory, self.strategist.update([transition])

    def kept(self, memory: GrowthMemory) -> GrowthMemory:
        """The memory with the strategist's state as it is now."""
        snapshot = self.strategist.state_dict()
        if not snapshot.tensors:
            return memory
        blob = save_part(self.around.blobs, snapshot.tensors)
        return memory.model_copy(update={"strategist": dict(snapshot.data), "strategist_blob": blob})

    def handed_on(self, memory: GrowthMemory) -> PolicyMemory | None:
        """What a later run goes on from; None where the strategist hands nothing on, or has decided nothing."""
        if not self.strategist.hands_on or (memory.strategist_blob is None and self.policy is None):
            return None
        runs = 1 if self.policy is None else self.policy.runs + 1
        return PolicyMemory(self.strategist.name, self.strategist.state_dict(), memory.scale, runs)

    def refining(self, number: int, zoo: GrowingNetwork, probing: Probing, portioned: Portions | None) -> float:
        """FLOPs of the strategist's own gradient at an event; 0 where it takes none.

        Args:
            number: Number of the event.
            zoo: The network as it is now.
            probing: Probes of the run, of which the gradient has one batch.
            portioned: Limits of the event; None for no limits.
        """
        if not self.strategist.wants_gradient(number):
            return 0.0
        steps, samples = self.strategist.settings.meta.steps, size_of(probing.batches(portioned)[0])
        return probing.prices(zoo).meta_gradient(steps, self.around.batch_size, samples)
