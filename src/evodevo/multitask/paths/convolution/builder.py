"""Convolutional paths put together; see ``paths.builder``."""

from __future__ import annotations

from functools import partial

from safetensors import safe_open
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.paths.builder import ComponentBuilder, Components, Read, State
from evodevo.multitask.paths.convolution.model import ConvolutionPath, components_from, resize_block
from evodevo.multitask.paths.convolution.spec import ConvolutionStructure, path_work
from evodevo.multitask.paths.images import read_samples
from evodevo.multitask.roots.files import root_file


class ConvolutionBuilder(ComponentBuilder[ConvolutionStructure]):
    """See ``ComponentBuilder``."""

    path = ConvolutionPath

    def resize(self, structure: ConvolutionStructure, role: str, state: State, seed: int) -> dict[str, Tensor]:
        return resize_block(structure, role, state, seed)

    def flops(self, structure: ConvolutionStructure) -> float:
        return float(path_work(structure).total)

    def read(self, structure: ConvolutionStructure, components: Components) -> Read:
        return partial(read_samples, structure)

    def reads(self, structure: ConvolutionStructure, components: Components) -> str:
        return f"{structure.image_size} x {structure.channels}"

    def root_of(self, structure: ConvolutionStructure, request: PathRequest) -> dict[str, nn.Module]:
        file = root_file(request.checkpoint or "")
        if file is None:
            raise UsageError(f"a root of a convolutional path is no folder; {request.checkpoint} was given.")
        with safe_open(file, framework="pt") as opened:
            return components_from(structure, {name: opened.get_tensor(name) for name in sorted(opened.keys())})


BUILDER = ConvolutionBuilder()
