"""The class of generated files for an H-Model as a layer of another network (``h_model.nested``)."""

from __future__ import annotations

import torch

from evodevo.h_model.cores import build_core
from evodevo.h_model.source.core import core_source
from evodevo.h_model.spec import HModelStructure
from evodevo.operators.source.sheet import Fragment, SourceSheet

NESTED = Fragment(
    "InnerHModel",
    '''
class InnerHModel(nn.Module):
    """An H-Model of one input and one output as a layer."""

    def __init__(self, core):
        super().__init__()
        self.core = core

    def forward(self, x, mask):
        *_, (y, _) = self.core(x.unsqueeze(1), None if mask is None else mask.unsqueeze(1))
        return y[:, 0]
''',
)


def nested_source(sheet: SourceSheet, structure: HModelStructure) -> str:
    """The expression of an inner H-Model."""
    with torch.random.fork_rng(devices=[]):
        core = build_core(structure, 1, 1).eval()
    name = core_source(sheet, core, structure.iterations, "InnerCore")
    return f"{sheet.add(NESTED)}({name}())"
