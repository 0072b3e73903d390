"""What is asked of a worker about one path of a multitask system, and what it answers; no torch.

Source: docs/spec/munet.md#stored-system. A worker knows blobs by their digests and no rows: everything that it needs
is in the request.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from evodevo import canonical
from evodevo.multitask.genome import Path
from evodevo.multitask.training.values import PathTrainingSettings
from evodevo.settings import Settings, validate
from evodevo.tasks.multitask.task import MultitaskSettings

Digest = str
Fate = Literal["reference", "clone", "resize", "insert", "new", ""]


class ComponentSource(Settings):
    """Where the weights of a component come from.

    Attributes:
        digest: of the blob that it is, or begins with; None is made here.
        train: whether it learns.
        how: "reference" or "clone": the blob as it is; "resize": a position embedding for another resolution; "insert":
            a new block that changes no answer; "new": as the path's kind begins it. Without it the blob as it is, or
            new where there is none.
        source: id of the component that the blob is, for people.
    """

    digest: Digest | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    train: bool = False
    how: Fate = ""
    source: str | None = None


class FrozenSource(Settings):
    """A published path inside a multipath one: what it is, and the blob of each of its components."""

    path: Path
    components: dict[str, Digest]


class PathRequest(Settings):
    """One path to be trained or measured.

    Attributes:
        path: the genome.
        components: role -> where it comes from, of all its own components.
        supports: of a multipath one: its paths, the main one first.
        task: name in the system, for people.
        task_settings: where the data come from.
        task_key: by which the prepared data are found; None opens the sources.
        training: of the agent.
        bar: accuracy to be exceeded; None lets any pass.
        seed: of all that is drawn.
        split: that is measured.
        blobs: folder of the pool.
        cache: folder of prepared data and representations; None is the user's.
        root: of a root that is not trained: "random_init" or "checkpoint".
        checkpoint: of such a root: folder of a Hugging Face ViT.
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

    @property
    def trained(self) -> list[str]:
        """Roles that learn."""
        return [role for role, source in self.components.items() if source.train]


def read_request(payload: bytes) -> PathRequest:
    """A request out of a job's bytes.

    Raises:
        UsageError: it is none; the message says where.
    """
    return validate(
        PathRequest, canonical.loads(payload, what="an evaluation", max_bytes=1 << 26), what="an evaluation"
    )


def failed(reason: str, detail: str, **facts: Any) -> dict[str, Any]:
    """The answer of an evaluation that came to nothing."""
    empty: dict[str, Any] = {"evals": [], "quality": None, "improved": False, "components": {}}
    return {"reason": reason, "detail": detail, **empty, **facts}
