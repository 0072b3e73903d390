"""An H-Model whose hidden layers come and go by their ids, as modules of a zoo do.

Source: docs/spec/h_model.md#adding-and-removing-layers.

A newborn is addressed as loudly as its parent is, or as the other layers are on average, and addresses others as its
parent does; its birth factor keeps all of that unheard at first (``h_model/births.py``).

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
    """An H-Model, seen as what ``growth.driver`` grows.

    Args:
        model: changed in place. Ids of layers that are no modules come from where they stand now.
        moved: told after each change where parameters come from, so that an optimiser's state follows.

    Attributes:
        model: as given.
        births, newborn_rates: as those of ``ModuleZoo``, by id.

    Raises:
        UsageError: the model has a window, or two layers of one id.
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
        """Ids of the layers that are heard, in order."""
        return tuple(one.id for one in self._pool.live)

    @property
    def progress(self) -> float:
        """See ``HModel``."""
        return self.model.progress

    @property
    def births(self) -> dict[str, float]:
        """Id of a newborn -> its birth factor. Give it whole, or let ``insert`` see a change in place."""
        return self._births

    @births.setter
    def births(self, factors: dict[str, float]) -> None:
        self._births = factors
        self._tell()

    @property
    def newborn_rates(self) -> dict[str, float]:
        """Id -> factor of its learning rate. Give it whole, or let ``insert`` see a change in place."""
        return self._rates

    @newborn_rates.setter
    def newborn_rates(self, rates: dict[str, float]) -> None:
        self._rates = rates
        self._tell()

    def place(self, name: str) -> int:
        """Where a layer stands now.

        Raises:
            UsageError: there is none of that id.
        """
        ids = [one.id for one in self._pool.modules]
        if name not in ids:
            raise unknown_name("module", name, ids)
        return ids.index(name)

    def weights(self, name: str) -> dict[str, Tensor]:
        """The weights of a layer under the names that the module of its genotype gives them; not copies."""
        module = self._pool.modules[self.place(name)]
        state = self.model.core.layers[self.place(name)].state_dict()
        if module.genotype.archetype == OPAQUE:
            return {f"parts.{part_name(OPAQUE)}.{key}": value for key, value in state.items()}
        return state

    def insert(
        self, module: ZooModule, *, state: Mapping[str, Tensor] | None = None, twin_of: str | None = None
    ) -> None:
        """Let a module in as the last hidden layer; see ``ModuleZoo.insert``.

        Args:
            module: for the width of this model.
            state: weights that it begins with; fresh ones of its seed where it is left out.
            twin_of: not possible here.

        Raises:
            UsageError: the id is taken, the module does not fit, or it has a twin; the model is then as it was.
            RuntimeError: weights of another module.
        """
        if twin_of is not None:
            raise UsageError(
                "connections of an H-Model do not add up to one: a child cannot share its parent's weight. Set "
                "birth.inheritance to function_preserving, soft or copy_noise."
            )
        if module.id in (one.id for one in self._pool.modules):
            raise UsageError(f"there is a module {module.id!r} already; ids are for ever, take another.")
        weights = dict(build_module(module.genotype, module.seed).state_dict() if state is None else state)
        like = next((self.place(one) for one in module.parents if one in self.live), None)
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
        """Let a layer go, and forget all about it.

        Raises:
            UsageError: there is none of that id, or nobody would be left.
        """
        place = self.place(name)
        if set(self.live) <= {name}:
            raise UsageError(f"{name!r} is the last hidden layer that is heard; an H-Model that grows needs one.")
        change = self.model.remove_node(place)
        self._births.pop(name, None)
        self._rates.pop(name, None)
        self._pool = self._pool.model_copy(
            update={
                "model": self.model.structure,
                "modules": tuple(one for one in self._pool.modules if one.id != name),
                "disabled": tuple(one for one in self._pool.disabled if one != name),
            }
        )
        self._changed(change.origins)

    def state_dict(self) -> dict[str, Tensor]:
        """Of the whole model."""
        return self.model.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Of the whole model, as ``state_dict`` gives it."""
        self.model.load_state_dict(dict(state))

    # Within

    def _changed(self, origins: Origins) -> None:
        self._tell()
        if self._moved is not None:
            self._moved(origins)

    def _tell(self) -> None:
        """Factors by place; of layers that are there, and have something to learn."""
        places = {one.id: place for place, one in enumerate(self._pool.modules)}
        self.model.births = {places[one]: factor for one, factor in self._births.items() if one in places}
        learning = {name for name, place in places.items() if any(map(_learns, self._parameters(place)))}
        self.model.newborn_rates = {places[one]: rate for one, rate in self._rates.items() if one in learning}

    def _parameters(self, place: int) -> list[torch.nn.Parameter]:
        return list(self.model.core.layers[place].parameters())


def _learns(parameter: torch.nn.Parameter) -> bool:
    return parameter.requires_grad
