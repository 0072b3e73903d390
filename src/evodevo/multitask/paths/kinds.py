"""Kinds of paths: how each is described, what it costs, what its agents tune, and how it is put together.

A kind is a row of ``KINDS`` under the ``kind`` of its paths, one class in one file without torch. Agents plan children
with it (roles, shapes, parameters, work) and ask it which samples a path can read, so that any kind may learn any task
that it can read (docs/spec/munet.md#tasks). Its modules are imported by ``build``, ``freeze``, ``make_root`` and
``source``; ``component_kind`` has what is alike for those whose builder is beside them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from evodevo.errors import UsageError
from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import Hyperparameters, Version
from evodevo.registry import Registry, table

if TYPE_CHECKING:
    from torch import nn

    from evodevo.multitask.evaluate_settings import PathRequest
    from evodevo.multitask.paths.built import BuiltPath, FrozenPart
    from evodevo.multitask.settings import AgentSettings
    from evodevo.multitask.source.written import WrittenPath
    from evodevo.operators.source.sheet import SourceSheet
    from evodevo.storage.blobs import BlobPool
    from evodevo.tasks.base import SampleTask
    from evodevo.training.precision import Precision


class PathStructure(Protocol):
    """A path of one kind as plain data, without its weights.

    Attributes:
        classes: number of classes of its head; 0 is headless.
        width: number of channels of its representation.
        roles: roles of its components, in the order in which a sample passes them.
        input_spec: preparation of a task's bytes; part of a path's identity.
    """

    @property
    def classes(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def roles(self) -> tuple[str, ...]: ...
    @property
    def input_spec(self) -> dict[str, Any]: ...
    def signature(self, role: str) -> dict[str, Any]:
        """All that decides whether a component fits in a role."""
        ...

    def changed(self, **values: Any) -> Self:
        """The structure with other values, checked."""
        ...

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """Plain data."""
        ...


class PathKind(ABC):
    """One kind of paths. It keeps no state.

    Attributes:
        kind: name of its row, and ``Path.kind`` of its paths.
        joins: whether its paths consist of other paths.
    """

    kind: str
    joins: ClassVar[bool] = False

    @abstractmethod
    def build(self, request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
        """The path of a request with its weights, on its device.

        Raises:
            UsageError: a path that cannot answer the task.
            NotFoundError, StoreDamagedError: a component is gone or damaged.
            DataError: a component of another structure.
        """

    def can_read(self, path: Path, modalities: Collection[str]) -> bool:
        """Whether a path may be a parent or a support where samples have these modalities; never if it joins others."""
        return False

    def can_begin(self, path: Path, modalities: Collection[str]) -> bool:
        """Whether a path for samples of these modalities may begin with this one as its parent."""
        return self.can_read(path, modalities)

    def single(self) -> SinglepathKind:
        """This kind, as one whose paths may be parents and parts of others.

        Raises:
            UsageError: it is none.
        """
        raise UsageError(f"a path of kind {self.kind!r} joins other paths; it is neither a parent nor a part of one.")


class SinglepathKind(PathKind):
    """A kind whose paths are made of components alone, so that they may be parents, supports and roots.

    Attributes:
        presets: name -> a headless structure, with which a root may begin.
        fields: hyperparameter -> field of the structure that it decides.
        augments: whether chance may change its samples while it learns (hyperparameters ``ds_…``).
        training: settings of training in which its agents differ from all others, where a user says nothing.
        children: children of a cycle, likewise; None is the default of all.
        scale: factor of the score of a path as large as the root, likewise; None is the papers'.
        fine_tuned: children that begin an agent's first cycle by training all of their parent, likewise.
        unshifted: children after them that do the same with images that are not moved, likewise.
        from_scratch: children after those whose components all begin at random, likewise.
        new_roots: preset -> options of a new root whose weights are not read from a checkpoint of others, below what a
            user says; they are recorded with it, and its hyperparameters with the agents that begin with it.
        roots: preset -> ``builtin:NAME``, the root of the package that its agents begin with where nobody names one.
        shares_untrained: whether children may keep components of a root at random frozen, as the papers do.
    """

    augments: bool = False
    training: Mapping[str, Any] = MappingProxyType({})
    children: int | None = None
    scale: float | None = None
    fine_tuned: int = 0
    unshifted: int = 0
    from_scratch: int = 0
    new_roots: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    roots: Mapping[str, str] = MappingProxyType({})
    shares_untrained: bool = True
    presets: Mapping[str, PathStructure]
    fields: Mapping[str, str]

    def single(self) -> SinglepathKind:
        return self

    def can_read(self, path: Path, modalities: Collection[str]) -> bool:
        """Whether a path can read samples of these modalities; it ignores those that it does not need."""
        return self.reads(self.structure_of(path), modalities)

    def can_begin(self, path: Path, modalities: Collection[str]) -> bool:
        return self.begins(self.structure_of(path), modalities)

    @abstractmethod
    def freeze(self, path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
        """A published path inside another model, where it only answers.

        Args:
            path: the genome.
            digests: role -> digest of its component.
            pool: pool of the blobs.
            head: whether it comes with its head, and so answers its task.
        """

    def make_root(self, request: PathRequest, pool: BlobPool) -> Mapping[str, nn.Module]:
        """The components, by role, of a root that is not trained: at random, or from a checkpoint.

        Raises:
            UsageError: it cannot come about so.
        """
        raise UsageError(f"a path of kind {self.kind!r} is no root that is made here: {request.root} was asked for.")

    def source(self, path: Any, sheet: SourceSheet) -> WrittenPath:
        """A path in a file of plain PyTorch.

        Args:
            path: its model; the attribute ``kind`` of the model names this row.
            sheet: sheet of the file, to which the classes of the path are added.

        Raises:
            UsageError: paths of this kind have no source, or this one has none.
        """
        raise UsageError(f"a path of kind {self.kind!r} has no source; take --to pt2.")

    @abstractmethod
    def structure_of(self, path: Path) -> PathStructure:
        """The structure of a path: the stored one, changed by its hyperparameters and its task.

        Raises:
            UsageError: it is of another kind, or is invalid.
        """

    @abstractmethod
    def structure(self, values: Mapping[str, Any], what: str) -> PathStructure:
        """Plain data as a structure.

        Raises:
            UsageError: they make no sense; the message begins with ``what``.
        """

    @abstractmethod
    def parameters(self, structure: Any) -> dict[str, int]:
        """Role -> parameters of its component."""

    @abstractmethod
    def flops(self, structure: Any) -> float:
        """FLOPs of one sample, forward."""

    @abstractmethod
    def hyperparameters(self, size: str, version: Version) -> Hyperparameters:
        """Hyperparameters that its agents tune."""

    @abstractmethod
    def needs(self, structure: Any) -> frozenset[str]:
        """Modalities that a sample must have for a path to read it."""

    def reads(self, structure: Any, modalities: Collection[str]) -> bool:
        """Whether a path can read samples that have these modalities."""
        return self.needs(structure) <= set(modalities)

    def begins(self, structure: Any, modalities: Collection[str]) -> bool:
        """Whether a path for samples of these modalities may begin with such a one: where it reads them, unless its
        first component is one of each task's own."""
        return self.reads(structure, modalities)

    def of_task(self, structure: Any, agent: AgentSettings) -> Any:
        """The structure for the samples of an agent's task, where samples of other tasks need another one."""
        return structure

    def adapted_structure(self, structure: Any, width: float) -> Any | None:
        """The structure with adapters, which learn where all else is frozen; None where such paths have none.

        Args:
            structure: one with adapters is given back as it is.
            width: channels inside of an adapter, as a multiple of those that it reads.
        """
        return None

    def resizable(self, structure: Any, role: str) -> str:
        """Text that is equal for two components where one can be made of the other, though their signatures differ
        (``how`` = "resize" in ``ComponentSource``); empty where that is not so."""
        return ""

    def check_root(self, structure: Any, how: str) -> None:
        """Refuse a root that cannot be made this way ("random_init", "pretrain", "checkpoint", "joint").

        Raises:
            UsageError: with the reason.
        """
        return

    def checkpoint(self, folder: str) -> PathStructure:
        """The structure of a root from a checkpoint of others.

        Raises:
            UsageError: none can be read.
        """
        raise UsageError(f"a path of kind {self.kind!r} takes no checkpoint; {folder} was given.")


