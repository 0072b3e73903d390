"""From one input of a batch to features: what the network trains itself, a pretrained tower, or features as they are.

Every extractor has a ``width`` d_m and ``forward(batch, rows)``, which gives features (B, L, d_m) and their mask
(B, L), true at real positions, or None where every position is real (eqs. 1, 28, 33). Of a sample that lacks the input,
a learned token is all there is.

Legend: B samples, L positions of one input, d_m channels of its features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from evodevo.networks.inputs import POSITION_STD, InputLayer, check_shape, lone_token, need_token, stand_in
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.tasks.inputs import InputSpec


class Extractor(Protocol):
    """The common interface of extractors."""

    width: int

    def __call__(self, batch: Mapping[str, Tensor], rows: int) -> tuple[Tensor, Tensor | None]:
        """Features (B, L, d_m) and their mask.

        Args:
            batch: see ``tasks.inputs.Batch``; the input may be missing.
            rows: B.

        Raises:
            UsageError: the input is missing and the model has no token for that, or is of the wrong shape.
        """
        ...


def build_extractor(spec: InputSpec, structure: ExtractorStructure, width: int, *, missing: bool) -> nn.Module:
    """The ``Extractor`` of an input, with parameters from the global random stream.

    Args:
        spec: specification of the input; vectors and features are read as they are, whatever the structure.
        structure: settings of the extractor.
        width: channels of extractors that the network trains itself; towers and features have their own.
        missing: a learned token replaces the input in samples that lack it.

    Raises:
        UsageError: a tower that cannot read this input, or settings that a tower does not have.
        NotFoundError, DataError, UnsafeFileError, StoreDamagedError, MissingExtraError: a tower that cannot be loaded.
    """
    if spec.modality in ("vector", "features"):
        return GivenFeatures(spec, missing=missing)
    if structure.kind == "hugging_face":
        from evodevo.networks.towers.model import build_tower

        return build_tower(spec, structure, missing=missing)
    return InputLayer(
        spec,
        width,
        structure.blocks,
        causal=False,
        missing=missing,
        normalise=structure.normalise,
        positions=structure.positions,
        activation=structure.activation,
        frozen=structure.patches == "frozen" and spec.modality == "image",
        self_attention=structure.self_attention,
    )


class GivenFeatures(nn.Module):
    """Vectors (B, d_m) as one position, and features (B, L, d_m), as the task gives them."""

    def __init__(self, spec: InputSpec, *, missing: bool) -> None:
        super().__init__()
        self.spec = spec
        self.width = spec.size
        self.missing = nn.Parameter(torch.randn(spec.size) * POSITION_STD) if missing else None
        self.register_buffer("like", torch.zeros(()), persistent=False)  # whose type and device the features take

    def forward(self, batch: Mapping[str, Tensor], rows: int) -> tuple[Tensor, Tensor | None]:
        """See ``Extractor``."""
        spec, raw = self.spec, batch.get(self.spec.name)
        if raw is None:
            return lone_token(rows, 1, need_token(spec.name, self.missing))
        vector = spec.modality == "vector"
        check_shape(spec.name, raw, (spec.size,) if vector else (min(raw.shape[1], spec.length), spec.size))
        x = raw.to(self.get_buffer("like").dtype)
        x = x.unsqueeze(1) if vector else x
        present, mask = batch.get(f"{spec.name}/present"), batch.get(f"{spec.name}/mask")
        if present is None or bool(present.all()):
            return x, mask
        return stand_in(x, mask, present, need_token(spec.name, self.missing))
