"""The sizes of one encoder layer of a pretrained Hugging Face model, from its config.json alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evodevo import canonical
from evodevo.errors import DataError, NotFoundError, UsageError, quoted_list

# model_type -> names of (hidden size, feed-forward size, heads, layers) in its configuration
FAMILIES = {
    "bert": ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"),
    "roberta": ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"),
    "vit": ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"),
    "distilbert": ("dim", "hidden_dim", "n_heads", "n_layers"),
}
LARGEST_CONFIG = 1 << 20


@dataclass(frozen=True)
class PretrainedSizes:
    """One encoder layer.

    Attributes:
        family: ``bert``, ``roberta``, ``distilbert`` or ``vit``.
        width: channels.
        feedforward: hidden units.
        heads: attention heads.
        layers: number of layers of the model.
        query_bias: queries, keys and values have biases.
    """

    family: str
    width: int
    feedforward: int
    heads: int
    layers: int
    query_bias: bool = True

    @property
    def parameters(self) -> int:
        """Four projections, two maps, two norms with shift, as all of these families have them."""
        width, hidden = self.width, self.feedforward
        biases = (4 if self.query_bias else 1) * width + hidden + width
        return 4 * width**2 + 2 * width * hidden + biases + 4 * width


def read_sizes(path: str) -> PretrainedSizes:
    """Sizes from the configuration of a model.

    Args:
        path: a folder with config.json, or a name in the local Hugging Face cache ("prajjwal1/bert-tiny").

    Raises:
        NotFoundError: no such folder or name.
        DataError: no readable configuration.
        UsageError: a family that is not known.
    """
    file = model_folder(path) / "config.json"
    if not file.is_file() or file.stat().st_size > LARGEST_CONFIG:
        raise DataError(f"{file} is not a configuration; give the folder that save_pretrained has written.")
    values = canonical.loads(file.read_bytes())
    family = values.get("model_type") if isinstance(values, dict) else None
    if not isinstance(family, str) or family not in FAMILIES:
        raise UsageError(
            f"{file} describes a model of type {str(family)[:40]!r}; layers can be taken from {quoted_list(FAMILIES)}."
        )
    width, feedforward, heads, layers = (_size(values, name, file) for name in FAMILIES[family])
    return PretrainedSizes(family, width, feedforward, heads, layers, values.get("qkv_bias", True) is True)


def model_folder(path: str) -> Path:
    """The folder of a model: the path itself, or its newest snapshot in the local Hugging Face cache.

    Raises:
        NotFoundError: neither is there.
    """
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    model = cache / f"models--{path.replace('/', '--')}"
    reference = model / "refs" / "main"
    if ".." not in Path(path).parts and reference.is_file():
        snapshot = model / "snapshots" / reference.read_text(encoding="utf-8").strip()
        if snapshot.is_dir():
            return snapshot
    raise NotFoundError(f"no folder {path!r}, and no model of that name in {cache}; nothing is downloaded here.")


def _size(values: dict[str, Any], name: str, file: Path) -> int:
    value = values.get(name)
    if type(value) is not int or not 1 <= value <= 1 << 20:
        raise DataError(f"{file}: {name} is {str(value)[:40]!r}; a whole number from 1 is wanted.")
    return value
