"""An H-Model whose hidden layers are added and removed by their ids, as modules of a zoo are.

Source: docs/spec/h_model.md#adding-and-removing-layers.

A newborn is addressed as its parent is, or as the others are (``addressing.py``). Its birth factor removes the effect
of that at first (``h_model/births.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from torch import Tensor

from evodevo.errors import UsageError
from evodevo.growth.growable import OPAQUE, Growable, GrowingNetwork
from evodevo.growth.h_model import probing, unrolling
from evodevo.growth.h_model.addressing import address_alike
from evodevo.growth.h_model.teaching import distil_layer
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.spec import FitnessSettings
from evodevo.growth.strategists.base import Unroll
from evodevo.growth.training.distillation_buffer import Distilled
from evodevo.h_model.model import HModel
from evodevo.module_zoo.modules.build import build_module, part_name
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.networks.base import Batch
from evodevo.randomness import integer_seed
from evodevo.training.precision import Batch as TrainingBatch
from evodevo.training.precision import Precision
from evodevo.training.surgery import Origins


class GrowingHModel(GrowingNetwork):
    """The interface of growth on an H-Model.

    Args:
        model: H-Model, changed in place.
        pool: Its layers as modules. Ids of layers that are no modules follow their indices before it grows.
        moved: Called after each change with the origins of parameters, so that an optimiser's state can follow.

    Attributes:
        model: H-Model as given.
    """

    def __init__(self, model: HModel, pool: Growable, moved: Callable[[Origins], None]) -> None:
        self.model = model
        self._moved = moved
        self._pool = pool
        self._births: dict[str, float] = {}
        self._rates: dict[str, float] = {}

    @property
    def network(self) -> HModel:
        """The H-Model."""
        return self.model

    @property
    def structure(self) -> Growable:
        """The hidden layers with their ids."""
        return self._pool

    @property
    def live(self) -> tuple[str, ...]:
        """Ids of the enabled layers, in order."""
        return tuple(self._pool.places)

    @property
    def progress(self) -> float:
        """See ``HModel``."""
        return self.model.progress

    @property
    def births(self) -> dict[str, float]:
        """See ``GrowingNetwork``."""
        return self._births

    @births.setter
    def births(self, factors: dict[str, float]) -> None:
        self._births = factors
        self._apply_factors()

    @property
    def newborn_rates(self) -> dict[str, float]:
        """See ``GrowingNetwork``."""
        return self._rates

    @newborn_rates.setter
    def newborn_rates(self, rates: dict[str, float]) -> None:
        self._rates = rates
        self._apply_factors()

    def weights(self, name: str) -> dict[str, Tensor]:
        """The weights of a layer under the names that the module of its genotype has; not copies."""
        module = self._pool.modules[self._pool.place(name)]
        state = self.model.core.layers[self._pool.place(name)].state_dict()
        if module.genotype.archetype == OPAQUE:
            return {f"parts.{part_name(OPAQUE)}.{key}": value for key, value in state.items()}
        return state

    def insert(
        self, module: ZooModule, *, state: Mapping[str, Tensor] | None = None, twin_of: str | None = None
    ) -> None:
        """Insert a module as the last hidden layer; see ``GrowingNetwork``.

        Args:
            module: Module of the width of this model.
            state: First weights; drawn from the module's seed where it is left out.
            twin_of: Not possible here; must be None.

        Raises:
            UsageError: The id is taken, the module does not fit, or it has a twin; the model is then as it was.
            RuntimeError: Weights of another module.
        """
        if twin_of is not None:
            raise UsageError(
                "connections of an H-Model do not add up to one: a child cannot share its parent's weight. Set "
                "birth.inheritance to function_preserving, soft or copy_noise."
            )
        if module.id in (old.id for old in self._pool.modules):
            raise UsageError(f"there is a module {module.id!r} already; ids are for ever, take another.")
        weights = dict(build_module(module.genotype, module.seed).state_dict() if state is None else state)
        like = next((self._pool.place(parent) for parent in module.parents if parent in self.live), None)
        seed = integer_seed(module.seed, "router")
        change = self.model.add_node(GenotypeLayer(module=module), enabled=True, seed=seed)
        try:
            self.model.core.layers[change.place].load_state_dict(weights)
        except RuntimeError:
            self.model.remove_node(change.place)
            raise
        address_alike(self.model.core, change.place, like, seed)
        self._changed((*self._pool.modules, module), change.origins)

    def remove(self, name: str) -> None:
        """Remove a layer and all its factors.

        Raises:
            UsageError: There is none of that id, or it is the last enabled one.
        """
        place = self._pool.place(name)
        if set(self.live) <= {name}:
            raise UsageError(f"{name!r} is the last enabled hidden layer; an H-Model that grows needs one.")
        change = self.model.remove_node(place)
        self._births.pop(name, None)
        self._rates.pop(name, None)
        self._changed(tuple(module for module in self._pool.modules if module.id != name), change.origins)

    def probe(self, batches: Iterable[Batch], settings: FitnessSettings) -> ModuleProbe:
        """See ``probing.probe``."""
        return probing.probe(self.model, self._pool, batches, settings)

    def unroll(self, inner: Batch, outer: Batch) -> Unroll:
        """See ``unrolling.unroll``."""
        return unrolling.unroll(self.model, self._pool.places, inner, outer)

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
        """See ``distil_layer``."""
        return distil_layer(
            self.model,
            self._pool,
            name,
            batch_at,
            steps,
            tolerance=tolerance,
            batch_size=batch_size,
            seed=seed,
            precision=precision,
        )

    # Within

    def _changed(self, modules: tuple[ZooModule, ...], origins: Origins) -> None:
        self._pool = self._pool.with_modules(modules).model_copy(update={"model": self.model.structure})
        self._apply_factors()
        self._moved(origins)

    def _apply_factors(self) -> None:
        """Pass the factors on by index, for layers that exist and have trainable parameters."""
        places = {module.id: place for place, module in enumerate(self._pool.modules)}
        self.model.births = {places[name]: factor for name, factor in self._births.items() if name in places}
        learning = {
            name
            for name, place in places.items()
            if any(parameter.requires_grad for parameter in self.model.core.layers[place].parameters())
        }
        self.model.newborn_rates = {places[name]: rate for name, rate in self._rates.items() if name in learning}
