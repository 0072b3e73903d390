"""The policy that a run leaves for the next one, so that runs in sequence are one course of its training.

Source: docs/spec/architect_thyself.md#edit-memory.

One safetensors file: weights and the optimizer's moments as tensors, and beside them, as JSON in the metadata, the
format, the strategist, the plain half of its state, the scale of rewards, and how long the course has been.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field
from safetensors.torch import save
from torch import Tensor

from evodevo import canonical
from evodevo.errors import UnsafeFileError, UsageError
from evodevo.growth.rewards import RewardScale
from evodevo.growth.strategists.base import StrategistState
from evodevo.settings import Settings, validate
from evodevo.storage.tensor_header import read_metadata
from evodevo.training.parts import is_finite, read_tensors

FORMAT = "evodevo.policy_memory/1"
_HEAD = "evodevo"
"""Name of the JSON in the metadata."""


class PolicyMemoryHead(Settings):
    """The plain half of the file.

    Attributes:
        format: Version of the file.
        strategist: Name of the strategist.
        runs: Number of runs in which the policy was trained.
        scale: Scale of the rewards of all of them.
        learnt: Plain half of the strategist's state.
    """

    format: str
    strategist: str
    runs: int = Field(ge=1)
    scale: RewardScale
    learnt: dict[str, Any]


@dataclass(frozen=True)
class PolicyMemory:
    """A trained policy; a value.

    Attributes:
        strategist: Name of the strategist.
        state: Its state.
        scale: Scale of the rewards so far, from which that of the next run goes on.
        runs: Number of runs in which it was trained.
    """

    strategist: str
    state: StrategistState
    scale: RewardScale = field(default_factory=RewardScale)
    runs: int = 1

    def dumps(self) -> bytes:
        """The file; ``PolicyMemory.loads`` reads it back bit for bit, and equal memories give equal bytes.

        Raises:
            UsageError: A tensor is not finite.
        """
        _check_numbers(self.state.tensors, f"the policy of {self.strategist}")
        head = PolicyMemoryHead(
            format=FORMAT,
            strategist=self.strategist,
            runs=self.runs,
            scale=self.scale,
            learnt=dict(self.state.data),
        )
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in self.state.tensors.items()}
        return save(tensors, metadata={_HEAD: canonical.dumps(head.model_dump(mode="json"))})

    @classmethod
    def loads(cls, data: bytes, *, what: str = "the policy of an earlier run") -> PolicyMemory:
        """Read what ``dumps`` wrote.

        Raises:
            UsageError: Another version, or no finite numbers.
            UnsafeFileError: Another file, or a damaged one.
        """
        text = read_metadata(io.BytesIO(data), len(data), what).get(_HEAD)
        if text is None:
            raise UnsafeFileError(f"{what} is no policy that evodevo kept: its metadata do not name a format.")
        values = canonical.loads(text, what=what)
        version = values.get("format") if isinstance(values, dict) else None
        if version != FORMAT:
            raise UsageError(
                f"{what} has the format {str(version)[:80]!r}; this evodevo reads {FORMAT!r}. Begin anew with "
                "policy.memory.continues=false."
            )
        head = validate(PolicyMemoryHead, values, what=what)
        tensors = read_tensors(data, what)
        _check_numbers(tensors, what)
        return cls(head.strategist, StrategistState(tensors, head.learnt), head.scale, head.runs)

    def check(self, strategist: str) -> None:
        """Refuse to be gone on with by another strategist.

        Raises:
            UsageError: The name of the strategist is another one.
        """
        if strategist != self.strategist:
            raise UsageError(
                f"the policy of an earlier run is that of {self.strategist!r}; {strategist!r} cannot go on from it. "
                "Begin anew with policy.memory.continues=false."
            )


def _check_numbers(tensors: Mapping[str, Tensor], what: str) -> None:
    for name, tensor in tensors.items():
        if not is_finite(tensor):
            raise UsageError(f"{what} is no policy to go on from: {name[:80]} holds NaN or infinity.")
