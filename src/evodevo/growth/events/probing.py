"""Probes of a growing network: what they measure, on which samples, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.growth.compute_budget import Portions
from evodevo.growth.events.surroundings import Surroundings
from evodevo.growth.fitness import FitnessHistory, assess, relative_costs
from evodevo.growth.flops import Prices
from evodevo.growth.growable import GrowingNetwork
from evodevo.growth.price import taken_steps
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.spec import FitnessSettings
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.networks.base import Batch


@dataclass(frozen=True)
class Probing:
    """The probes of one run.

    Attributes:
        settings: Settings of the fitness.
        around: Task and samples.
    """

    settings: FitnessSettings
    around: Surroundings

    def look(
        self, zoo: GrowingNetwork, history: FitnessHistory, portioned: Portions | None
    ) -> tuple[ModuleProbe, FitnessHistory]:
        """A probe, and the history that follows with it from an earlier one."""
        seen = self.probe(zoo, portioned)
        costs = {module.id: float(genotype_parameters(module.genotype)) for module in zoo.structure.live}
        settings, structure, task = self.settings, zoo.structure, self.around.task
        in_steps = settings.price == "steps" and self.around.in_flops
        taken = taken_steps(structure, task, settings) if in_steps else None
        return seen, assess(history, seen, relative_costs(costs), settings, taken)

    def probe(self, zoo: GrowingNetwork, portioned: Portions | None) -> ModuleProbe:
        """A probe alone."""
        return zoo.probe(self.batches(portioned), self.settings)

    def inform(self, zoo: GrowingNetwork, seen: ModuleProbe) -> None:
        """Let the router know what a probe measured, where settings want it."""
        if self.settings.inform:
            zoo.inform(seen)

    def samples(self, portioned: Portions | None) -> int:
        """Samples in each probe within these limits; None for no limits."""
        return self.settings.samples if portioned is None else portioned.samples

    def batches(self, portioned: Portions | None) -> Sequence[Batch]:
        """The samples of each probe within these limits."""
        return self.around.probed(self.samples(portioned))

    def prices(self, zoo: GrowingNetwork) -> Prices:
        """FLOPs of growing, per sample, for the network as it is now."""
        return zoo.structure.prices(self.around.task, self.settings)

    def flops(self, zoo: GrowingNetwork, portioned: Portions | None) -> float:
        """FLOPs of one probe of the network as it is now."""
        return self.prices(zoo).probe * sum(size_of(batch) for batch in self.batches(portioned))


def size_of(batch: Batch) -> int:
    """Number of samples in a batch."""
    return len(next(iter(batch.values())))
