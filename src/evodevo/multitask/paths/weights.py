"""Components of paths in the pool of blobs: parts (``training.parts``), verified when they are read."""

from __future__ import annotations

from torch import Tensor, nn

from evodevo.errors import NotFoundError, StoreDamagedError
from evodevo.storage.blobs import BlobPool
from evodevo.training.parts import load_part


def load_state(pool: BlobPool, digest: str, role: str, whose: str | None = None) -> dict[str, Tensor]:
    """The weights of a component by name, on the CPU.

    Args:
        pool: Pool of the blobs.
        digest: Digest of the component's blob.
        role: Role of the component in its path.
        whose: Id of the component or of its path, for messages.

    Raises:
        StoreDamagedError: The blob is missing, or its bytes do not hash to its name.
        UnsafeFileError: The blob is not a safetensors file.
    """
    what = f"the component {whose or digest[:12]} ({role!r})"
    try:
        return load_part(pool, digest, what)
    except (NotFoundError, StoreDamagedError) as error:
        raise StoreDamagedError(f"the weights of {what} cannot be used: {error}") from None


def count_parameters(part: nn.Module) -> int:
    """Number of the parameters of a component, trained or not."""
    return sum(parameter.numel() for parameter in part.parameters())
