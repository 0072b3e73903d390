"""Pretrained text and vision towers as extractors: frozen, with their last layers trained, or trained as a whole.

They are read from this machine, as ``operators/pretrained/layers.py`` reads layers: safetensors, no code, no network.

Legend: B samples, L positions, D channels of the tower.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from evodevo.errors import DataError, UsageError
from evodevo.networks.inputs import POSITION_STD, check_shape, lone_token, need_token, stand_in
from evodevo.networks.towers.images import Preparation, prepare, read_preparation
from evodevo.networks.towers.spec import ExtractorStructure, Tower, TowerSizes, tower_sizes
from evodevo.operators.pretrained.files import check_digest
from evodevo.operators.pretrained.layers import load_model
from evodevo.operators.pretrained.spec import model_folder
from evodevo.tasks.inputs import InputSpec

MODEL_CLASSES: Mapping[Tower, tuple[str, tuple[tuple[str, bool], ...]]] = {
    "bert": ("BertModel", (("add_pooling_layer", False),)),
    "roberta": ("RobertaModel", (("add_pooling_layer", False),)),
    "distilbert": ("DistilBertModel", ()),
    "vit": ("ViTModel", (("add_pooling_layer", False),)),
    "clip_text": ("CLIPTextModel", ()),
    "clip_vision": ("CLIPVisionModel", ()),
}
"""Family -> class of transformers, and options of its constructor."""
_LAST_NORMS = ("layernorm", "final_layer_norm")
"""Attributes of the norm behind the last layer, in the families that have one."""


def build_tower(spec: InputSpec, structure: ExtractorStructure, *, missing: bool) -> TextTower | VisionTower:
    """The tower of an input.

    Args:
        spec: specification of the input.
        structure: an extractor of kind ``hugging_face``.
        missing: a learned token replaces the input in samples that lack it.

    Raises:
        NotFoundError: no such model here.
        UsageError: an unknown family, a tower that cannot read this input, or settings of built-in extractors.
        UnsafeFileError: the weights are a pickle only.
        StoreDamagedError: the file has another digest.
        DataError: files that cannot be read, or weights that are not all there.
        MissingExtraError: transformers is not installed.
    """
    path = structure.path
    assert path is not None  # by the structure
    for name, wanted in (("patches", "trained"), ("self_attention", True)):
        if getattr(structure, name) != wanted:
            raise UsageError(
                f"{name} = {getattr(structure, name)!r} is of built-in extractors, and the input {spec.name!r} is read "
                f"by the tower {path}; leave it at {wanted!r}."
            )
    sizes = tower_sizes(path, spec)
    if structure.train == "last" and structure.last > sizes.layer.layers:
        raise UsageError(f"{path} has {sizes.layer.layers} layers; last = {structure.last} cannot be trained.")
    folder = model_folder(path)
    check_digest(path, structure.digest)
    model, lost = load_model(folder, *MODEL_CLASSES[sizes.tower])
    if lost:
        raise DataError(f"{folder} has no weights for {min(lost)}; the file is of another model.")
    core = Core(copy.deepcopy(model), sizes, structure)
    if sizes.reads == "tokens":
        return TextTower(spec, core, missing)
    preparation = read_preparation(folder, sizes.image)
    return VisionTower(spec, core, preparation if structure.normalise else preparation.raw(), missing)


class Core(nn.Module):
    """The model itself and its trained parts. A model that is frozen as a whole has an empty state.

    Args:
        model: a model of transformers.
        sizes: its sizes.
        structure: the extractor's settings; ``train``, ``last`` and ``positions`` are read.
    """

    def __init__(self, model: nn.Module, sizes: TowerSizes, structure: ExtractorStructure) -> None:
        super().__init__()
        self.model = model
        self.sizes = sizes
        self.how = structure.train
        self.learning: list[nn.Module] = []
        if structure.train == "last":
            norms = [getattr(model, name) for name in _LAST_NORMS if isinstance(getattr(model, name, None), nn.Module)]
            self.learning = [*list(_layers(model, sizes.layer.layers))[-structure.last :], *norms]
        model.requires_grad_(structure.train == "all")
        for part in self.learning:
            part.requires_grad_(True)
        if not structure.positions:
            _forget_positions(model)
        if structure.train == "none":
            # Path and digest identify a frozen tower; no checkpoint holds it once more.
            self.register_state_dict_post_hook(_leave_out)  # type: ignore[no-untyped-call]
            self.register_load_state_dict_pre_hook(_take_its_own)  # type: ignore[no-untyped-call]
        self.train()

    def train(self, mode: bool = True) -> Core:
        """Set the mode of the trained parts; frozen ones stay in evaluation mode, so that their dropout is off."""
        super().train(mode)
        if self.how != "all":
            self.model.eval()
            for part in self.learning:
                part.train(mode)
        return self

    def forward(self, **given: Any) -> Tensor:
        """Last hidden states (B, L, D)."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.how != "none"):
            hidden: Tensor = self.model(**given).last_hidden_state
        return hidden


