"""The cost of a vision path: exact parameters of each component, and the work of one forward pass at batch 1.

``multitask/paths/vision/model.py`` builds exactly these parameters; tests recount them, and the products.
"""

from __future__ import annotations

from evodevo.multitask.paths.cost import parameters_by_role, work_behind_embedding
from evodevo.multitask.paths.vision.spec import VisionStructure
from evodevo.operators.cost import Work


def role_parameters(structure: VisionStructure) -> dict[str, int]:
    """Role -> parameters of its component.

    Raises:
        UsageError: a block is a layer that does not exist at this width.
    """
    return parameters_by_role(structure, (structure.channels * structure.patch**2 + 1) * structure.width)


def path_parameters(structure: VisionStructure) -> int:
    """All of them."""
    return sum(role_parameters(structure).values())


def path_work(structure: VisionStructure) -> Work:
    """FLOPs of one sample, as this implementation computes them (a multiply-add counts two).

    Source: docs/spec/munet.md#score.
    """
    patches = 2 * (structure.tokens - 1) * structure.channels * structure.patch**2 * structure.width
    return Work(patches) + work_behind_embedding(structure)


def path_flops(structure: VisionStructure) -> int:
    """Products and the rest of ``path_work``."""
    return path_work(structure).total
