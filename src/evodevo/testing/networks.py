"""Small H-Models, inputs and batches, for tests of networks.

Legend: B samples, L positions of an input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.model import Backbone
from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.space import BackboneSpace
from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.build import build_network
from evodevo.settings import merge, validate
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.tasks.text.language import windows_of

WIDTH = 8
TEXT = InputSpec("text", "tokens", length=12, vocabulary=11)
IMAGE = InputSpec("image", "image", height=4, width=4, channels=1)
FACTS = InputSpec("facts", "vector", size=3)
CLASS = OutputSpec("answer", "class", 3, ("a", "b", "c"))
LABELS = OutputSpec("tags", "labels", 2, ("x", "y"))
NEXT = OutputSpec("next", "tokens", 11, of="text")


def small_structure(**changes: Any) -> HModelStructure:
    """Three transformer layers of width 8 and T = 3, of the paper's stream, with changes as nested plain data."""
    layer = {"kind": "transformer", "heads": 2, "feedforward": 12}
    base = {"stream": "paper", "width": WIDTH, "hidden": [layer] * 3, "iterations": 3, "router": {"hidden": 6}}
    return validate(HModelStructure, merge(base, changes), what="a small H-Model")


def small_model(
    inputs: tuple[InputSpec, ...] = (TEXT,),
    outputs: tuple[OutputSpec, ...] = (CLASS,),
    *,
    seed: int = 0,
    lively: float = 0.7,
    **changes: Any,
) -> HModel:
    """A small H-Model in evaluation mode.

    Args:
        inputs, outputs: inputs and outputs of the model.
        seed: seed of its parameters.
        lively: spread of random numbers added to every parameter of routers, queries and halting units, which start at
            zero and would hide faults; 0 leaves the model as it is built.
        changes: arguments of ``small_structure``.
    """
    model = build_network(HModelNetwork(structure=small_structure(**changes)), inputs, outputs, seed)
    if lively:
        enliven(model, lively, seed)
    return model.eval()


def small_backbone(
    space: BackboneSpace, genome: BackboneGenome, vocabulary: int, seed: int = 0, *, tied: bool = False
) -> Backbone:
    """The language model of a genome."""
    network = build_network(BackboneNetwork.of(space, genome, tied=tied), *windows_of(vocabulary, 1 << 10), seed)
    assert isinstance(network, Backbone)
    return network


def text_batch(windows: Tensor) -> dict[str, Tensor]:
    """Windows (B, L + 1) as the language task hands them out."""
    return {"text": windows[:, :-1], "next/target": windows[:, 1:]}


def enliven(model: nn.Module, spread: float = 0.7, seed: int = 0) -> None:
    """Move the parameters that decide about routing and halting away from their quiet start."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if any(part in name for part in ("router", "query", "unit.", "division", "_source")):
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_((spread * noise).to(parameter.dtype))


def small_batch(
    inputs: tuple[InputSpec, ...] = (TEXT,),
    outputs: tuple[OutputSpec, ...] = (CLASS,),
    *,
    count: int = 4,
    length: int = 7,
    padded: bool = False,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Random samples with targets.

    Args:
        inputs, outputs: inputs and outputs of the task.
        count: B.
        length: L of inputs of tokens, and the largest L of features.
        padded: sequences of different lengths, padded on the right.
        seed: equal seeds give equal batches.
    """
    rng = np.random.default_rng(seed)
    batch: dict[str, Tensor] = {}
    for spec in inputs:
        if spec.modality in ("tokens", "features"):
            if spec.modality == "tokens":
                batch[spec.name] = torch.from_numpy(rng.integers(0, spec.vocabulary, (count, length)))
            else:
                numbers = rng.standard_normal((count, min(length, spec.length), spec.size))
                batch[spec.name] = torch.from_numpy(numbers.astype(np.float32))
            if padded:
                places = np.arange(batch[spec.name].shape[1])
                real = rng.integers(1, len(places) + 1, count)
                batch[f"{spec.name}/mask"] = torch.from_numpy(places < real[:, None])
        elif spec.modality == "image":
            pixels = rng.integers(0, 256, (count, spec.height, spec.width, spec.channels), dtype=np.uint8)
            batch[spec.name] = torch.from_numpy(pixels)
        else:
            batch[spec.name] = torch.from_numpy(rng.standard_normal((count, spec.size)).astype(np.float32))
    for output in outputs:
        if output.kind == "labels":
            target = torch.from_numpy(rng.integers(0, 2, (count, output.size)).astype(np.float32))
        elif output.kind == "class":
            target = torch.from_numpy(rng.integers(0, output.size, count))
        else:
            target = torch.from_numpy(rng.integers(0, output.size, tuple(batch[output.of].shape)))
        batch[f"{output.name}/target"] = target
    return batch


def rows(batch: Mapping[str, Tensor], chosen: slice) -> dict[str, Tensor]:
    """Some samples of a batch."""
    return {name: tensor[chosen] for name, tensor in batch.items()}
