"""Components of a vision path from a Hugging Face ViT checkpoint on this machine.

Read are config.json and model.safetensors, never a pickle, never code, never the network; ``transformers`` is not
needed. A root agent of the kind "checkpoint": docs/spec/munet.md#agents.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from evodevo.errors import DataError
from evodevo.multitask.paths.blocks_spec import BLOCK, CLASS_TOKEN, EMBEDDING, HEAD, NORM, POSITIONS
from evodevo.multitask.paths.model import filled
from evodevo.multitask.paths.vision.checkpoint import checkpoint_structure
from evodevo.multitask.paths.vision.expansion import resize_positions
from evodevo.multitask.paths.vision.model import build_component
from evodevo.multitask.paths.vision.spec import VisionStructure
from evodevo.networks.towers.images import read_preparation
from evodevo.operators.pretrained.files import check_digest, check_stated, weights_digest, weights_file
from evodevo.operators.pretrained.spec import model_folder

_PREFIX = "vit."
_BLOCK_NAMES = {
    "attention_norm": "layernorm_before",
    "query": "attention.attention.query",
    "key": "attention.attention.key",
    "value": "attention.attention.value",
    "out": "attention.output.dense",
    "hidden_norm": "layernorm_after",
    "inner": "intermediate.dense",
    "outer": "output.dense",
}


@dataclass(frozen=True)
class VisionRoot:
    """A checkpoint as a path.

    Attributes:
        structure: structure with as many classes as the checkpoint's head has, 0 without one.
        components: role -> component.
        digest: SHA-256 of the file of weights.
    """

    structure: VisionStructure
    components: dict[str, nn.Module]
    digest: str


def read_root(path: str, *, image_size: int | None = None, head: bool = False, digest: str | None = None) -> VisionRoot:
    """A ViT as the root of a system.

    How its images were normalised becomes part of the patch embedding, since paths read numbers in [-1, 1].

    Args:
        path: a folder with config.json and model.safetensors, or a name in the local Hugging Face cache.
        image_size: the position embedding is resized to it; None keeps the checkpoint's.
        head: whether the classifier comes along, where there is one.
        digest: SHA-256 that the file must have; None does not ask.

    Raises:
        NotFoundError: no such model here.
        UsageError: no ViT, or one that no path can be (its activation, image or patch size).
        UnsafeFileError: the weights are a pickle only.
        StoreDamagedError: the file has another digest.
        DataError: weights are missing, unreadable, or of another shape than in the configuration.
    """
    structure = checkpoint_structure(path)
    check_digest(path, digest)
    folder = model_folder(path)
    check_stated(folder)
    weights = weights_file(folder)
    try:
        with safe_open(weights, framework="pt") as file:
            names = set(file.keys())
            stored = {name: file.get_tensor(name).float() for name in names if ".pooler." not in f".{name}"}
    except Exception as error:  # errors of Rust without stable Python types
        raise DataError(f"{weights} is not readable: {str(error)[:200]}") from None
    if head and "classifier.weight" in stored:
        structure = structure.changed(classes=int(stored["classifier.weight"].shape[0]))
    components = {}
    for role, state in _states(structure, stored, folder):
        if role == EMBEDDING:
            state = _with_normalisation(state, structure, folder)
        components[role] = _component(structure, role, state, folder)
    if image_size is not None and image_size != structure.image_size:
        structure = structure.changed(image_size=image_size)
        resized = resize_positions(components[POSITIONS].state_dict(), structure.grid)
        components[POSITIONS] = filled(build_component(structure, POSITIONS, 0), POSITIONS, resized)
    return VisionRoot(structure, components, weights_digest(path))


def _states(
    structure: VisionStructure, stored: dict[str, Tensor], folder: Path
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    prefix = _PREFIX if any(name.startswith(_PREFIX) for name in stored) else ""

    def take(name: str) -> Tensor:
        if name not in stored:
            raise DataError(f"{folder} has no weights {name!r}; it is not the ViT that its config.json describes.")
        return stored[name]

    def both(ours: str, theirs: str) -> dict[str, Tensor]:
        return {f"{ours}{leaf}": take(f"{prefix}{theirs}.{leaf}") for leaf in ("weight", "bias")}

    for role in structure.roles:
        if role == EMBEDDING:
            yield role, both("project.", "embeddings.patch_embeddings.projection")
        elif role == CLASS_TOKEN:
            yield role, {"token": take(f"{prefix}embeddings.cls_token").flatten()}
        elif role == POSITIONS:
            yield role, {"table": take(f"{prefix}embeddings.position_embeddings").squeeze(0)}
        elif role == NORM:
            yield role, both("", "layernorm")
        elif role == HEAD:
            yield role, {f"project.{leaf}": take(f"classifier.{leaf}") for leaf in ("weight", "bias")}
        else:
            where = f"encoder.layer.{role.removeprefix(BLOCK)}"
            state: dict[str, Tensor] = {}
            for ours, theirs in _BLOCK_NAMES.items():
                if ours in ("query", "key", "value") and f"{prefix}{where}.{theirs}.bias" not in stored:
                    # qkv_bias = false: adding nothing is a bias of zero.
                    weight = take(f"{prefix}{where}.{theirs}.weight")
                    state |= {f"{ours}.weight": weight, f"{ours}.bias": weight.new_zeros(weight.shape[0])}
                else:
                    state |= both(f"{ours}.", f"{where}.{theirs}")
            yield role, state


def _with_normalisation(state: dict[str, Tensor], structure: VisionStructure, folder: Path) -> dict[str, Tensor]:
    """The same map of numbers x in [-1, 1]: the checkpoint reads ((x + 1) / 2 - mean) / std."""
    if not (folder / "preprocessor_config.json").is_file():
        return state  # a ViT's own preparation is x itself
    how = read_preparation(folder, (structure.image_size, structure.image_size))
    mean, std = (torch.tensor(numbers, dtype=torch.float64).view(1, -1, 1, 1) for numbers in (how.mean, how.std))
    weight = state["project.weight"].double()
    moved = (weight * ((0.5 - mean) / std)).sum((1, 2, 3))
    return {
        "project.weight": (weight * (0.5 / std)).float(),
        "project.bias": (state["project.bias"].double() + moved).float(),
    }


def _component(structure: VisionStructure, role: str, state: dict[str, Tensor], folder: Path) -> nn.Module:
    try:
        component = filled(build_component(structure, role, 0), role, state)
    except DataError as error:
        raise DataError(f"{folder} does not fit its config.json: {error}") from None
    if not all(math.isfinite(float(tensor.sum())) for tensor in state.values()):
        raise DataError(f"{folder} has numbers in {role!r} that are not finite.")
    return component
