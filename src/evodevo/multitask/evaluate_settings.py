"""The request to a worker for one path of a multitask system, and its answer; no torch.

Source: docs/spec/munet.md#stored-system. A worker reads blobs by their digests and no rows: the request holds
everything that it needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from pydantic import Field

from evodevo import canonical
from evodevo.errors import DiskFullError, NotFoundError, StoreDamagedError, UnsafeFileError
from evodevo.multitask.genome import Path
from evodevo.multitask.recorded import CPU_SECONDS
from evodevo.multitask.settings import JointTask
from evodevo.multitask.training.values import PathTrainingSettings
from evodevo.search.problem import DAMAGED, DISK_FULL, Outcome, write_answer
from evodevo.settings import Settings, validate
from evodevo.tasks.multitask.task import MultitaskSettings

Digest = str
WeightOrigin = Literal["reference", "clone", "resize", "insert", "new", ""]


class ComponentSource(Settings):
    """The source of a component's weights.

    Attributes:
        digest: digest of the blob that it is, or begins with; None for a new component.
        train: whether it learns.
        how: "reference" or "clone": the blob as it is; "resize": a position embedding for another resolution; "insert":
            a new block that changes no answer; "new": as the path's kind begins it. Without it the blob as it is, or
            new where there is none.
        source: id of the blob's component, for display.
    """

    digest: Digest | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    train: bool = False
    how: WeightOrigin = ""
    source: str | None = None


class FrozenSource(Settings):
    """A published path inside a multipath one: what it is, and the blob of each of its components."""

    path: Path
    components: dict[str, Digest]


class PathRequest(Settings):
    """One path to be trained or measured.

    Attributes:
        path: its genome.
        components: role -> source, for all its own components.
        supports: for a multipath one, its paths, the main one first.
        task: name in the system, for display.
        task_settings: settings of the data.
        task_key: key of the prepared data; None opens the sources.
        training: training settings of the agent.
        bar: accuracy to be exceeded; None lets any pass.
        seed: seed of all draws.
        split: the measured split.
        blobs: folder of the pool.
        cache: folder of prepared data and representations; None is the user's.
        root: origin of a root that is not trained: "random_init" or "checkpoint".
        checkpoint: for such a root, folder of a Hugging Face ViT, ``builtin:NAME``, a root of the package, or the file
            of another such root.
        together: tasks that train a root together; the path has no head then, and ``task`` is its name alone.
    """

    path: Path
    components: dict[str, ComponentSource]
    supports: tuple[FrozenSource, ...] = ()
    task: str
    task_settings: MultitaskSettings = MultitaskSettings()
    task_key: Digest | None = None
    training: PathTrainingSettings = PathTrainingSettings()
    bar: float | None = None
    seed: int = Field(default=0, ge=0)
    split: Literal["validation", "test"] = "test"
    blobs: str
    cache: str | None = None
    root: Literal["random_init", "checkpoint"] | None = None
    checkpoint: str | None = None
    together: tuple[JointTask, ...] = ()

    @property
    def trained(self) -> list[str]:
        """Roles that learn."""
        return [role for role, source in self.components.items() if source.train]


def read_request(payload: bytes) -> PathRequest:
    """A request out of a job's bytes.

    Raises:
        UsageError: it is none; the message names the wrong field.
    """
    return validate(
        PathRequest, canonical.loads(payload, what="an evaluation", max_bytes=1 << 26), what="an evaluation"
    )


def answered(work: Callable[[], Outcome]) -> bytes:
    """The answer of an evaluation of a path; a full disk, and weights that are gone or damaged, are its reasons.

    Among its facts are the CPU seconds of this process, all threads together: unlike wall time they do not depend on
    what else the machine does.
    """
    begin, worked = time.perf_counter(), time.process_time()
    try:
        outcome = work()
    except DiskFullError as error:
        outcome = Outcome(DISK_FULL, detail=str(error))
    except (NotFoundError, StoreDamagedError, UnsafeFileError) as error:
        outcome = Outcome(DAMAGED, detail=str(error))
    facts = {**outcome.extra, CPU_SECONDS: time.process_time() - worked}
    return write_answer(replace(outcome, extra=facts, seconds=time.perf_counter() - begin))
