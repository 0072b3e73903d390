"""Vision paths at work: a transformer from components that were stored, copied, resized, inserted or made anew."""

from __future__ import annotations

from torch import Tensor, nn

from evodevo.errors import DataError
from evodevo.evaluation.path_kinds import BuiltPath, Places, Reader, images_of, read_at
from evodevo.evaluation.path_parts import load_state
from evodevo.evaluation.path_settings import ComponentSource, PathRequest
from evodevo.models.vision_path import VisionPath, build_component, component_from_state
from evodevo.models.vision_path_expansion import resize_positions
from evodevo.spaces.path import Path
from evodevo.spaces.vision_path import VisionStructure, structure_of
from evodevo.spaces.vision_path_cost import path_flops
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import SampleTask, Split
from evodevo.training.path_values import DataValues
from evodevo.training.precision import Precision


class BuiltVisionPath(BuiltPath):
    """See ``BuiltPath``.

    Args:
        structure: of the path.
        components: of it.
        precision: where it computes.
    """

    def __init__(self, structure: VisionStructure, components: dict[str, nn.Module], precision: Precision) -> None:
        self.model = VisionPath.assemble(structure, components).to(precision.device)
        self.components = self.model.components()
        self.flops = float(path_flops(structure))
        self._structure = structure
        self._precision = precision

    def reader(self, task: SampleTask, split: Split, values: DataValues, seed: int) -> Reader:
        def read(places: Places, step: int | None) -> Tensor:
            found = read_at({"": self._structure}, images_of(task, split, places), values, seed, step)
            return found[""].to(self._precision.device)

        return read


def build_vision_path(request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltVisionPath:
    """The path of a request.

    Raises:
        NotFoundError, StoreDamagedError: a component is gone or damaged.
        DataError: a component of another structure.
    """
    structure = structure_of(request.path)
    components = {
        role: component(structure, role, source, pool, request.seed) for role, source in request.components.items()
    }
    return BuiltVisionPath(structure, components, precision)


def component(structure: VisionStructure, role: str, source: ComponentSource, pool: BlobPool, seed: int) -> nn.Module:
    """One component, as its source says."""
    if source.digest is None:
        if source.how not in ("new", "insert", ""):
            raise DataError(f"the component for {role!r} shall be a {source.how!r}, and no weights are named.")
        return build_component(structure, role, seed, identity=source.how == "insert")
    state = load_state(pool, source.digest, role)
    return component_from_state(
        structure, role, resize_positions(state, structure.grid) if source.how == "resize" else state
    )


def frozen_vision_path(path: Path, digests: dict[str, str], pool: BlobPool, *, head: bool) -> VisionPath:
    """A published path, whole or without its head."""
    structure = structure_of(path)
    if not head:
        structure = structure.changed(classes=0)
    parts = {
        role: component_from_state(structure, role, load_state(pool, digests[role], role))
        for role in structure.roles
        if role in digests
    }
    return VisionPath.assemble(structure, parts).eval()
