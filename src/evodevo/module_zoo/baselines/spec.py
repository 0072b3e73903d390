"""Structures of the zoo's baselines as plain data: other ways to fuse several modalities, with the same extractors.

Source: docs/spec/architect_thyself.md#opponents.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from evodevo.networks.mixtures.spec import MixtureStyle
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.operators.spec import Activation
from evodevo.settings import Settings

FusionStyle = Literal["concat_mlp", "late_fusion", "gated_unit", "two_stream", "cross_modality"]


class BaselineStructure(Settings):
    """Structure of a network with a fixed design.

    Attributes:
        style: ``concat_mlp`` (pooled modalities side by side, an MLP); ``late_fusion`` (a network per modality, an MLP
            over them, and a loss for each: AutoGluon's way); ``gated_unit`` (Arevalo et al. 2017);
            ``two_stream`` (co-attention between two streams: ViLBERT, small, from scratch); ``cross_modality`` (one
            encoder per modality, then cross-attention both ways: LXMERT, likewise); mixtures of experts over the
            tokens of all modalities: ``switch`` (top-1, balance and z loss: Fedus et al. 2022), ``st_moe`` (top-2,
            Zoph et al. 2022), ``soft_moe`` (slots, Puigcerver et al. 2024), ``dyn_moe`` (as many experts as a learned
            threshold lets through, Guo et al. 2025).
        width, extractors, extractor, missing: Same as in ``ZooStructure``.
        layers: Number of blocks of ``two_stream``, ``cross_modality`` and the mixtures; of hidden layers of the MLPs.
        heads: Number of attention heads, a divisor of the width.
        hidden: Number of hidden units of MLPs, feed-forward parts and each expert.
        activation: Activation of the hidden units.
        experts: Number of experts of a mixture.
        slots: Number of slots of each expert of ``soft_moe``.
        capacity: Largest number of tokens of an expert of ``switch`` and ``st_moe``, as a multiple of its even share,
            in training; in evaluation none is dropped.
        balance, z: Weights of the losses on routing, per block; the first of ``dyn_moe`` penalises similarity and
            length of its gates, ``soft_moe`` has neither.
        modality_loss: Weight of the mean of the modalities' own losses (``late_fusion``), at least 0.
        dropout: Dropout on the embeddings of each modality and on layers' outputs, 0 to below 1.
    """

    style: FusionStyle | MixtureStyle = "concat_mlp"
    width: int = Field(default=64, ge=4, le=65536)
    extractors: dict[str, ExtractorStructure] = Field(default_factory=dict)
    extractor: ExtractorStructure = ExtractorStructure()
    layers: int = Field(default=2, ge=1, le=64)
    heads: int = Field(default=4, ge=1, le=64)
    hidden: int = Field(default=128, ge=1, le=1 << 18)
    activation: Activation = "gelu"
    experts: int = Field(default=6, ge=2, le=256)
    slots: int = Field(default=2, ge=1, le=256)
    capacity: float = Field(default=1.25, gt=0, le=64)
    balance: float = Field(default=0.01, ge=0)
    z: float = Field(default=1e-3, ge=0)
    modality_loss: float = Field(default=0.5, ge=0)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    missing: bool = True

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"heads is {self.heads}, which does not divide the width {self.width}")
        return self

    def extractor_of(self, name: str) -> ExtractorStructure:
        """The extractor of an input."""
        return self.extractors.get(name, self.extractor)
