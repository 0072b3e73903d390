"""The cost of a text path: exact parameters of each component, and the work of one forward pass at batch 1.

A text that fills the path's length counts: shorter ones are padded.
"""

from __future__ import annotations

from evodevo.multitask.paths.cost import parameters_by_role, work_behind_embedding
from evodevo.multitask.paths.text.spec import TextStructure
from evodevo.operators.cost import Work


def role_parameters(structure: TextStructure) -> dict[str, int]:
    """Role -> parameters of its component.

    Raises:
        UsageError: a block is a layer that does not exist at this width.
    """
    return parameters_by_role(structure, structure.vocabulary * structure.width)


def path_work(structure: TextStructure) -> Work:
    """FLOPs of one sample, as this implementation computes them; looking a token up is no arithmetic."""
    return work_behind_embedding(structure)
