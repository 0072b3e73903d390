"""What a network needs to grow: one row of ``GROWABLES`` for each kind of network.

To let a further kind grow, write one torch-free file with a subclass of ``Growable``, the network as plain data whose
modules can be born and removed; ``grown`` imports its subclass of ``GrowingNetwork``, which does the same to the
built network and measures it. Then add ``"mine": "package.module:MyGrowable"`` under the kind of the network, or to the
entry points ``evodevo.growables`` of a package. Driver, edits, caps, replay and reports find the row by that kind.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from evodevo.errors import UsageError, unknown_name
from evodevo.experiments.trials import Role
from evodevo.growth.around.spec import AroundSettings
from evodevo.growth.flops import Prices
from evodevo.growth.latency import LatencyTable
from evodevo.growth.spec import Entry, FitnessSettings, GrowthSettings
from evodevo.module_zoo.modules.nodes.inheritance import Map
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.networks.canvas import NamedInput, OutputSizes
from evodevo.operators.cost import Cost
from evodevo.registry import Registry, table
from evodevo.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

    from evodevo.growth.probes import ModuleProbe
    from evodevo.growth.strategists.base import Unroll
    from evodevo.growth.training.distillation_buffer import Distilled
    from evodevo.networks.base import Batch, Network
    from evodevo.training.precision import Batch as TrainingBatch
    from evodevo.training.precision import Precision
    from evodevo.training.surgery import Origins

OPAQUE = "layer"
"""Archetype of a module whose one node is a layer that no module describes, and the id of that node."""


@dataclass(frozen=True)
class TaskSizes:
    """The parts of a task and its training that determine cost.

    Attributes:
        inputs, outputs: Inputs and outputs of the task.
        batch: Number of samples in one training step.
        table: Table of measured seconds; None where latency plays no part.
    """

    inputs: Sequence[NamedInput]
    outputs: Sequence[OutputSizes]
    batch: int = 1
    table: LatencyTable | None = None


class Growable(Settings):
    """The structure of a network whose modules can be born and removed; a subclass is one kind of network.

    Attributes:
        modules: All modules, in order.
        disabled: Ids of modules that neither run nor count.
    """

    modules: tuple[ZooModule, ...]
    disabled: tuple[str, ...] = ()

    plural: ClassVar[str]
    """Name of several such networks, for messages."""
    role: ClassVar[Role]
    """Role of its trainings in a comparison."""

    in_place: ClassVar[bool] = False
    """Whether its modules can be enlarged at their place (``in_place.base.EDITS``), or replaced by others at once, and
    what is around them edited (``around.base.AROUND``)."""
    races: ClassVar[bool] = False
    """Whether a race can decide which of its modules it begins with (``growth.training.starting_race``), and which
    go on where a cap falls (``growth.caps``)."""

    @classmethod
    @abstractmethod
    def of(cls, structure: Any) -> Self:
        """The growable form of a structure, as the row of the network in ``NETWORKS`` holds it.

        Raises:
            UsageError: A structure that cannot grow.
        """

    @property
    @abstractmethod
    def structure(self) -> Any:
        """The structure with these modules; the inverse of ``of``."""

    @abstractmethod
    def grown(self, network: Network, moved: Callable[[Origins], None]) -> GrowingNetwork:
        """The growing form of a network with this structure.

        Args:
            network: The built network, changed in place.
            moved: Called with the origins of parameters when names or rows of parameters move.
        """

    @property
    @abstractmethod
    def width(self) -> int:
        """Width d of every module."""

    @abstractmethod
    def cost(self, task: TaskSizes) -> Cost:
        """Cost of one pass on one sample."""

    @abstractmethod
    def prices(self, task: TaskSizes, settings: FitnessSettings) -> Prices:
        """FLOPs of growing the network as it is now, per sample."""

    def changed_around(self, operation: str, settings: AroundSettings, task: TaskSizes | None = None) -> Self:
        """The network after an edit around its modules, a row of ``around.base.AROUND``.

        Args:
            operation: Name of the row.
            settings: Settings of such edits.
            task: Task for which it is checked as well; None where it was before.

        Raises:
            UsageError: It does not admit the edit, or it is a kind of network that has none.
        """
        raise UsageError(f"{self.plural} are not edited around their modules")

    @property
    def live(self) -> tuple[ZooModule, ...]:
        """The modules that run and count, in order."""
        return tuple(module for module in self.modules if module.id not in self.disabled)

    def place(self, name: str) -> int:
        """The present index of a module among all.

        Raises:
            UsageError: There is none of that id.
        """
        ids = [module.id for module in self.modules]
        if name not in ids:
            raise unknown_name("module", name, ids)
        return ids.index(name)

    @property
    def places(self) -> dict[str, int]:
        """Index of each live module by id."""
        return {module.id: place for place, module in enumerate(self.modules) if module.id not in self.disabled}

    def with_modules(self, modules: tuple[ZooModule, ...]) -> Self:
        """The network with other modules; those of them that were disabled stay so."""
        present = {module.id for module in modules}
        disabled = tuple(name for name in self.disabled if name in present)
        return self.model_copy(update={"modules": modules, "disabled": disabled})

    def check(self, growth: GrowthSettings) -> None:
        """Refuse settings of growth that this kind of network does not have; raises UsageError."""

    @property
    def opaque(self) -> dict[str, str]:
        """Reason by id why a module cannot be a parent; modules that can are left out."""
        return {}

    def misfit(self, genotype: ModuleGenotype) -> str | None:
        """Why a child cannot be a module of this network; None where it can."""
        return None

    def seconds(self, table: LatencyTable) -> float | None:
        """Seconds of one batch in evaluation; None for a kind of network whose seconds are not measured."""
        return None


class GrowingNetwork(ABC):
    """A built network whose modules are born and removed in place, by their ids."""

    def spare(self, moved: Callable[[Origins], None]) -> Self:
        """A network that equals this one and shares nothing with it; for ``moved`` see ``Growable.grown``."""
        return cast("Self", self.structure.grown(copy.deepcopy(self.network), moved))

    @property
    @abstractmethod
    def network(self) -> Network:
        """The network that is trained."""

    @property
    @abstractmethod
    def structure(self) -> Growable:
        """The structure of the network as it is now."""

    @property
    @abstractmethod
    def live(self) -> tuple[str, ...]:
        """Ids of the modules that run and count, in order."""

    @property
    @abstractmethod
    def progress(self) -> float:
        """Share of the training budget that is used up, 0 to 1."""

    @property
    @abstractmethod
    def births(self) -> dict[str, float]:
        """Birth factor by id of a newborn, 0 to 1. Assign a whole dictionary; changes in place count at ``insert``."""

    @births.setter
    @abstractmethod
    def births(self, factors: dict[str, float]) -> None: ...

    @property
    @abstractmethod
    def newborn_rates(self) -> dict[str, float]:
        """Factor of the learning rate by id. Assign a whole dictionary; changes in place count at ``insert``."""

    @newborn_rates.setter
    @abstractmethod
    def newborn_rates(self, rates: dict[str, float]) -> None: ...

    @abstractmethod
    def insert(
        self, module: ZooModule, *, state: Mapping[str, Tensor] | None = None, twin_of: str | None = None
    ) -> None:
        """Insert a module as the last one.

        Args:
            module: Module of the width of this network.
            state: First weights; drawn from the module's seed where it is left out.
            twin_of: Id of the parent whose router weight it shares while it is born; None for none.

        Raises:
            UsageError: The id is taken, or the module or its twin does not fit; the network is then as it was.
            RuntimeError: Weights of another module.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a module and all its factors.

        Raises:
            UsageError: There is none of that id, or it is the last one.
        """

    def exchange(
        self,
        name: str,
        genotype: ModuleGenotype,
        *,
        state: Mapping[str, Tensor] | None = None,
        places: Mapping[str, tuple[str, tuple[Map, ...]]] | None = None,
    ) -> None:
        """Give a module another genotype at its place; its id, its router weights and its statistics stay.

        Args:
            name: Id of the module.
            genotype: The new one, of the same width.
            state: Weights; drawn from the module's seed where they are left out, as for a checkpoint that follows.
            places: Where its numbers were before, for the moments of the optimiser: tensor -> former name, and former
                indices along each axis.

        Raises:
            UsageError: A kind of network whose modules are not edited in place.
        """
        raise UsageError(f"modules of {self.structure.plural} are not edited in place.")

    def edit_around(self, operation: str, settings: AroundSettings, seed: int) -> None:
        """Carry out an edit around the modules that ``Growable.changed_around`` admits; no output changes.

        Raises:
            UsageError: A kind of network that has none.
        """
        raise UsageError(f"{self.structure.plural} are not edited around their modules.")

    @abstractmethod
    def weights(self, name: str) -> dict[str, Tensor]:
        """The weights of a module under the names that the module of its genotype has; not copies."""

    @abstractmethod
    def probe(self, batches: Iterable[Batch], settings: FitnessSettings) -> ModuleProbe:
        """Measure all live modules on batches of the split ``architecture``; no random number is drawn."""

    @abstractmethod
    def unroll(self, inner: Batch, outer: Batch) -> Unroll:
        """Losses on a training batch and on one of the split ``architecture``, for meta-gradients (98)."""

    @abstractmethod
    def distil(
        self,
        name: str,
        batch_at: Callable[[int], TrainingBatch],
        steps: int,
        *,
        tolerance: float,
        batch_size: int,
        seed: int,
        precision: Precision,
    ) -> Distilled:
        """Train the other modules to replace one; arguments as for ``module_distillation.distil_module``."""

    def enter(self, entry: Entry) -> None:
        """Choose how newborns get their weight (``BirthSettings.entry``).

        Raises:
            UsageError: A kind of network that has no such gate.
        """
        if entry != "gate":
            raise UsageError(f"birth.entry is {entry!r}, but {self.structure.plural} have no gate to stand beside.")

    def inform(self, probe: ModuleProbe) -> None:  # noqa: B027
        """Take what a probe measured into account where the network routes by it; most kinds do not."""

    @property
    def replay_weight(self) -> float:
        """Weight of the loss on replayed samples, at least 0; 0 switches replay off."""
        return 1.0

    def calibrate(self, batch: Batch) -> LatencyTable:
        """Measure the table for ``Growable.seconds``.

        Args:
            batch: Batch of training samples, on the network's device.

        Raises:
            UsageError: Seconds of this kind of network are not measured.
        """
        raise UsageError(f"seconds of {self.structure.plural} are not measured for caps.latency; cap the flops.")


GROWABLES: Registry[type[Growable]] = table("network that grows", "evodevo.growables")
"""Kind of a network -> its growable structure."""
GROWABLES.add("module_zoo", "evodevo.growth.zoo.growable:GrowableZoo")
GROWABLES.add("h_model", "evodevo.growth.h_model.growable:GrowableHModel")
