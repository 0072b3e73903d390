"""Builders of paths: how paths of one kind come about from components that were stored, copied, resized, inserted or
made anew.

Legend: B samples, h numbers of a representation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from evodevo.errors import DataError, UsageError
from evodevo.multitask.evaluate_settings import ComponentSource, PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.built import BuiltPath, FrozenPart, PathSamples
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.kinds import PathStructure
from evodevo.multitask.paths.model import ComponentPath, filled
from evodevo.multitask.paths.weights import load_state
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import SampleTask
from evodevo.training.precision import Precision

P = TypeVar("P", contravariant=True)
S = TypeVar("S", bound=PathStructure)
State = Mapping[str, Tensor]
Components = Mapping[str, nn.Module]
Read = Callable[[PathSamples], Any]


class PathBuilder(ABC, Generic[P]):
    """The builder of a ``ComponentKind``. It keeps no state."""

    @abstractmethod
    def build(
        self, structure: P, request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision
    ) -> BuiltPath:
        """The path of a request; see ``PathKind.build``."""

    @abstractmethod
    def freeze(self, structure: P, path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
        """A published path inside another model; see ``SinglepathKind.freeze``."""

    def make_root(self, structure: P, request: PathRequest, pool: BlobPool) -> Mapping[str, nn.Module]:
        """The components of a root; see ``SinglepathKind.make_root``.

        Raises:
            UsageError: it cannot come about so.
        """
        raise UsageError(f"{request.path.kind} has no root that is made here: {request.root} was asked for.")


class ComponentBuilder(PathBuilder[S]):
    """A builder of paths that are a row of components, each of which the structure describes by its role.

    Attributes:
        path: class of the models.
    """

    path: type[ComponentPath[S]]

    # What differs between kinds

    @abstractmethod
    def resize(self, structure: S, role: str, state: State, seed: int) -> dict[str, Tensor]:
        """Weights of a component for another size; see ``SinglepathKind.resizable``."""

    @abstractmethod
    def flops(self, structure: S) -> float:
        """FLOPs of one sample, forward."""

    @abstractmethod
    def read(self, structure: S, components: Components) -> Read:
        """The function from samples of a task to what the path reads."""

    @abstractmethod
    def reads(self, structure: S, components: Components) -> str:
        """Name of what the path reads: paths with the same name read the same."""

    def of_samples(self, structure: S, role: str, seed: int, task: SampleTask | None, *, identity: bool) -> nn.Module:
        """A new component that may take what it needs of the training samples of a task.

        Raises:
            UsageError: it needs some, and there is no task.
        """
        return self.path.component(structure, role, seed, identity=identity)

    def preparation(self, structure: S, components: Components) -> Mapping[str, Any]:
        """All on which the answers of the path depend besides weights and structure, JSON."""
        return structure.input_spec

    def root_of(self, structure: S, request: PathRequest) -> dict[str, nn.Module]:
        """The components of a root that is not made at random.

        Raises:
            UsageError: there are no other roots.
            DataError: one of another structure.
        """
        raise UsageError(f"a root of kind {request.path.kind!r} is made at random, or pretrained on a task.")

    # What they have alike

    def restore(self, structure: S, role: str, state: State) -> nn.Module:
        """A component with copies of weights that were stored, on the CPU in float32.

        Raises:
            DataError: weights of another component: what is missing, not wanted, or of another shape.
        """
        return filled(self.path.component(structure, role, 0), role, state)

    def build(
        self, structure: S, request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision
    ) -> BuiltPath:
        """The path of a request.

        Raises:
            UsageError: a task that it cannot read.
            NotFoundError, StoreDamagedError: a component is gone or damaged.
            DataError: a component of another structure.
        """
        components = self._components(structure, request, pool, task)
        read = self.read(structure, components)
        return BuiltPath(self.path(structure, components), components, self.flops(structure), read, precision)

    def freeze(self, structure: S, path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
        if not head:
            structure = structure.changed(classes=0)
        parts = {
            role: self.restore(structure, role, load_state(pool, digests[role], role, f"of {path.id}"))
            for role in structure.roles
            if role in digests
        }
        return FrozenPart(
            FrozenPath(self.path(structure, parts).eval(), reads=self.reads(structure, parts)),
            self.read(structure, parts),
            structure.model_dump(mode="json"),
            self.preparation(structure, parts),
            structure.width,
            self.flops(structure),
        )

    def make_root(self, structure: S, request: PathRequest, pool: BlobPool) -> dict[str, nn.Module]:
        if request.root != "random_init":
            return self.root_of(structure, request)
        return self._components(structure, request, pool, None)

    def _components(
        self, structure: S, request: PathRequest, pool: BlobPool, task: SampleTask | None
    ) -> dict[str, nn.Module]:
        return {
            role: self._component(structure, role, source, pool, request.seed, task)
            for role, source in request.components.items()
        }

    def _component(
        self, structure: S, role: str, source: ComponentSource, pool: BlobPool, seed: int, task: SampleTask | None
    ) -> nn.Module:
        """A component from its source.

        Raises:
            StoreDamagedError: its blob is gone or damaged.
            DataError: it is of another structure, or should have weights and names none.
        """
        if source.digest is None:
            if source.how not in ("new", "insert", ""):
                raise DataError(f"the component for {role!r} shall be a {source.how!r}, and no weights are named.")
            return self.of_samples(structure, role, seed, task, identity=source.how == "insert")
        state: State = load_state(pool, source.digest, role, source.source)
        if source.how == "resize":
            state = self.resize(structure, role, state, seed)
        return self.restore(structure, role, state)
