"""The outcome of a replay: what was made again from a log of edits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ReplayedEdit:
    """One rebuilt edit.

    Attributes:
        event, step: Number of its event, and training step; the step is None where it was not recorded.
        operation: Name of the operation.
        parents: Ids of the modules concerned.
        child: Id of the newborn, or of the module that was removed or edited; None where it was refused.
        parameters: Parameters that it added; negative for a module that was removed, 0 for other edits.
        weights: SHA-256 of the safetensors file with the first weights of a newborn, or with those right after an edit
            in place; None for other edits.
        note: Remark for people.
    """

    event: int
    step: int | None
    operation: str
    parents: tuple[str, ...]
    child: str | None
    parameters: int
    weights: str | None
    note: str


@dataclass(frozen=True)
class Replay:
    """A rebuilt growth that equals its record.

    Attributes:
        start, modules: Ids before and after all edits.
        edits: Rebuilt edits, in order.
        blobs: Number of blobs that were read and have their digest.
        is_compared: Whether the final genotypes were compared with those of a kept network.
    """

    start: tuple[str, ...]
    modules: tuple[str, ...]
    edits: tuple[ReplayedEdit, ...]
    blobs: int
    is_compared: bool

    def to_json(self) -> dict[str, Any]:
        """The fields as a dictionary for JSON."""
        return asdict(self)