KINDS: Registry[PathKind] = table("kind of path", "evodevo.path_kinds")
KINDS.add("convolution_path", "evodevo.multitask.paths.convolution.kind:CONVOLUTION")
KINDS.add("vision_path", "evodevo.multitask.paths.vision.kind:VISION")
KINDS.add("text_path", "evodevo.multitask.paths.text.kind:TEXT")
KINDS.add("ngram_path", "evodevo.multitask.paths.ngrams.kind:NGRAMS")
KINDS.add("mlp_path", "evodevo.multitask.paths.mlp.kind:MLP")
KINDS.add("network_path", "evodevo.multitask.paths.network.kind:NETWORK")
KINDS.add("multipath", "evodevo.multitask.paths.multipath.kind:MULTIPATH")


def structure_of(path: Path) -> PathStructure:
    """The structure of a path that is made of components alone.

    Raises:
        UsageError: no such kind, a path that joins others, or it makes no sense.
    """
    return KINDS.get(path.kind).single().structure_of(path)


def can_read(path: Path, modalities: Collection[str]) -> bool:
    """Whether a path can read samples of these modalities as it is: to be probed, or as a support."""
    return path.kind in KINDS and KINDS.get(path.kind).can_read(path, modalities)


def can_begin(path: Path, modalities: Collection[str]) -> bool:
    """Whether a path can be the parent of one that reads samples of these modalities."""
    return path.kind in KINDS and KINDS.get(path.kind).can_begin(path, modalities)
