"""A zoo of modules as a network that grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from evodevo.errors import UsageError
from evodevo.growth.around.base import AROUND
from evodevo.growth.around.spec import AroundSettings
from evodevo.growth.flops import OUTSIDE, Prices
from evodevo.growth.growable import Growable, TaskSizes
from evodevo.growth.latency import LatencyTable, latency
from evodevo.growth.spec import FitnessSettings
from evodevo.module_zoo.cost import zoo_cost, zoo_work
from evodevo.module_zoo.spec import ZooStructure
from evodevo.operators.cost import Cost, total_work

if TYPE_CHECKING:
    from evodevo.growth.zoo.growing import GrowingZoo
    from evodevo.training.surgery import Origins


class GrowableZoo(Growable):
    """A zoo whose modules come and go.

    Attributes:
        zoo: Zoo structure; everything but its modules is read here.
    """

    plural = "zoos"
    role = "zoo"
    in_place = True
    races = True

    zoo: ZooStructure

    @classmethod
    def of(cls, structure: ZooStructure) -> Self:
        """See ``Growable``; every zoo can grow."""
        return cls(zoo=structure, modules=structure.modules, disabled=structure.disabled)

    @property
    def structure(self) -> ZooStructure:
        """The zoo with these modules."""
        return self.zoo.model_copy(update={"modules": self.modules, "disabled": self.disabled})

    def grown(self, network: Any, moved: Callable[[Origins], None]) -> GrowingZoo:
        """See ``Growable``; parameters move where a module is enlarged at its place."""
        from evodevo.growth.zoo.growing import GrowingZoo

        return GrowingZoo(network, type(self), moved)

    def changed_around(self, operation: str, settings: AroundSettings, task: TaskSizes | None = None) -> Self:
        """See ``Growable``."""
        row = AROUND.get(operation)()
        after = row.changed(self.structure, settings)
        misfit = None if task is None else row.misfit(self.structure, task.inputs)
        if misfit is not None:
            raise UsageError(misfit)
        return type(self).of(after)

    @property
    def width(self) -> int:
        """Width d."""
        return self.zoo.width

    def cost(self, task: TaskSizes) -> Cost:
        """See ``Growable``; modules count by the share of samples on which they run."""
        return zoo_cost(self.structure, inputs=task.inputs, outputs=task.outputs)

    def prices(self, task: TaskSizes, settings: FitnessSettings) -> Prices:
        """See ``Growable``; a probe runs every module once, whatever is left out afterwards."""
        work = zoo_work(self.structure, task.inputs, task.outputs)
        forward = float(total_work(work.values()).total)
        learns = total_work([work["modules"], work["router"]]).total
        return Prices(forward, (1 + OUTSIDE) * forward, learns / max(forward, 1.0))

    def seconds(self, table: LatencyTable) -> float:
        """See ``Growable``."""
        return latency(self.structure, table)
