"""Multilayer perceptrons over vectors as a kind of path: see ``paths.kinds``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.hyperparameters import (
    BLOCK_WIDTH,
    NUM_LAYERS,
    Hyperparameter,
    Hyperparameters,
    Version,
    family_hyperparameters,
)
from evodevo.multitask.paths.blocks_spec import BLOCK
from evodevo.multitask.paths.component_kind import ComponentKind
from evodevo.multitask.paths.mlp.spec import (
    HYPERPARAMETERS,
    KIND,
    PRESETS,
    MLPStructure,
    path_work,
    role_parameters,
)
from evodevo.settings import validate
from evodevo.tasks.rows.columns import Column

if TYPE_CHECKING:
    from evodevo.multitask.paths.builder import PathBuilder
    from evodevo.multitask.settings import AgentSettings
    from evodevo.multitask.source.written import WrittenPath
    from evodevo.operators.source.sheet import SourceSheet

_MOST_BLOCKS = 5
_WIDTHS = (0.5, 1.0, 1.5, 2.0)
_RATE, _MOMENTUM = 0.05, 0.9
_MODALITY = "vector:"


class MLPPaths(ComponentKind[MLPStructure]):
    """See ``SinglepathKind``."""

    kind = KIND
    structures = MLPStructure
    presets = PRESETS
    fields = HYPERPARAMETERS
    training: Mapping[str, Any] = {"batch": 64, "least_between": 4000}
    children = 8
    shares_untrained = False

    @property
    def builder(self) -> PathBuilder[MLPStructure]:
        from evodevo.multitask.paths.mlp.builder import BUILDER

        return BUILDER

    def source(self, path: Any, sheet: SourceSheet) -> WrittenPath:
        from evodevo.multitask.source.mlp import mlp_source

        return mlp_source(path.structure, sheet)

    def parameters(self, structure: MLPStructure) -> dict[str, int]:
        return role_parameters(structure)

    def flops(self, structure: MLPStructure) -> float:
        return float(path_work(structure).total)

    def hyperparameters(self, size: str, version: Version) -> Hyperparameters:
        return mlp_hyperparameters(size, version)

    def needs(self, structure: MLPStructure) -> frozenset[str]:
        return frozenset({f"{_MODALITY}{structure.inputs}"})

    def begins(self, structure: MLPStructure, modalities: Collection[str]) -> bool:
        """Any vectors: a path with other columns gets an embedding of its own."""
        return any(name.startswith(_MODALITY) for name in modalities)

    def of_task(self, structure: MLPStructure, agent: AgentSettings) -> MLPStructure:
        """The structure for the numbers of a task's samples."""
        sizes = [spec["size"] for spec in agent.inputs if spec["modality"] == "vector"]
        if len(sizes) != 1:
            return structure
        told = [dict(column) for column in agent.columns]
        return structure.changed(
            inputs=sizes[0],
            indicated=indicated(agent),
            columns=canonical.digest(told) if told else "",
        )

    def check_root(self, structure: MLPStructure, how: str) -> None:
        if how == "joint":
            raise UsageError("rows of a table have columns of their own, so that tables train no root together.")
        if how == "random_init" and structure.inputs:
            raise UsageError(
                "a root at random belongs to no table and has no embedding; leave root.structure.inputs out, or take"
                " --root pretrain:NAME."
            )

    def resizable(self, structure: MLPStructure, role: str) -> str:
        """Blocks that differ in the width inside of them alone are made of each other."""
        return canonical.dumps({**structure.signature(role), "hidden": None}) if role.startswith(BLOCK) else ""


def indicated(agent: AgentSettings) -> int:
    """Numbers of a row that have an indicator of a missing value."""
    columns = [validate(Column, dict(column), what="a column") for column in agent.columns]
    return sum(len(column.numbers) for column in columns)


def mlp_hyperparameters(size: str, version: Version = "paper") -> Hyperparameters:
    """The hyperparameters of an agent of MLP paths: those of vision paths with another learning rate and momentum, and
    the width inside of blocks; without those that prepare images.

    Args:
        size: a row of ``PRESETS``.
        version: version of the lists; see ``singlepath_hyperparameters``.

    Raises:
        UsageError: no such size.
    """
    if size not in PRESETS:
        raise UsageError(f"there is no size {size!r} of MLP paths; there are {', '.join(PRESETS)}.")
    preset = PRESETS[size]
    return (
        family_hyperparameters(version, {"opt_lr": _RATE, "opt_momentum": _MOMENTUM}, images=False)
        .with_row(Hyperparameter(key=NUM_LAYERS, values=tuple(range(_MOST_BLOCKS + 1)), default=preset.layers))
        .with_row(Hyperparameter(key=BLOCK_WIDTH, values=_WIDTHS, default=preset.inner))
    )


MLP = MLPPaths()
