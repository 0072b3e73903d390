"""Layers and what stands around them in words, for the sentences that describe a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evodevo.operators.layers.spec import GenotypeLayer, Layer, LIVLayer


def layers_words(layers: Sequence[Layer]) -> str:
    """``2 transformer, 1 Rec-1``."""
    counts = Counter(map(_name, layers))
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "no layer"


def ends_words(input_blocks: int, output_blocks: int) -> str:
    """Blocks around the layers."""
    blocks = f"{input_blocks} block{'' if input_blocks == 1 else 's'}"
    return f"{blocks} in each input, {output_blocks} in each output"


def _name(layer: Layer) -> str:
    if isinstance(layer, GenotypeLayer):
        return layer.module.genotype.archetype
    return layer.operator if isinstance(layer, LIVLayer) else layer.kind
