"""The structure of a Hugging Face ViT checkpoint on this machine, from its config.json alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.errors import UsageError
from evodevo.multitask.paths.blocks_spec import PathActivation
from evodevo.multitask.paths.vision.spec import VisionStructure
from evodevo.operators.pretrained.spec import model_folder, read_config, read_sizes
from evodevo.settings import validate

ACTIVATIONS: Mapping[str, PathActivation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Name in a configuration -> ours."""


def checkpoint_structure(path: str) -> VisionStructure:
    """The structure of a checkpoint, headless, at its own image size.

    Args:
        path: a folder with config.json, or a name in the local Hugging Face cache.

    Raises:
        NotFoundError: no such model here.
        DataError: no readable configuration.
        UsageError: no ViT, or one that no path can be (its activation, channels, image or patch size).
    """
    family, folder = read_sizes(path).family, model_folder(path)
    if family != "vit":
        raise UsageError(f"{folder} is a model of the family {family!r}; the root of image paths is a 'vit'.")
    config = read_config(folder)
    activation = config.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise UsageError(f"{folder} has the activation {str(activation)[:40]!r}; known: {', '.join(ACTIVATIONS)}.")
    values = {
        "width": config["hidden_size"],
        "heads": config["num_attention_heads"],
        "hidden": config["intermediate_size"],
        "layers": config["num_hidden_layers"],
        "image_size": _side(config.get("image_size", 224), "image_size", folder),
        "patch": _side(config.get("patch_size", 16), "patch_size", folder),
        "channels": config.get("num_channels", 3),
        "activation": ACTIVATIONS[activation],
        "norm_epsilon": config.get("layer_norm_eps", 1e-12),
    }
    return validate(VisionStructure, values, what=str(folder / "config.json"))


def _side(value: Any, name: str, folder: object) -> Any:
    """Configurations have a number, or two for height and width."""
    if isinstance(value, list) and len(set(map(str, value))) == 1:
        return value[0]
    if isinstance(value, list):
        raise UsageError(f"{folder} has {name} {str(value)[:40]}; paths read square images of square patches.")
    return value
