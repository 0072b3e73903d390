"""The core of a structure's stream."""

from __future__ import annotations

from evodevo.h_model.carried.core import CarriedCore
from evodevo.h_model.core import HCore
from evodevo.h_model.spec import HModelStructure

_CORES: dict[str, type[HCore]] = {"paper": HCore, "carried": CarriedCore}


def build_core(structure: HModelStructure, inputs: int, outputs: int) -> HCore:
    """The core of ``structure.stream``; arguments as for ``HCore``."""
    return _CORES[structure.stream](structure, inputs, outputs)
