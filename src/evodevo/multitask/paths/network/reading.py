"""The inputs of an imported network from the samples of a task.

Tasks hand out bytes, ids and numbers; images of another size or number of channels become those of the network,
still as bytes, and texts are cut where it has no more positions, so that a frozen network reads the samples of another
task (docs/spec/munet.md#augmentation).

Legend: B samples, L tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.multitask.paths.built import PathSamples
from evodevo.multitask.paths.network.dense import sized
from evodevo.multitask.paths.network.spec import NetworkInput, NetworkStructure


def read_network_samples(structure: NetworkStructure, samples: PathSamples) -> dict[str, Tensor]:
    """Inputs of an imported network from samples, by the names of its inputs."""
    given = [(spec.name, spec.modality) for spec in samples.inputs]
    return read_samples(structure.inputs, given, samples.batch, lambda: samples.images)


Named = tuple[str, str]
"""Name and modality of what a task hands out."""


def read_samples(
    inputs: Sequence[NetworkInput],
    given: Sequence[Named],
    batch: Mapping[str, NDArray[Any]],
    images: Callable[[], Sequence[Tensor]],
) -> dict[str, Tensor]:
    """The batch of a network from samples.

    Args:
        inputs: inputs of the network.
        given: inputs of the task. Each of the network's takes that of its modality; where there are several, that of
            its name.
        batch: the samples as the task hands them out (``tasks.inputs.Batch``).
        images: the samples' images: numbers in [0, 255] of shape (n, channels, height, width), one batch or several.

    Returns:
        A batch of the network. Inputs that a learned token can replace are left out where the task lacks them.

    Raises:
        UsageError: an input that the network needs is missing or ambiguous.
    """
    tensors: dict[str, Tensor] = {}
    for spec in inputs:
        if spec.use == "unread":
            continue
        names = [name for name, modality in given if modality == spec.modality]
        name = spec.name if spec.name in names else names[0] if len(names) == 1 else None
        if name is None:
            if not names and spec.use == "optional":
                continue
            listed = ", ".join(f"{name} ({modality})" for name, modality in given)
            raise UsageError(
                f"the network reads {spec.modality} as {spec.name!r}; the samples of this task hold {listed}."
            )
        if spec.modality == "image":
            tensors[spec.name] = torch.cat([sized(view, spec) for view in images()])
        elif spec.modality == "vector":
            tensors[spec.name] = torch.from_numpy(batch[name])
        else:
            tensors[spec.name] = torch.from_numpy(batch[name][:, : spec.length])
            if f"{name}/mask" in batch:
                tensors[f"{spec.name}/mask"] = torch.from_numpy(batch[f"{name}/mask"][:, : spec.length])
        if f"{name}/present" in batch:
            tensors[f"{spec.name}/present"] = torch.from_numpy(batch[f"{name}/present"])
    return tensors
