"""Kinds whose paths a builder puts together: what all of them have alike, without torch.

The builder (``paths.builder``) is beside its kind, and is imported when a path is built.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from evodevo.errors import UsageError
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.kinds import PathStructure, SinglepathKind
from evodevo.settings import validate

if TYPE_CHECKING:
    from torch import nn

    from evodevo.multitask.evaluate_settings import PathRequest
    from evodevo.multitask.paths.builder import PathBuilder
    from evodevo.multitask.paths.built import BuiltPath, FrozenPart
    from evodevo.storage.blobs import BlobPool
    from evodevo.tasks.base import SampleTask
    from evodevo.training.precision import Precision

S = TypeVar("S", bound=PathStructure)


class ComponentKind(SinglepathKind, Generic[S]):
    """See ``SinglepathKind``.

    Attributes:
        structures: class of the structures of its paths, which is a class of settings.
    """

    structures: type[S]

    @property
    @abstractmethod
    def builder(self) -> PathBuilder[S]:
        """The builder of its paths; it imports torch."""

    def build(self, request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
        return self.builder.build(self.structure_of(request.path), request, pool, task, precision)

    def freeze(self, path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
        return self.builder.freeze(self.structure_of(path), path, digests, pool, head)

    def make_root(self, request: PathRequest, pool: BlobPool) -> Mapping[str, nn.Module]:
        return self.builder.make_root(self.structure_of(request.path), request, pool)

    def structure_of(self, path: Path) -> S:
        if path.kind != self.kind:
            raise UsageError(f"the path {path.id} is of kind {path.kind!r}, not {self.kind!r}.")
        chosen = {field: path.hparams[key] for key, field in self.fields.items() if key in path.hparams}
        return self.structure({**path.structure, **chosen, "classes": path.classes}, f"path {path.id}")

    def structure(self, values: Mapping[str, Any], what: str) -> S:
        made: S = validate(cast(Any, self.structures), dict(values), what=what)
        return made
