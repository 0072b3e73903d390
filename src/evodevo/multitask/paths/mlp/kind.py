"""Multilayer perceptrons over vectors as a kind of path: see ``paths.kinds``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import (
    BLOCK_WIDTH,
    NUM_LAYERS,
    Hyperparameter,
    Hyperparameters,
    Version,
    family_hyperparameters,
)
from evodevo.multitask.paths.blocks_spec import BLOCK
from evodevo.multitask.paths.kinds import SinglepathKind
from evodevo.multitask.paths.mlp.spec import (
    HYPERPARAMETERS,
    KIND,
    PRESETS,
    MLPStructure,
    path_work,
    role_parameters,
    structure_of,
)
from evodevo.settings import validate
from evodevo.tasks.rows.columns import Column

if TYPE_CHECKING:
    from torch import nn

    from evodevo.multitask.evaluate_settings import PathRequest
    from evodevo.multitask.paths.built import BuiltPath, FrozenPart
    from evodevo.multitask.settings import AgentSettings
    from evodevo.storage.blobs import BlobPool
    from evodevo.tasks.base import SampleTask
    from evodevo.training.precision import Precision

_MOST_BLOCKS = 5
_WIDTHS = (0.5, 1.0, 1.5, 2.0)
_RATE, _MOMENTUM = 0.05, 0.9
_MODALITY = "vector:"


class MLPPaths(SinglepathKind):
    """See ``SinglepathKind``."""

    kind = KIND
    presets = PRESETS
    fields = HYPERPARAMETERS
    training: Mapping[str, Any] = {"batch": 64, "least_between": 4000}
    children = 8
    shares_untrained = False

    def build(self, request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
        from evodevo.multitask.paths.mlp.evaluate import build_mlp_path

        return build_mlp_path(request, pool, task, precision)

    def freeze(self, path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
        from evodevo.multitask.paths.mlp.evaluate import freeze_mlp_path

        return freeze_mlp_path(path, digests, pool, head)

    def make_root(self, request: PathRequest, pool: BlobPool) -> Mapping[str, nn.Module]:
        from evodevo.multitask.paths.mlp.evaluate import make_mlp_root

        return make_mlp_root(request, pool)

    def structure_of(self, path: Path) -> MLPStructure:
        return structure_of(path)

    def structure(self, values: Mapping[str, Any], what: str) -> MLPStructure:
        return validate(MLPStructure, dict(values), what=what)

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
