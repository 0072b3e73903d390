"""The sizes of one encoder layer of a pretrained Hugging Face model, from its config.json alone."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evodevo import canonical, files
from evodevo.errors import DataError, NotFoundError, UnsafeFileError, UsageError, quoted_list

# model_type -> names of (hidden size, feed-forward size, heads, layers) in its configuration
FAMILIES = {
    "bert": ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"),
    "roberta": ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"),
    "vit": ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"),
    "distilbert": ("dim", "hidden_dim", "n_heads", "n_layers"),
}
CONFIG = "config.json"
LARGEST_CONFIG = files.MIB
MAX_LAYERS = 512
_LAYERS = frozenset(names[-1] for names in FAMILIES.values())
_PARTS = ("text_config", "vision_config", "decoder", "encoder")
_CODE = frozenset({"auto_map", "trust_remote_code", "custom_pipelines"})
_ATTENTION = ("_attn_implementation", "attn_implementation")
_HARMLESS: tuple[Any, ...] = (None, False, True, {}, "eager", "sdpa", "flash_attention_2")
_SNAPSHOTS = "snapshots"
_REFERENCE_BYTES = 4096
_REVISION = re.compile(r"[0-9A-Za-z_-]{1,80}")


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
    folder = model_folder(path)
    file, values = folder / CONFIG, read_config(folder)
    family = values.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise UsageError(
            f"{file} describes a model of type {str(family)[:40]!r}; layers can be taken from {quoted_list(FAMILIES)}."
        )
    width, feedforward, heads, layers = (size_in(values, name, file) for name in FAMILIES[family])
    return PretrainedSizes(family, width, feedforward, heads, layers, values.get("qkv_bias", True) is True)


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration of a model, after a check that nothing in it asks for code.

    Raises:
        DataError: There is none, it is no JSON object or too large, or the weights are quantised.
        UnsafeFileError: It names code, which no library is to import.
    """
    file = folder / CONFIG
    if not files.regular(file, root_of(folder)):
        raise DataError(f"{file} is not a configuration; give the folder that save_pretrained has written.")
    values = read_object(file, folder)
    for part in (values, *(values[name] for name in _PARTS if isinstance(values.get(name), dict))):
        named = sorted(name for name in part if name in _CODE or name.startswith(_ATTENTION))
        if any(part[name] not in _HARMLESS for name in named):
            raise UnsafeFileError(
                f"{file} has the key {named[0]!r}, by which a model brings code of its own; it is not loaded. "
                "Save it with a class of transformers."
            )
        if part.get("quantization_config") is not None:
            raise DataError(f"{file} has a quantization_config; save the model in float32 without quantisation.")
    return values


def read_object(file: Path, folder: Path) -> dict[str, Any]:
    """A JSON object in a file of a model's folder.

    Raises:
        DataError: It is none, or has more than a MiB.
        UnsafeFileError: It is a link that leads out of the folder.
    """
    try:
        values = canonical.loads(files.read(file, LARGEST_CONFIG, inside=root_of(folder)), what=str(file))
    except UsageError as error:
        raise DataError(str(error)) from None
    if not isinstance(values, dict):
        raise DataError(f"{file} holds no JSON object.")
    return values


def root_of(folder: Path) -> Path:
    """The folder out of which no link of a model may lead; in the cache a model's snapshots link to its blobs."""
    return folder.parent.parent if folder.parent.name == _SNAPSHOTS else folder


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
        name = files.read_text(reference, _REFERENCE_BYTES).strip()
        snapshot = model / _SNAPSHOTS / name
        if _REVISION.fullmatch(name) and snapshot.is_dir():
            return snapshot
    raise NotFoundError(f"no folder {path!r}, and no model of that name in {cache}; nothing is downloaded here.")


def size_in(values: Mapping[str, Any], name: str, file: Path) -> int:
    """A size in a configuration.

    Raises:
        DataError: It is no whole number, or more than any model has.
    """
    value = values.get(name)
    most = MAX_LAYERS if name in _LAYERS else 1 << 20
    if type(value) is not int or not 1 <= value <= most:
        raise DataError(f"{file}: {name} is {str(value)[:40]!r}; a whole number from 1 to {most:,} is wanted.")
    return value
