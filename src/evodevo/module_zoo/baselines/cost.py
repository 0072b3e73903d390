"""Cost of the zoo's baselines: encoders, trunk and heads, in parts that add up.

Source: docs/spec/architect_thyself.md#opponents.

``module_zoo/baselines/model.py`` builds exactly these parameters; a test recounts them, and the matrix products.

Legend: L positions, d width, F hidden units, E experts, P slots of an expert, M modalities (1 or 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evodevo.errors import UsageError
from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.encoders.cost import senses_parameters, senses_work, side_lengths
from evodevo.module_zoo.encoders.spec import Read
from evodevo.module_zoo.spec import StatisticsStructure
from evodevo.networks.canvas import NamedInput, OutputSizes
from evodevo.networks.cost import WEIGHT_BYTES, check_pass
from evodevo.networks.mixtures.cost import mixture_parameters, mixture_work
from evodevo.operators.cost import Cost, Mode, Work
from evodevo.operators.layers.cost import layer_parameters, layer_work
from evodevo.operators.layers.transformer import TransformerLayer

STATISTICS = StatisticsStructure(kind="mean")
"""Pooling of a modality for baselines that read one vector of it."""
_OF_VECTORS = ("concat_mlp", "late_fusion", "gated_unit")


def baseline_cost(
    structure: BaselineStructure,
    *,
    inputs: Sequence[NamedInput] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
    batch: int = 1,
    mode: Mode = "prefill",
) -> Cost:
    """Cost of one pass over samples that fill all their positions; fields as in ``h_model_cost``.

    ``dyn_moe`` selects its number of experts: both numbers of FLOPs let every expert run on every token, the upper
    bound. is the most it can do. Capacity drops tokens while training alone and is left out.

    Args:
        structure: Structure of the baseline.
        inputs, outputs: Inputs and outputs of the task; without inputs the cost is that of the trunk over two
            modalities.
        length: Number of positions of each modality, where there are no inputs.
        batch: Number of samples.
        mode: ``prefill``, or ``train`` (three times the FLOPs); a whole pass in both.

    Raises:
        UsageError: Neither inputs nor length, or both; a batch below 1; mode ``decode``.
    """
    check_pass(batch, mode)
    lengths = _lengths(structure, inputs, length)
    heads = sum((structure.width + 1) * spec.size for spec in outputs)
    norms = structure.width * len(outputs)
    copies = 1 + (len(lengths) if structure.style == "late_fusion" and structure.modality_loss else 0)
    reads = baseline_reads(structure)
    senses = senses_parameters(structure, STATISTICS, inputs, reads)
    embeddings = senses.pop("embeddings")
    trunk_parameters, trunk_work = _TRUNKS[structure.style]
    own = sum(senses.values()) + trunk_parameters(structure, len(lengths)) + copies * norms
    work = senses_work(structure, STATISTICS, inputs, reads) + trunk_work(structure, lengths)
    work += Work(sum(2 * structure.width * spec.size for spec in outputs))
    flops = batch * work.total * (3 if mode == "train" else 1)
    return Cost(
        parameters=own,
        embedding_parameters=embeddings + copies * heads,
        cache_bytes=0,
        flops=flops,
        executed_flops=flops,
        bytes_read=WEIGHT_BYTES * (own + heads),
    )


def baseline_reads(structure: BaselineStructure) -> frozenset[Read]:
    """Representations that a baseline reads of each modality: one vector, or its tokens."""
    return frozenset({"vector" if structure.style in _OF_VECTORS else "tokens"})


def _lengths(structure: BaselineStructure, inputs: Sequence[NamedInput], length: int | None) -> list[int]:
    if (length is None) == (not inputs):
        raise UsageError("give the inputs of the task, or else the number of positions of a modality (length).")
    if length is not None:
        return [length, length]
    return [side_length for side_length in side_lengths(structure, inputs) if side_length is not None]


# One vector per modality


def _mlp_parameters(structure: BaselineStructure, inputs: int) -> int:
    width, hidden, layers = structure.width, structure.hidden, structure.layers
    return (inputs + 1) * hidden + (layers - 1) * (hidden + 1) * hidden + (hidden + 1) * width


def _mlp_work(structure: BaselineStructure, inputs: int) -> Work:
    width, hidden, layers = structure.width, structure.hidden, structure.layers
    return Work(2 * hidden * (inputs + (layers - 1) * hidden + width))


def _concat_parameters(structure: BaselineStructure, modalities: int) -> int:
    return _mlp_parameters(structure, modalities * structure.width)


def _concat_work(structure: BaselineStructure, lengths: Sequence[int]) -> Work:
    return _mlp_work(structure, len(lengths) * structure.width)


def _late_parameters(structure: BaselineStructure, modalities: int) -> int:
    return modalities * _mlp_parameters(structure, structure.width) + _concat_parameters(structure, modalities)


def _late_work(structure: BaselineStructure, lengths: Sequence[int]) -> Work:
    return _mlp_work(structure, structure.width).times(len(lengths)) + _concat_work(structure, lengths)


def _gated_maps(modalities: int) -> int:
    """Maps of width d by d: one per modality and, of two, the gate's two."""
    return 4 if modalities == 2 else 1


