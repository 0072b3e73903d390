"""Components of paths in the pool of blobs: one safetensors file each, named by its bytes, verified when it is read."""

from __future__ import annotations

from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor, nn

from evodevo.errors import NotFoundError, StoreDamagedError
from evodevo.storage.blobs import BlobPool
from evodevo.training.checkpoints import read_tensors


def load_state(pool: BlobPool, digest: str, role: str, whose: str | None = None) -> dict[str, Tensor]:
    """The weights of a component.

    Args:
        pool: pool of the blobs.
        digest: digest of the weights.
        role: role of the component.
        whose: id of the component, or of its path, for messages.

    Raises:
        StoreDamagedError: no such blob, or its bytes do not hash to its name.
        UnsafeFileError: no safetensors.
    """
    what = f"the component {whose or digest[:12]} ({role!r})"
    try:
        data = pool.get(digest)
    except (NotFoundError, StoreDamagedError) as error:
        raise StoreDamagedError(f"the weights of {what} cannot be used: {error}") from None
    return read_tensors(data, what)


def save_state(pool: BlobPool, state: Mapping[str, Tensor]) -> str:
    """Keep the weights of a component; returns the digest."""
    return pool.put_bytes(save({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}))


def count_parameters(part: nn.Module) -> int:
    """Numbers of a component that could learn."""
    return sum(parameter.numel() for parameter in part.parameters())
