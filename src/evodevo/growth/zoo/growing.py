"""A zoo of modules that grows while it trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from torch import Tensor

from evodevo.growth import gated, probes
from evodevo.growth.around.base import AROUND
from evodevo.growth.around.spec import AroundSettings
from evodevo.growth.growable import Growable, GrowingNetwork
from evodevo.growth.latency import LatencyTable
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.spec import Entry, FitnessSettings
from evodevo.growth.strategists.base import Unroll
from evodevo.growth.training.distillation_buffer import Distilled
from evodevo.growth.training.module_distillation import distil_module
from evodevo.growth.zoo.calibration import calibrate
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.nodes.inheritance import Map
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.networks.base import Batch
from evodevo.training.precision import Batch as TrainingBatch
from evodevo.training.precision import Precision
from evodevo.training.surgery import Origin, Origins


class GrowingZoo(GrowingNetwork):
    """The interface of growth on a zoo, which inserts and removes modules by itself.

    Args:
        zoo: Zoo, changed in place.
        kind: Row of zoos in ``GROWABLES``.
        moved: Called with the origins of parameters where a module was enlarged; see ``Growable.grown``.
    """

    def __init__(self, zoo: ModuleZoo, kind: type[Growable], moved: Callable[[Origins], None] = lambda _: None) -> None:
        self._zoo = zoo
        self._kind = kind
        self._moved = moved

    @property
    def network(self) -> ModuleZoo:
        """The zoo."""
        return self._zoo

    @property
    def structure(self) -> Growable:
        """See ``GrowingNetwork``."""
        return self._kind.of(self._zoo.structure)

    @property
    def live(self) -> tuple[str, ...]:
        """See ``ModuleZoo``."""
        return self._zoo.live

    @property
    def progress(self) -> float:
        """See ``ModuleZoo``."""
        return self._zoo.progress

    @property
    def births(self) -> dict[str, float]:
        """See ``ModuleZoo``."""
        return self._zoo.births

    @births.setter
    def births(self, factors: dict[str, float]) -> None:
        self._zoo.births = factors

    @property
    def newborn_rates(self) -> dict[str, float]:
        """See ``ModuleZoo``."""
        return self._zoo.newborn_rates

    @newborn_rates.setter
    def newborn_rates(self, rates: dict[str, float]) -> None:
        self._zoo.newborn_rates = rates

    def insert(
        self, module: ZooModule, *, state: Mapping[str, Tensor] | None = None, twin_of: str | None = None
    ) -> None:
        """See ``ModuleZoo``."""
        self._zoo.insert(module, state=state, twin_of=twin_of)

    def remove(self, name: str) -> None:
        """See ``ModuleZoo``."""
        self._zoo.remove(name)

    def exchange(
        self,
        name: str,
        genotype: ModuleGenotype,
        *,
        state: Mapping[str, Tensor] | None = None,
        places: Mapping[str, tuple[str, tuple[Map, ...]]] | None = None,
    ) -> None:
        """See ``GrowingNetwork``."""
        self._zoo.exchange(name, genotype, state=state)
        if places is None:
            return
        prefix = f"pool.parts.{name}."
        names = [parameter for parameter, _ in self._zoo.named_parameters()]
        origins = {parameter: Origin(parameter) for parameter in names if not parameter.startswith(prefix)}
        for tensor, (former, maps) in places.items():
            if prefix + tensor in names:
                axes = tuple(tuple(None if entry < 0 else entry for entry in axis) for axis in maps)
                origins[prefix + tensor] = Origin(prefix + former, axes=axes)
        self._moved(origins)

    def edit_around(self, operation: str, settings: AroundSettings, seed: int) -> None:
        """See ``GrowingNetwork``; new parameters begin without moments."""
        AROUND.get(operation)().apply(self._zoo, settings, seed)

    def weights(self, name: str) -> dict[str, Tensor]:
        """See ``GrowingNetwork``."""
        return dict(self._zoo.pool.parts[name].state_dict())

    def probe(self, batches: Iterable[Batch], settings: FitnessSettings) -> ModuleProbe:
        """See ``probes.probe``."""
        return probes.probe(self._zoo, batches, settings)

    def unroll(self, inner: Batch, outer: Batch) -> Unroll:
        """See ``gated.unroll``."""
        return gated.unroll(self._zoo, inner, outer)

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
        """See ``distil_module``."""
        return distil_module(
            self._zoo,
            name,
            batch_at,
            steps,
            tolerance=tolerance,
            batch_size=batch_size,
            seed=seed,
            precision=precision,
        )

    def enter(self, entry: Entry) -> None:
        """See ``GrowingNetwork``."""
        self._zoo.beside = entry == "beside"

    def inform(self, probe: ModuleProbe) -> None:
        """The impacts, as one half of the contribution that biases the router (10, 69)."""
        self._zoo.statistics.probed(probe.impact)

    @property
    def replay_weight(self) -> float:
        """The structure's ``losses.replay``."""
        return self._zoo.structure.losses.replay

    def calibrate(self, batch: Batch) -> LatencyTable:
        """See ``calibration.calibrate``."""
        return calibrate(self._zoo, batch)
