"""Multipath models as a kind of path: see ``paths.kinds``; their structure and cost are in ``paths.multipath_spec``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evodevo.multitask.paths.kinds import PathKind

if TYPE_CHECKING:
    from evodevo.multitask.evaluate_settings import PathRequest
    from evodevo.multitask.paths.built import BuiltPath
    from evodevo.storage.blobs import BlobPool
    from evodevo.tasks.base import SampleTask
    from evodevo.training.precision import Precision


class MultipathKind(PathKind):
    """See ``PathKind``."""

    kind = "multipath"
    joins = True

    def build(self, request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
        from evodevo.multitask.paths.multipath.evaluate import build_multipath

        return build_multipath(request, pool, task, precision)


MULTIPATH = MultipathKind()
