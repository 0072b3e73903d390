"""Families of paths: what agents must know of a path's structure, whatever it looks at. No torch.

A family is a row of ``FAMILIES`` under the ``kind`` of its paths. Agents plan children with it (roles, shapes,
parameters, work), and ask it which samples a path can read, so that any family may learn any task that it can read
(docs/spec/munet.md#tasks).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, Protocol, Self

from evodevo.errors import UsageError
from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import Hyperparameters, Version
from evodevo.registry import Registry, table


class PathStructure(Protocol):
    """A path of one kind as plain data, without its weights.

    Attributes:
        classes: that its head tells apart; 0 is headless.
        width: numbers of its representation.
        adapters: role -> inner width; empty in families that know none.
        roles: of its components, in the order in which a sample passes them.
        input_spec: what it makes of a task's bytes; part of what a path is known by.
    """

    @property
    def classes(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def adapters(self) -> Mapping[str, int]: ...
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


class PathFamily(ABC):
    """One kind of paths. It keeps no state.

    Attributes:
        kind: of its paths, and the name of its row.
        presets: name -> a headless structure, with which a root may begin.
        fields: hyperparameter -> field of the structure that it decides.
        augments: whether chance may change its samples while it learns (hyperparameters ``ds_…``).
    """

    augments: bool = False
    kind: str
    presets: Mapping[str, PathStructure]
    fields: Mapping[str, str]

    @abstractmethod
    def structure_of(self, path: Path) -> PathStructure:
        """The structure of a path: what is stored, with what its hyperparameters and its task say of it.

        Raises:
            UsageError: it is of another kind, or makes no sense.
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
        """Of one sample, forward."""

    @abstractmethod
    def hyperparameters(self, size: str, version: Version) -> Hyperparameters:
        """What its agents tune."""

    @abstractmethod
    def needs(self, structure: Any) -> frozenset[str]:
        """Modalities that a sample must have for a path to read it."""

    def reads(self, structure: Any, modalities: Collection[str]) -> bool:
        """Whether a path can read samples that have these modalities."""
        return self.needs(structure) <= set(modalities)

    def check_root(self, structure: Any, how: str) -> None:
        """Refuse a root that cannot come about so ("random_init", "pretrain", "checkpoint").

        Raises:
            UsageError: it says why.
        """
        return

    def checkpoint(self, folder: str) -> PathStructure:
        """The structure of a root from a checkpoint of others.

        Raises:
            UsageError: none can be read.
        """
        raise UsageError(f"a path of kind {self.kind!r} takes no checkpoint; {folder} was given.")


FAMILIES: Registry[PathFamily] = table("family of paths", "evodevo.path_families")
FAMILIES.add("vision_path", "evodevo.multitask.paths.vision.family:VISION")
FAMILIES.add("text_path", "evodevo.multitask.paths.text.family:TEXT")
FAMILIES.add("network_path", "evodevo.multitask.paths.network.family:NETWORK")


def structure_of(path: Path) -> PathStructure:
    """The structure of a path of any family.

    Raises:
        UsageError: no such kind, or it makes no sense.
    """
    return FAMILIES.get(path.kind).structure_of(path)


def can_read(path: Path, modalities: Collection[str]) -> bool:
    """Whether a path can look at samples of these modalities: as a parent, or as a support.

    What several modalities share a sample does not hinder: a path takes what is its own.
    """
    if path.kind not in FAMILIES:
        return False  # a multipath model is no part of another
    family = FAMILIES.get(path.kind)
    return family.reads(family.structure_of(path), modalities)
