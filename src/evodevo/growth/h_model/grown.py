"""An H-Model whose hidden layers are added and removed by their ids, as modules of a zoo are.

Source: docs/spec/h_model.md#adding-and-removing-layers.

Connections to a newborn are as strong as those to its parent, or as those to the other layers on average; its own are
as strong as its parent's. Its birth factor removes the effect of all of them at first (``h_model/births.py``).

Legend: H hidden layers, d width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from evodevo.errors import UsageError, unknown_name
from evodevo.growth.h_model.pool import OPAQUE, HModelPool, pool_of
from evodevo.growth.h_model.routes import address_alike
from evodevo.h_model.model import HModel
from evodevo.module_zoo.modules.build import build_module, part_name
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.randomness import integer_seed
from evodevo.training.surgery import Origins


class GrownHModel:
    """An H-Model with the interface that ``growth.driver`` uses.

    Args:
        model: H-Model, changed in place. Ids of layers that are no modules follow their present indices.
        moved: Called after each change with the origins of parameters, so that an optimiser's state can follow.

    Attributes:
        model: H-Model as given.
        births, newborn_rates: Same as in ``ModuleZoo``, by id.

    Raises:
        UsageError: The model has a window, or two layers of one id.
    """

    def __init__(self, model: HModel, moved: Callable[[Origins], None] | None = None) -> None:
        self.model = model
        self._moved = moved
        self._pool = pool_of(model.structure)
        self._births: dict[str, float] = {}
        self._rates: dict[str, float] = {}

    @property
    def structure(self) -> HModelPool:
        """The hidden layers with their ids."""
        return self._pool

    @property
    def live(self) -> tuple[str, ...]:
        """Ids of the enabled layers, in order."""
        return tuple(module.id for module in self._pool.live)

    @property
    def progress(self) -> float:
        """See ``HModel``."""
        return self.model.progress

    @property
    def births(self) -> dict[str, float]:
        """Birth factor by id of a newborn. Assign a whole dictionary; changes in place count at the next ``insert``."""
        return self._births

    @births.setter
    def births(self, factors: dict[str, float]) -> None:
        self._births = factors
        self._tell()

    @property
    def newborn_rates(self) -> dict[str, float]:
        """Factor of the learning rate by id. Assign a whole dictionary; changes in place count at the next insert."""
        return self._rates

    @newborn_rates.setter
    def newborn_rates(self, rates: dict[str, float]) -> None:
        self._rates = rates
        self._tell()

    def place(self, name: str) -> int:
        """The present index of a layer.

        Raises:
            UsageError: There is none of that id.
        """
        ids = [module.id for module in self._pool.modules]
        if name not in ids:
            raise unknown_name("module", name, ids)
        return ids.index(name)

    def weights(self, name: str) -> dict[str, Tensor]:
        """The weights of a layer under the names that the module of its genotype has; not copies."""
        module = self._pool.modules[self.place(name)]
        state = self.model.core.layers[self.place(name)].state_dict()
        if module.genotype.archetype == OPAQUE:
            return {f"parts.{part_name(OPAQUE)}.{key}": value for key, value in state.items()}
        return state

    def insert(
        self, module: ZooModule, *, state: Mapping[str, Tensor] | None = None, twin_of: str | None = None
    ) -> None:
        """Insert a module as the last hidden layer; see ``ModuleZoo.insert``.

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
        like = next((self.place(parent) for parent in module.parents if parent in self.live), None)
        seed = integer_seed(module.seed, "router")
        change = self.model.add_node(GenotypeLayer(module=module), enabled=True, seed=seed)
        try:
            self.model.core.layers[change.place].load_state_dict(weights)
        except RuntimeError:
            self.model.remove_node(change.place)
            raise
        address_alike(self.model.core, change.place, like)
        self._pool = self._pool.model_copy(
            update={"model": self.model.structure, "modules": (*self._pool.modules, module)}
        )
        self._changed(change.origins)

    def remove(self, name: str) -> None:
        """Remove a layer and all its factors.

        Raises:
            UsageError: There is none of that id, or it is the last enabled one.
        """
        place = self.place(name)
        if set(self.live) <= {name}:
            raise UsageError(f"{name!r} is the last enabled hidden layer; an H-Model that grows needs one.")
        change = self.model.remove_node(place)
        self._births.pop(name, None)
        self._rates.pop(name, None)
        self._pool = self._pool.model_copy(
            update={
                "model": self.model.structure,
                "modules": tuple(module for module in self._pool.modules if module.id != name),
                "disabled": tuple(other for other in self._pool.disabled if other != name),
            }
        )
        self._changed(change.origins)

    def state_dict(self) -> dict[str, Tensor]:
        """State of the whole model."""
        return self.model.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load the state of the whole model, as ``state_dict`` returns it."""
        self.model.load_state_dict(dict(state))

    # Within

    def _changed(self, origins: Origins) -> None:
        self._tell()
        if self._moved is not None:
            self._moved(origins)

    def _tell(self) -> None:
        """Pass the factors on by index, for layers that exist and have trainable parameters."""
        places = {module.id: place for place, module in enumerate(self._pool.modules)}
        self.model.births = {places[name]: factor for name, factor in self._births.items() if name in places}
        learning = {name for name, place in places.items() if any(map(_learns, self._parameters(place)))}
        self.model.newborn_rates = {places[name]: rate for name, rate in self._rates.items() if name in learning}

    def _parameters(self, place: int) -> list[torch.nn.Parameter]:
        return list(self.model.core.layers[place].parameters())


def _learns(parameter: torch.nn.Parameter) -> bool:
    return parameter.requires_grad