def _gated_parameters(structure: BaselineStructure, modalities: int) -> int:
    return _gated_maps(modalities) * structure.width**2 + _mlp_parameters(structure, structure.width)


def _gated_work(structure: BaselineStructure, lengths: Sequence[int]) -> Work:
    return Work(2 * _gated_maps(len(lengths)) * structure.width**2) + _mlp_work(structure, structure.width)


# Streams


def _block(structure: BaselineStructure) -> TransformerLayer:
    return TransformerLayer(heads=structure.heads, feedforward=structure.hidden)


def _block_parameters(structure: BaselineStructure) -> int:
    return layer_parameters(_block(structure), structure.width, causal=False)


def _block_work(structure: BaselineStructure, length: int) -> Work:
    return layer_work(_block(structure), structure.width, length, causal=False)


def _read_parameters(width: int) -> int:
    """Parameters of cross-attention."""
    return 4 * width**2 + 4 * width


def _read_work(width: int, length: int, other: int) -> Work:
    return Work(4 * (length + other) * width**2 + 4 * length * other * width)


def _digest_parameters(structure: BaselineStructure) -> int:
    """Parameters of a feed-forward part with its norm."""
    width, hidden = structure.width, structure.hidden
    return 2 * width + hidden + 2 * width * hidden


def _two_stream_parameters(structure: BaselineStructure, modalities: int) -> int:
    width = structure.width
    layer = _block_parameters(structure)
    if modalities == 2:
        layer += width + _read_parameters(width) + _digest_parameters(structure)
    return modalities * (structure.layers * layer + width + (width + 1) * width)


def _two_stream_work(structure: BaselineStructure, lengths: Sequence[int]) -> Work:
    width, total = structure.width, Work()
    for place, length in enumerate(lengths):
        layer = _block_work(structure, length)
        if len(lengths) == 2:
            layer += _read_work(width, length, lengths[1 - place]) + Work(4 * length * width * structure.hidden)
        total += layer.times(structure.layers) + Work(2 * width**2)
    return total


def _cross_modality_parameters(structure: BaselineStructure, modalities: int) -> int:
    width, layers = structure.width, structure.layers
    after = width + (width + 1) * width
    across = layers * (2 * width + _read_parameters(width)) if modalities == 2 else 0
    blocks = 4 * layers - 1 if modalities == 2 else 2 * layers
    return blocks * _block_parameters(structure) + across + after


def _cross_modality_work(structure: BaselineStructure, lengths: Sequence[int]) -> Work:
    width, layers = structure.width, structure.layers
    total = _block_work(structure, lengths[-1]).times(2 * layers) + Work(2 * width**2)
    if len(lengths) == 1:
        return total
    first, second = lengths
    total += _block_work(structure, first).times(2 * layers - 1)
    return total + _read_work(width, second, first).times(layers) + _read_work(width, first, second).times(layers - 1)


# Mixtures


def _mixture_parameters(structure: BaselineStructure, modalities: int) -> int:
    width = structure.width
    attention = width + 4 * width**2 + 4 * width
    block = attention + width + mixture_parameters(structure)
    return structure.layers * block + (modalities * width if modalities > 1 else 0)


def _mixture_work(structure: BaselineStructure, lengths: Sequence[int]) -> Work:
    width, length = structure.width, sum(lengths)
    attention = 8 * length * width**2 + 4 * length**2 * width
    return (Work(attention) + mixture_work(structure, length)).times(structure.layers)


_Parameters = Callable[[BaselineStructure, int], int]
_WorkOf = Callable[[BaselineStructure, Sequence[int]], Work]
_MIXTURE = (_mixture_parameters, _mixture_work)
_TRUNKS: dict[str, tuple[_Parameters, _WorkOf]] = {
    "concat_mlp": (_concat_parameters, _concat_work),
    "late_fusion": (_late_parameters, _late_work),
    "gated_unit": (_gated_parameters, _gated_work),
    "two_stream": (_two_stream_parameters, _two_stream_work),
    "cross_modality": (_cross_modality_parameters, _cross_modality_work),
    "switch": _MIXTURE,
    "st_moe": _MIXTURE,
    "soft_moe": _MIXTURE,
    "dyn_moe": _MIXTURE,
}
"""Style -> parameters between encoders and heads, by the number of modalities, and work there on one sample, by the
positions of each modality."""
