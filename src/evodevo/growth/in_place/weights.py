"""The weights of a module that was enlarged at its place, and where each number was before.

Source: docs/spec/architect_thyself.md#inheritance.

All follows from the edit: its seed, both genotypes, its settings and the weights before, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from evodevo.errors import DataError, EvodevoError
from evodevo.growth.edit_spec import Edit, TensorSource
from evodevo.growth.in_place.base import EDITS, InPlaceEdit
from evodevo.growth.in_place.spec import InPlaceSettings
from evodevo.growth.spec import BirthSettings
from evodevo.growth.zoo.birth import ModuleParent, Origin, former_places, inherit
from evodevo.module_zoo.modules.build import build_module
from evodevo.module_zoo.modules.nodes.inheritance import Map
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.operators.base import Operator
from evodevo.randomness import integer_seed
from evodevo.training.parts import part_digest

LIKENESS = 1e-5
"""Largest difference of an answer, as a share of the largest one."""
SHAPE = (4, 7)
"""Samples and positions of the input on which answers are compared."""
EXACT = BirthSettings()


@dataclass(frozen=True)
class Enlarged:
    """A module after an edit in place.

    Attributes:
        state: Its weights, on the CPU.
        tensors: Where each tensor is from.
        places: Tensor -> its name before, and for each axis the former indices; tensors without a number of before are
            left out.
    """

    state: dict[str, Tensor]
    tensors: tuple[TensorSource, ...]
    places: dict[str, tuple[str, tuple[Map, ...]]]


def enlarge(
    row: InPlaceEdit, name: str, before: ModuleParent, after: ModuleGenotype, settings: InPlaceSettings, seed: int
) -> Enlarged:
    """Fill the larger module with the weights of the smaller one.

    Args:
        row: The edit.
        name: Id of the module.
        before: Its genotype and weights, and the digest of their blob.
        after: Its genotype afterwards.
        settings: What new units begin as.
        seed: Seed of the edit, from which all is drawn that is new.
    """
    # In the precision of the network: double precision would be lost in modules as they are built.
    numbers = next((value.dtype for value in before.state.values() if value.is_floating_point()), torch.float32)
    child = build_module(after, seed).to(numbers)
    origins: dict[str, Origin] = {new: (name, old) for new, old in row.nodes(after, before.genotype).items()}
    noise = settings.noise if settings.units == "twins" else None
    tensors = inherit(child, after, {name: before}, EXACT, origins, seed, twins=noise)
    places = former_places(child, after, {name: before}, EXACT, origins)
    return Enlarged({key: value.clone() for key, value in child.state_dict().items()}, tensors, places)


@torch.no_grad()
def answers_alike(before: ModuleParent, after: ModuleGenotype, state: Mapping[str, Tensor], seed: int) -> bool:
    """Whether the enlarged module answers as the one before did, without dropout."""
    source = torch.Generator().manual_seed(integer_seed(seed, "alike"))
    x = torch.randn((*SHAPE, after.width), generator=source, dtype=torch.float64)
    wanted, output = (
        _loaded(genotype, weights)(x).y for genotype, weights in ((before.genotype, before.state), (after, state))
    )
    return bool((output - wanted).abs().max() <= LIKENESS * wanted.abs().max())


def _loaded(genotype: ModuleGenotype, state: Mapping[str, Tensor]) -> Operator:
    module = build_module(genotype, 0).double()
    module.load_state_dict(dict(state))
    return module.eval()


def rebuilt(edit: Edit, before: ModuleParent) -> dict[str, Tensor]:
    """The weights right after an edit in place, bit for bit, from its record and the weights before.

    Raises:
        DataError: The record does not fit to the weights that it names.
    """
    assert edit.after is not None
    assert edit.module is not None
    try:
        if edit.in_place is None or edit.weights is None:
            raise DataError("the record of an edit in place is incomplete.")
        row = EDITS.get(edit.action.operation)()
        _loaded(before.genotype, before.state)  # exactly its tensors, or an error
        made = enlarge(row, edit.module, before, edit.after, edit.in_place, edit.seed)
    except EvodevoError:
        raise
    except (LookupError, RuntimeError, ValueError) as error:
        words = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise DataError(f"the record of an edit in place does not fit to the weights that it names: {words}") from None
    if made.tensors != edit.tensors or part_digest(made.state) != edit.weights:
        raise DataError(
            f"the record of event {edit.event} does not lead to the weights that {edit.module} had after it; was it "
            "edited?"
        )
    return made.state
