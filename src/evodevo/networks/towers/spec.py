"""The conversion of an input to tokens, and the sizes and costs of a pretrained text or vision tower, from the files
beside it.

Legend: L positions, D channels, F hidden units, V ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from evodevo import files
from evodevo.errors import UsageError, quoted_list
from evodevo.networks.canvas import InputSizes
from evodevo.operators.cost import Work
from evodevo.operators.pretrained.spec import (
    CONFIG,
    PretrainedSizes,
    model_folder,
    read_config,
    root_of,
    size_in,
)
from evodevo.settings import Settings
from evodevo.tasks.text.tokenizers import read_tokenizer_file

Tower = Literal["bert", "roberta", "distilbert", "vit", "clip_text", "clip_vision"]
_TOWERS: Mapping[str, Tower] = {
    "bert": "bert",
    "roberta": "roberta",
    "distilbert": "distilbert",
    "vit": "vit",
    "clip_text_model": "clip_text",
    "clip_vision_model": "clip_vision",
}

_USUAL = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers")
_NAMES: Mapping[str, tuple[str, str, str, str]] = {"distilbert": ("dim", "hidden_dim", "n_heads", "n_layers")}
# Defaults of the family, for keys that a configuration may leave out.
_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "clip_text": dict(
        zip((*_USUAL, "vocab_size", "max_position_embeddings"), (512, 2048, 8, 12, 49408, 77), strict=True)
    ),
    "clip_vision": dict(zip((*_USUAL, "image_size", "patch_size"), (768, 3072, 12, 12, 224, 32), strict=True)),
}


class ExtractorStructure(Settings):
    """The conversion of one input to tokens (eqs. 1, 28, 33).

    Attributes:
        kind: ``built_in`` (embedding or patches, learned positions, a small transformer); ``hugging_face`` (a text or
            vision tower at ``path``, a folder or a name in the local cache). Inputs of features (B, L, size) are read
            as they are, whatever the kind.
        blocks: transformer blocks of the built-in one.
        path: path or name of the tower.
        digest: SHA-256 of its safetensors file; checked where given, filled in by the run that first reads it.
        train: parameters of the tower that learn: ``none``, the ``last`` layers, ``all``. Built-in ones always do.
        last: number of layers that learn with ``train`` = ``last``.
        learning_rate: learning rate of the tower, as a factor of the network's.
        normalise: false reads pixels as they are stored, from 0 to 255 (Table 3, block B).
        positions: false takes the position embeddings away (Table 3, block B).
        activation: function after the built-in patch embedding; without it and without blocks a zoo whose modules do
            not work on each position by itself sees sums of pixels alone.
        patches: ``frozen`` leaves the built-in patch embedding at its random start (Table 3, block B).
        self_attention: false makes the built-in blocks token-wise (Table 3, block C).
    """

    kind: Literal["built_in", "hugging_face"] = "built_in"
    blocks: int = Field(default=2, ge=0, le=24)
    path: str | None = Field(default=None, max_length=4096)
    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    train: Literal["none", "last", "all"] = "none"
    last: int = Field(default=1, ge=1, le=128)
    learning_rate: float = Field(default=1.0, gt=0, le=10)
    normalise: bool = True
    positions: bool = True
    activation: Literal["none", "relu"] = Field(default="none", exclude_if=lambda value: value == "none")
    patches: Literal["trained", "frozen"] = "trained"
    self_attention: bool = True

    @model_validator(mode="after")
    def _a_tower_has_a_path(self) -> Self:
        if self.kind == "hugging_face" and self.path is None:
            raise ValueError("an extractor of kind hugging_face needs the path of a model")
        return self


@dataclass(frozen=True)
class TowerSizes:
    """One tower.

    Attributes:
        tower: its family, with the half of a model that has two.
        layer: its encoder layers.
        vocabulary: V of a text tower.
        places: rows of its table of positions.
        longest: positions that a text may have, special tokens included.
        padding: id that pads.
        types: rows of its table of token types.
        image, patch: height and width of a vision tower.
        channels: channels of its images.
        prefix, suffix: special tokens around every text.
    """

    tower: Tower
    layer: PretrainedSizes
    vocabulary: int = 0
    places: int = 0
    longest: int = 0
    padding: int = 0
    types: int = 0
    image: tuple[int, int] = (0, 0)
    patch: tuple[int, int] = (0, 0)
    channels: int = 0
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """D."""
        return self.layer.width

    @property
    def reads(self) -> Literal["tokens", "image"]:
        """The modality."""
        return "image" if self.channels else "tokens"

    @property
    def patches(self) -> int:
        """Number of patches of an image."""
        return (self.image[0] // self.patch[0]) * (self.image[1] // self.patch[1])

    def length(self, spec: InputSizes) -> int:
        """L of an input: its tokens and the special ones, or the patches and the token of the class."""
        return 1 + self.patches if self.channels else spec.length + len(self.prefix) + len(self.suffix)

    @property
    def parameters(self) -> int:
        """All of the tower, without the pooler, which it has not."""
        width = self.width
        layers = self.layer.layers * self.layer.parameters
        if not self.channels:
            norm = 2 * width  # behind the embeddings, or behind the last layer
            return layers + (self.vocabulary + self.places + self.types) * width + norm
        pixels = self.patch[0] * self.patch[1] * self.channels
        around = (1 + 1 + self.patches) * width + pixels * width  # token of the class, positions, patches
        return layers + around + (width + 2 * width if self.tower == "vit" else 4 * width)

    def work(self, length: int) -> Work:
        """Work on one sample of L positions."""
        width, hidden = self.width, self.layer.feedforward
        layer = 8 * length * width**2 + 4 * length**2 * width + 4 * length * width * hidden
        patches = 2 * self.patches * self.patch[0] * self.patch[1] * self.channels * width if self.channels else 0
        return Work(self.layer.layers * layer + patches)


def tower_sizes(path: str, spec: InputSizes) -> TowerSizes:
    """The tower of a model that reads an input.

    Args:
        path: a folder with config.json, or a name in the local Hugging Face cache.
        spec: sizes of the input; a CLIP model has a tower for each modality.

    Raises:
        NotFoundError: no such folder or name.
        DataError: no readable configuration.
        UsageError: an unknown family, or one that cannot read this input.
    """
    sizes = _read(model_folder(path), spec.modality)
    if sizes.reads != spec.modality:
        raise UsageError(f"{path} reads {sizes.reads}, and the input is of the modality {spec.modality!r}.")
    if sizes.reads == "image":
        return sizes
    if spec.vocabulary > sizes.vocabulary:
        raise UsageError(
            f"{path} has {sizes.vocabulary} token ids and the task has {spec.vocabulary}: set the task's tokenizer to "
            f"{model_folder(path) / 'tokenizer.json'}."
        )
    if sizes.length(spec) > sizes.longest:
        around = len(sizes.prefix) + len(sizes.suffix)
        raise UsageError(
            f"{path} reads {sizes.longest} positions and puts {around} special tokens around a text; the task's texts "
            f"have {spec.length} tokens. Set the task's length to at most {sizes.longest - around}."
        )
    return sizes


def modalities(path: str) -> tuple[Literal["tokens", "image"], ...]:
    """What the towers of a model read; a CLIP model has two.

    Args:
        path: a folder with config.json, or a name in the local Hugging Face cache.

    Raises:
        NotFoundError: no such folder or name.
        DataError: no readable configuration.
        UsageError: an unknown family.
    """
    folder = model_folder(path)
    if read_config(folder).get("model_type") == "clip":
        return ("tokens", "image")
    return (_read(folder, "tokens").reads,)


def _read(folder: Path, modality: str) -> TowerSizes:
    file = folder / CONFIG
    values: Any = read_config(folder)
    kind = values.get("model_type")
    if kind == "clip":
        part = "vision" if modality == "image" else "text"
        kind, values = f"clip_{part}_model", values.get(f"{part}_config") or {}
    tower = _TOWERS.get(kind) if isinstance(kind, str) else None
    if tower is None or not isinstance(values, dict):
        raise UsageError(
            f"{file} describes a model of type {str(kind)[:40]!r}; extractors can be "
            f"{quoted_list(('bert', 'roberta', 'distilbert', 'vit', 'clip'))}."
        )
    values = {**_DEFAULTS.get(tower, {}), **values}
    names = _NAMES.get(tower, _USUAL)
    width, feedforward, heads, layers = (size_in(values, name, file) for name in names)
    layer = PretrainedSizes(tower, width, feedforward, heads, layers, values.get("qkv_bias", True) is True)
    if tower in ("vit", "clip_vision"):
        image, patch = _pair(values, "image_size", file), _pair(values, "patch_size", file)
        channels = size_in({"num_channels": 3, **values}, "num_channels", file)
        return TowerSizes(tower, layer, image=image, patch=patch, channels=channels)
    padding = values.get("pad_token_id")
    padding = padding if type(padding) is int and padding >= 0 else 0
    places = size_in(values, "max_position_embeddings", file)
    prefix, suffix = _special_tokens(folder)
    return TowerSizes(
        tower,
        layer,
        vocabulary=size_in(values, "vocab_size", file),
        places=places,
        longest=places - padding - 1 if tower == "roberta" else places,  # it counts from behind the id of padding
        padding=padding,
        types=size_in({"type_vocab_size": 2, **values}, "type_vocab_size", file) if tower in ("bert", "roberta") else 0,
        prefix=prefix,
        suffix=suffix,
    )


def _pair(values: Mapping[str, Any], name: str, file: Path) -> tuple[int, int]:
    value = values.get(name)
    high, wide = value if isinstance(value, list) and len(value) == 2 else (value, value)
    return size_in({name: high}, name, file), size_in({name: wide}, name, file)


def _special_tokens(folder: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids that the tower's own tokenizer puts before and after a text; none where there is no tokenizer.json."""
    file = folder / "tokenizer.json"
    if not files.regular(file, root_of(folder)):
        return (), ()
    facts = file.stat()
    return _around(file, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=8)
def _around(file: Path, changed: int, size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ids, special = read_tokenizer_file(file).framed("a")
    inside = [place for place, mark in enumerate(special) if not mark]
    if not inside:
        return (), ()
    return tuple(ids[: inside[0]]), tuple(ids[inside[-1] + 1 :])
