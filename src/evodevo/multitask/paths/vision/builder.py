"""Vision paths put together; see ``paths.builder``. Samples are read as in ``paths.images``."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from evodevo.errors import DataError, UsageError
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.paths.builder import ComponentBuilder, Components, Read, State
from evodevo.multitask.paths.images import read_samples
from evodevo.multitask.paths.vision.expansion import resize_positions
from evodevo.multitask.paths.vision.model import VisionPath
from evodevo.multitask.paths.vision.roots import read_root
from evodevo.multitask.paths.vision.spec import VisionStructure, path_flops


class VisionBuilder(ComponentBuilder[VisionStructure]):
    """See ``ComponentBuilder``."""

    path = VisionPath

    def resize(self, structure: VisionStructure, role: str, state: State, seed: int) -> dict[str, Tensor]:
        return resize_positions(state, structure.grid)

    def flops(self, structure: VisionStructure) -> float:
        return float(path_flops(structure))

    def read(self, structure: VisionStructure, components: Components) -> Read:
        return partial(read_samples, structure)

    def reads(self, structure: VisionStructure, components: Components) -> str:
        return f"{structure.image_size} x {structure.channels}"

    def root_of(self, structure: VisionStructure, request: PathRequest) -> dict[str, nn.Module]:
        if request.checkpoint is None:
            raise UsageError("a root from a checkpoint names its folder.")
        checkpoint = read_root(request.checkpoint, image_size=structure.image_size)
        for role in structure.roles:
            if role not in checkpoint.components or checkpoint.structure.signature(role) != structure.signature(role):
                raise DataError(
                    f"the checkpoint {request.checkpoint} does not fit the root {request.path.id}: its {role!r} is of"
                    " another shape. Give the root the checkpoint's structure."
                )
        if checkpoint.structure.layers != structure.layers:
            raise DataError(
                f"the checkpoint {request.checkpoint} has {checkpoint.structure.layers} layers, and the root"
                f" {request.path.id} has {structure.layers}."
            )
        return {role: checkpoint.components[role] for role in structure.roles}


BUILDER = VisionBuilder()
