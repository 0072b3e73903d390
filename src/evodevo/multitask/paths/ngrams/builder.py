"""Paths over n-grams put together; see ``paths.builder``."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from evodevo.multitask.paths.builder import ComponentBuilder, Components, Read, State
from evodevo.multitask.paths.mlp.model import resize_block
from evodevo.multitask.paths.ngrams.model import NgramPath
from evodevo.multitask.paths.ngrams.spec import NgramStructure, work_of
from evodevo.multitask.paths.text.reading import byte_texts


class NgramBuilder(ComponentBuilder[NgramStructure]):
    """See ``ComponentBuilder``."""

    path = NgramPath

    def resize(self, structure: NgramStructure, role: str, state: State, seed: int) -> dict[str, Tensor]:
        return resize_block(structure.behind, role, state, seed)

    def flops(self, structure: NgramStructure) -> float:
        return float(work_of(structure).total)

    def read(self, structure: NgramStructure, components: Components) -> Read:
        return partial(byte_texts, structure.length)

    def reads(self, structure: NgramStructure, components: Components) -> str:
        return f"{structure.length} bytes"


BUILDER = NgramBuilder()
