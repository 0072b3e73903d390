"""Layers and the inputs and outputs around them in words, for the sentences that describe a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evodevo.operators.layers.base import LayerSpec


def layers_words(layers: Sequence[LayerSpec]) -> str:
    """``2 transformer, 1 Rec-1``."""
    counts = Counter(layer.type_name for layer in layers)
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "no layer"


def ends_words(input_blocks: int, output_blocks: int) -> str:
    """Blocks around the layers."""
    blocks = f"{input_blocks} block{'' if input_blocks == 1 else 's'}"
    return f"{blocks} in each input, {output_blocks} in each output"
