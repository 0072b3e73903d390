"""The networks that can grow: a zoo of modules, or an H-Model whose hidden layers are a pool.

Source: docs/spec/h_model.md#adding-and-removing-layers.

The driver, the editor and the procedure use both through what they have in common: ``structure`` (``live``,
``modules``, ``width``), ``live``, ``births``, ``newborn_rates``, ``progress``, ``insert`` and ``remove``. This file
holds what differs between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import Tensor

from evodevo.growth import gated, probes
from evodevo.growth.h_model import probing, teaching, unrolling
from evodevo.growth.h_model.grown import GrownHModel
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.spec import FitnessSettings
from evodevo.growth.strategists.base import Unroll
from evodevo.growth.training.distillation_buffer import Distilled
from evodevo.growth.training.module_distillation import distil_module
from evodevo.h_model.model import HModel
from evodevo.module_zoo.model import ModuleZoo
from evodevo.networks.base import Batch, Network
from evodevo.training.precision import Batch as TrainingBatch
from evodevo.training.precision import Precision
from evodevo.training.surgery import Origins

Grown = ModuleZoo | GrownHModel


def grown_of(network: Network, moved: Callable[[Origins], None]) -> Grown:
    """The growing form of a network.

    Args:
        network: A zoo, or an H-Model.
        moved: Called with the origins of parameters when names or rows of an H-Model move; those of a zoo never do.

    Raises:
        UsageError: An H-Model that cannot grow.
    """
    if isinstance(network, HModel):
        return GrownHModel(network, moved)
    assert isinstance(network, ModuleZoo), "checked by grow_settings.pool_to_grow"
    return network


def network_of(grown: Grown) -> Network:
    """The network that is trained."""
    return grown.model if isinstance(grown, GrownHModel) else grown


def probe(grown: Grown, batches: Iterable[Batch], settings: FitnessSettings) -> ModuleProbe:
    """See ``probes.probe`` and ``growth.h_model.probing.probe``."""
    if isinstance(grown, GrownHModel):
        return probing.probe(grown, batches, settings)
    return probes.probe(grown, batches, settings)


def unroll(grown: Grown, inner: Batch, outer: Batch) -> Unroll:
    """See ``gated.unroll``."""
    if isinstance(grown, GrownHModel):
        return unrolling.unroll(grown, inner, outer)
    return gated.unroll(grown, inner, outer)


def weights(grown: Grown, name: str) -> dict[str, Tensor]:
    """Weights of a module, by their names in it; not copies."""
    if isinstance(grown, GrownHModel):
        return grown.weights(name)
    return dict(grown.pool.parts[name].state_dict())


def teach(
    grown: Grown,
    name: str,
    batch_at: Callable[[int], TrainingBatch],
    steps: int,
    *,
    tolerance: float,
    batch_size: int,
    seed: int,
    precision: Precision,
) -> Distilled:
    """Distil a module into the others; arguments as for ``distil_module`` and ``distil_layer``."""
    if isinstance(grown, GrownHModel):
        return teaching.distil_layer(
            grown,
            name,
            batch_at,
            steps,
            tolerance=tolerance,
            batch_size=batch_size,
            seed=seed,
            precision=precision,
        )
    return distil_module(
        grown, name, batch_at, steps, tolerance=tolerance, batch_size=batch_size, seed=seed, precision=precision
    )
