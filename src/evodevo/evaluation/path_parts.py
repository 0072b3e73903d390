"""Components of paths in the pool of blobs: one safetensors file each, named by its bytes, verified when it is read."""

from __future__ import annotations

from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor, nn

from evodevo.storage.blobs import BlobPool
from evodevo.training.checkpoints import read_tensors


def load_state(pool: BlobPool, digest: str, role: str) -> dict[str, Tensor]:
    """The weights of a component.

    Raises:
        NotFoundError: no such blob.
        StoreDamagedError: its bytes do not hash to its name.
        UnsafeFileError: no safetensors.
    """
    return read_tensors(pool.get(digest), f"the component {digest[:12]} for {role!r}")


def save_state(pool: BlobPool, state: Mapping[str, Tensor]) -> str:
    """Keep the weights of a component; returns the digest."""
    return pool.put_bytes(save({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}))


def count_parameters(part: nn.Module) -> int:
    """Numbers of a component that could learn."""
    return sum(parameter.numel() for parameter in part.parameters())
