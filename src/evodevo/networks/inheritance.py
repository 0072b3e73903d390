"""Weight inheritance: a network begins with tensors of trained networks, part by part, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from evodevo.networks.base import Network
from evodevo.networks.saved import load_network
from evodevo.training import checkpoints
from evodevo.training.parts import BlobStore


@torch.no_grad()
def inherit(network: Network, donors: Sequence[tuple[str, str]], pool: BlobStore) -> dict[str, Any]:
    """Copy into a network what its donors have for it: of each part, from the first donor that has it.

    A part is inherited as a whole, where names, shapes and number formats of its tensors agree; see
    ``Network.counterparts``. What no donor has stays as it was initialised.

    Args:
        network: the network, initialised.
        donors: (id, digest of the weights), the preferred first.
        pool: pool of the weights.

    Returns:
        JSON: ``share``, of all elements of the network; ``donors``, id -> digest; ``parts``, part -> [id of the donor,
        part of the donor].

    Raises:
        NotFoundError, StoreDamagedError, UnsafeFileError: weights of a donor are gone or damaged.
    """
    own = checkpoints.parts_of(network)
    inherited: dict[str, list[str]] = {}
    for donor, digest in donors:
        parent, _ = load_network(pool, digest)
        theirs = checkpoints.parts_of(parent)
        for part, source in network.counterparts(parent).items():
            if part not in inherited and part in own and _agree(own[part], theirs.get(source, {})):
                for name, tensor in own[part].items():
                    tensor.copy_(theirs[source][name])
                inherited[part] = [donor, source]
    sizes = {part: sum(tensor.numel() for tensor in tensors.values()) for part, tensors in own.items()}
    share = sum(sizes[part] for part in inherited) / sum(sizes.values())
    return {"share": share, "donors": dict(donors), "parts": inherited}


def _agree(own: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> bool:
    return own.keys() == theirs.keys() and all(
        tensor.shape == theirs[name].shape and tensor.dtype == theirs[name].dtype for name, tensor in own.items()
    )
