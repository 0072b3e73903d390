"""One encoder layer of a pretrained Hugging Face model as an operator (H-Model 6.7).

Source: docs/spec/h_model.md#pretrained-layers.

Everything is read from this machine: config.json and model.safetensors, never a pickle, never code, never the network.

Legend: B batch, S positions, D channels of the pretrained model.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from evodevo.errors import DataError, UsageError, missing_extra
from evodevo.operators.base import Operator, Output
from evodevo.operators.pretrained.files import WEIGHTS, check_digest, check_stated, weights_file
from evodevo.operators.pretrained.spec import model_folder, read_sizes
from evodevo.operators.self_attention import visible_keys

_PARTS = {"Text": "text_config", "Vision": "vision_config"}
"""Word in the name of a class -> key of its part in the configuration of a model that has two."""


class Family:
    """Access to the layers of one family of models; signatures differ between families, so each has its own class.

    Attributes:
        model_class: name in ``transformers`` of the model without a head.
        options: arguments of its constructor that leave out parts which no layer needs.
    """

    model_class: ClassVar[str]
    options: ClassVar[Mapping[str, bool]] = {}

    def layers(self, model: Any) -> nn.ModuleList:
        """The encoder layers, in order."""
        layers: nn.ModuleList = model.encoder.layer
        return layers

    def call(self, layer: nn.Module, x: Tensor, visible: Tensor | None) -> Tensor:
        """Hidden states (B, S, D) after the layer; ``visible`` is (B, 1, S, S) or None."""
        return _first(layer(x, attention_mask=visible))


class Bert(Family):
    """BERT, MiniLM and whatever else has BERT's configuration."""

    model_class = "BertModel"
    options: ClassVar[Mapping[str, bool]] = {"add_pooling_layer": False}


class Roberta(Family):
    """RoBERTa; its layers are BERT's."""

    model_class = "RobertaModel"
    options: ClassVar[Mapping[str, bool]] = {"add_pooling_layer": False}


class DistilBert(Family):
    """DistilBERT."""

    model_class = "DistilBertModel"

    def layers(self, model: Any) -> nn.ModuleList:
        """See ``Family``."""
        layers: nn.ModuleList = model.transformer.layer
        return layers


class ViT(Family):
    """Vision transformers of the ViT configuration; they are pre-norm."""

    model_class = "ViTModel"
    options: ClassVar[Mapping[str, bool]] = {"add_pooling_layer": False}

    def layers(self, model: Any) -> nn.ModuleList:
        """See ``Family``; the list has moved between releases."""
        layers: nn.ModuleList = model.encoder.layer if hasattr(model, "encoder") else model.layers
        return layers


FAMILIES: dict[str, Callable[[], Family]] = {"bert": Bert, "roberta": Roberta, "distilbert": DistilBert, "vit": ViT}


class PretrainedBlock(Operator):
    """A pretrained encoder layer: with norms and residuals of its own; bidirectional.

    Args:
        layer: encoder layer of a model of the family.
        family: the calling convention of the layer.
        train: ``none`` freezes it, its dropout too; ``all`` fine-tunes it.
    """

    causal = False
    streamable = False

    def __init__(self, layer: nn.Module, family: Family, train: Literal["none", "all"]) -> None:
        super().__init__()
        self.layer = layer
        self.family = family
        self.frozen = train == "none"
        self.layer.requires_grad_(not self.frozen)
        self.train()

    def train(self, mode: bool = True) -> PretrainedBlock:
        """A frozen layer stays in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.layer.eval()
        return self

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``."""
        visible = visible_keys(mask)
        if visible is not None:
            visible = visible.expand(-1, -1, x.shape[1], -1)
        return Output(self.family.call(self.layer, x, visible))

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """
        Raises:
            UsageError: always; encoders look both ways.
        """
        raise UsageError("a pretrained encoder layer looks both ways and cannot go on token by token.")


def pretrained_block(path: str, index: int, *, train: Literal["none", "all"], digest: str | None) -> PretrainedBlock:
    """A layer of a model on this machine.

    Args:
        path: a folder with config.json and model.safetensors, or a name in the local Hugging Face cache.
        index: number of the layer, from 0.
        train: see ``PretrainedBlock``.
        digest: SHA-256 that the safetensors file must have; None does not ask.

    Raises:
        NotFoundError: no such model here.
        UsageError: an unknown family, or no such layer.
        UnsafeFileError: the weights are a pickle only.
        StoreDamagedError: the file has another digest.
        DataError: the file has no weights for this layer.
        MissingExtraError: transformers is not installed.
    """
    sizes = read_sizes(path)
    folder = model_folder(path)
    check_digest(path, digest)
    model, missing = load_encoder(folder, sizes.family)
    family = FAMILIES[sizes.family]()
    layers = family.layers(model)
    if not 0 <= index < len(layers):
        raise UsageError(f"layer {index} of {path}: the model has layers 0 to {len(layers) - 1}.")
    lost = [name for name in missing if f".{index}." in name]
    if lost:
        raise DataError(f"{folder / WEIGHTS} has no weights for {lost[0]}; the file is of another model.")
    return PretrainedBlock(copy.deepcopy(layers[index]), family, train)


def load_encoder(folder: Path, family: str) -> tuple[Any, frozenset[str]]:
    """A model without its head, in evaluation mode and float32, and the names of weights that the file lacks.

    The last two are kept, since several layers of one model are common; a caller that changes one copies it first.
    """
    chosen = FAMILIES[family]()
    return load_model(folder, chosen.model_class, tuple(chosen.options.items()))


def load_model(
    folder: Path, model_class: str, options: tuple[tuple[str, bool], ...] = ()
) -> tuple[Any, frozenset[str]]:
    """A model of a class of ``transformers``; see ``load_encoder``, which names it by its family.

    Raises:
        NotFoundError, UnsafeFileError, DataError, UsageError, MissingExtraError: see ``pretrained_block``.
    """
    check_stated(folder, next((key for word, key in _PARTS.items() if word in model_class), None))
    facts = weights_file(folder).stat()
    return _load(folder, model_class, options, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=2)
def _load(
    folder: Path, model_class: str, options: tuple[tuple[str, bool], ...], changed: int, size: int
) -> tuple[Any, frozenset[str]]:
    try:
        import transformers
    except ImportError:
        raise missing_extra("transformers", "hf", "pretrained models") from None
    # What a file lacks is drawn; the draws of the network around must not depend on which donor was loaded first.
    with torch.random.fork_rng(devices=[]), quiet(transformers):
        try:
            model, report = getattr(transformers, model_class).from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                attn_implementation="sdpa",
                output_loading_info=True,
                **dict(options),
            )
        except Exception as error:  # of a library that reads what others wrote: any
            raise DataError(f"{folder} is not a model that transformers reads: {str(error)[:300]}") from None
    if getattr(model.config, "is_decoder", False):
        raise UsageError(f"{folder} is a decoder; layers are taken from encoders.")
    refuse_broken(model.state_dict(), folder / WEIGHTS)
    return model.eval(), frozenset(report["missing_keys"])


def refuse_broken(tensors: Mapping[str, Tensor], file: Path) -> None:
    """Check that weights are numbers.

    Raises:
        DataError: A tensor has NaN or infinity; the message has its name.
    """
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise DataError(f"{file} holds NaN or infinity in {name!r}; such a model is not used.")


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """No progress bars and no reports about heads that are left out; as it was afterwards."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def _first(answer: Any) -> Tensor:
    """Layers of older releases return tuples."""
    y: Tensor = answer[0] if isinstance(answer, tuple) else answer
    return y
