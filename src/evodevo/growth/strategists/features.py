"""Features of a state, of similar size, as input of a policy.

Legend: N modules.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evodevo.growth.strategists.state import VALUES, ModuleState, State
from evodevo.module_zoo.modules.vector import VECTOR_SIZE

MODULE_SIZE = VECTOR_SIZE + 14
GLOBAL_SIZE = 5 + VALUES + (VALUES - 1)


def module_features(state: State) -> Tensor:
    """(N, ``MODULE_SIZE``): each module, its best and its mean complementarity."""
    rows = []
    for place, module in enumerate(state.modules):
        partners = (
            [value for other, value in enumerate(state.complementarity[place]) if other != place]
            if (state.complementarity)
            else []
        )
        rows.append([*_own(module), max(partners, default=0.0), sum(partners) / max(len(partners), 1)])
    return torch.tensor(rows, dtype=torch.float32).reshape(len(rows), MODULE_SIZE)


def global_features(state: State) -> Tensor:
    """(``GLOBAL_SIZE``,): network and training; older values first, 0 where there are none."""
    values, slopes = state.values[-VALUES:], state.slopes
    return torch.tensor(
        [
            len(state.modules) / state.most,
            state.budget,
            state.progress,
            math.asinh(state.diversity),
            len(values) / VALUES,
            *[0.0] * (VALUES - len(values)),
            *[math.asinh(value) for value in values],
            *[0.0] * (VALUES - 1 - len(slopes)),
            # Validation moves by hundredths.
            *[math.asinh(100 * slope) for slope in slopes],
        ],
        dtype=torch.float32,
    )


def _own(module: ModuleState) -> list[float]:
    return [
        *module.vector,
        math.log1p(module.parameters) / 20,
        math.log1p(module.flops) / 25,
        math.log1p(module.age) / 3,
        *[
            math.asinh(value)
            for value in (
                module.usage,
                module.impact,
                module.contribution,
                module.fitness,
                module.spread,
                module.redundancy,
            )
        ],
        module.dropout,
        float(module.warming),
        float(module.candidate),
    ]
