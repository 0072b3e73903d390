"""Pools of genotypes: their modules named, and how alike two pools are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.module_zoo.modules.vector import genotype_distance


def named(modules: Sequence[ModuleGenotype]) -> tuple[ZooModule, ...]:
    """The modules with ids, and with a seed of its own for each, so that equal genotypes get different weights."""
    counts: Counter[str] = Counter()
    named = []
    for seed, module in enumerate(modules):
        counts[module.archetype] += 1
        named.append(ZooModule(id=f"{module.archetype}-{counts[module.archetype]}", genotype=module, seed=seed))
    return tuple(named)


def matched(left: Sequence[ModuleGenotype], right: Sequence[ModuleGenotype]) -> float:
    """The sum over pairs of half their distance, in the pairing where it is lowest."""
    from scipy.optimize import linear_sum_assignment

    apart = np.array([[genotype_distance(candidate, other) / 2 for other in right] for candidate in left])
    rows, columns = linear_sum_assignment(apart)
    return math.fsum(apart[rows, columns].clip(0, 1).tolist())
