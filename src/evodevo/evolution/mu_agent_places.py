"""The places of the two kinds of paths, as plans of children want them: roles in order, and what fits there.

Floor 1 knows the kinds (``spaces/vision_path.py``, ``spaces/multipath.py``); here they become the plain words of
``mu_agent_components``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evodevo import canonical
from evodevo.evolution.mu_agent_child import Needs
from evodevo.evolution.mu_agent_components import Place
from evodevo.spaces.multipath import MultipathStructure, multipath_shapes
from evodevo.spaces.path import Path, SubPath, Value
from evodevo.spaces.path_hyperparameters import ADAPTER_WIDTH
from evodevo.spaces.vision_path import ADAPTER, HYPERPARAMETERS, VisionStructure, structure_of


def vision_places(path: Path) -> tuple[Place, ...]:
    """A vision path's places, filled with its components.

    Raises:
        UsageError: it is no vision path.
    """
    return _places(structure_of(path), path)


def vision_child(
    parent: Path, classes: int, values: Mapping[str, Value], adapters: frozenset[int] | Sequence[int] = ()
) -> VisionStructure:
    """The structure of a child: the parent's, with what the child's values say.

    Args:
        parent: a vision path.
        classes: of the child's task.
        values: its hyperparameters. ``adapter_dim``, where there is one, is the width of all its adapters.
        adapters: numbers of the blocks that have a residual adapter before them.

    Raises:
        UsageError: the values do not fit.
    """
    before = structure_of(parent)
    said = {field: values[key] for key, field in HYPERPARAMETERS.items() if key in values}
    roles = [f"{ADAPTER}{number}" for number in sorted(adapters)]
    widths = {role: values.get(ADAPTER_WIDTH, before.adapters.get(role)) for role in roles}
    return before.changed(**said, classes=classes, adapters=widths)


def vision_needs(parent: Path, classes: int) -> Needs:
    """What children of a vision path need, by their values.

    Args:
        parent: the path.
        classes: of the children's task.
    """

    def needs(values: Mapping[str, Value], adapters: frozenset[int]) -> Sequence[Place]:
        return _places(vision_child(parent, classes, values, adapters))

    return needs


def multipath_places(path: Path, structure: MultipathStructure, widths: Sequence[int]) -> tuple[Place, ...]:
    """A multipath path's router and connectors, filled with its components.

    Args:
        path: the path.
        structure: how its paths are joined.
        widths: of what each support represents.
    """
    ids = {one.role: one.id for one in path.components}
    return tuple(Place(one.role, one.signature, ids.get(one.role)) for one in _joints(structure, path.classes, widths))


def multipath_needs(
    structure: MultipathStructure, classes: int, width: Callable[[SubPath], int]
) -> Callable[[tuple[SubPath, ...]], Sequence[Place]]:
    """What multipath children need, by their paths.

    Args:
        structure: how paths are joined.
        classes: of the task.
        width: of what a path represents.
    """
    return lambda paths: _joints(structure, classes, [width(one) for one in paths[1:]])


def _places(structure: VisionStructure, path: Path | None = None) -> tuple[Place, ...]:
    ids = {one.role: one.id for one in path.components} if path is not None else {}
    return tuple(Place(role, _text(structure.signature(role)), ids.get(role)) for role in structure.roles)


def _joints(structure: MultipathStructure, classes: int, widths: Sequence[int]) -> tuple[Place, ...]:
    shapes = multipath_shapes(structure, classes, widths)
    return tuple(Place(role, _text({name: list(shape) for name, shape in one.items()})) for role, one in shapes.items())


def _text(signature: Mapping[str, Any]) -> str:
    return canonical.dumps(dict(signature))