class TextTower(nn.Module):
    """BERT, RoBERTa, DistilBERT or CLIP's text model, whose special tokens are put around every text.

    The task's ids must be the tower's: set the task's tokenizer to the tower's tokenizer.json.
    """

    def __init__(self, spec: InputSpec, core: Core, missing: bool) -> None:
        super().__init__()
        self.spec = spec
        self.core = core
        self.width = core.sizes.width
        self.missing = nn.Parameter(torch.randn(self.width) * POSITION_STD) if missing else None

    def forward(self, batch: Mapping[str, Tensor], rows: int) -> tuple[Tensor, Tensor | None]:
        """See ``extractors.Extractor``."""
        name = self.spec.name
        if name not in batch:
            return lone_token(rows, 1, need_token(name, self.missing))
        tokens = batch[name]
        check_shape(name, tokens, (min(tokens.shape[1], self.spec.length),))
        tokens, mask = surround(tokens, batch.get(f"{name}/mask"), self.core.sizes)
        visible = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        tokens = tokens.masked_fill(~visible, self.core.sizes.padding)  # RoBERTa counts positions by this id
        first = torch.arange(tokens.shape[1], device=tokens.device) == 0
        visible = visible | (first & ~visible.any(1, keepdim=True))  # softmax needs one
        h = self.core(input_ids=tokens, attention_mask=visible.long())
        present = batch.get(f"{name}/present")
        if present is None or bool(present.all()):
            return h, mask
        return stand_in(h, mask, present, need_token(name, self.missing))


class VisionTower(nn.Module):
    """ViT or CLIP's vision model; images are made what it was trained on, from bytes."""

    def __init__(self, spec: InputSpec, core: Core, preparation: Preparation, missing: bool) -> None:
        super().__init__()
        if spec.channels not in (1, core.sizes.channels):
            raise UsageError(
                f"input {spec.name!r} has {spec.channels} channels; the tower reads images of {core.sizes.channels}, "
                "or of one."
            )
        self.spec = spec
        self.core = core
        self.preparation = preparation
        self.width = core.sizes.width
        self.missing = nn.Parameter(torch.randn(self.width) * POSITION_STD) if missing else None

    def forward(self, batch: Mapping[str, Tensor], rows: int) -> tuple[Tensor, Tensor | None]:
        """See ``extractors.Extractor``."""
        spec = self.spec
        if spec.name not in batch:
            return lone_token(rows, 1, need_token(spec.name, self.missing))
        raw = batch[spec.name]
        check_shape(spec.name, raw, (spec.height, spec.width, spec.channels))
        dtype = next(self.core.parameters()).dtype
        pixels = prepare(raw, self.preparation, self.core.sizes.image, self.core.sizes.channels, dtype)
        h = self.core(pixel_values=pixels)
        present = batch.get(f"{spec.name}/present")
        if present is None or bool(present.all()):
            return h, None
        return stand_in(h, None, present, need_token(spec.name, self.missing))


def surround(tokens: Tensor, mask: Tensor | None, sizes: TowerSizes) -> tuple[Tensor, Tensor | None]:
    """Texts (B, L) with the special tokens before the first and behind the last real token of each."""
    prefix, suffix = sizes.prefix, sizes.suffix
    if not prefix and not suffix:
        return tokens, mask
    rows, length = tokens.shape
    before, after = (tokens.new_tensor(ids).expand(rows, -1) for ids in (prefix, suffix))
    if mask is None:
        return torch.cat([before, tokens, after], 1), None
    room = tokens.new_full((rows, len(suffix)), sizes.padding)
    whole = torch.cat([before, tokens, room], 1)
    real = torch.cat([torch.ones_like(before, dtype=torch.bool), mask, torch.zeros_like(room, dtype=torch.bool)], 1)
    end = (torch.arange(1, length + 1, device=mask.device) * mask).amax(1, keepdim=True)
    places = len(prefix) + end + torch.arange(len(suffix), device=mask.device)
    return whole.scatter(1, places, after), real.scatter(1, places, True)


def _layers(model: nn.Module, count: int) -> nn.ModuleList:
    """The encoder layers; where they lie differs between families and releases."""
    return next(part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == count)


@torch.no_grad()
def _forget_positions(model: nn.Module) -> None:
    """Position embeddings of zero that do not learn."""
    for name, parameter in model.named_parameters():
        if "position_embedding" in name:
            parameter.zero_()
            parameter.requires_grad_(False)


def _leave_out(core: nn.Module, state: dict[str, Any], prefix: str, metadata: Mapping[str, Any]) -> None:
    for name in [name for name in state if name.startswith(prefix)]:
        del state[name]


def _take_its_own(core: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    assert isinstance(core, Core), "registered there"
    state.update(core.model.state_dict(prefix=f"{prefix}model."))
