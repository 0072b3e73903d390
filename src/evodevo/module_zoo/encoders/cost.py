"""The cost of a network's encoders and of their fusion: exact parameters, and the work of one sample.

``model.py`` and ``fusion.py`` build exactly these parameters; a test recounts them, and the products.

Legend: L positions of one input or side, d_m channels of an extractor, d width, k rank, q = k (k + 1) / 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from evodevo.module_zoo.encoders.spec import BUCKETS, EVERYTHING, Read, sides, statistics_rank
from evodevo.module_zoo.spec import FusionStructure, StatisticsStructure
from evodevo.networks.canvas import InputSizes, NamedInput, fitting_heads, input_length, patch_size
from evodevo.networks.towers.spec import ExtractorStructure, TowerSizes, tower_sizes
from evodevo.operators.cost import Work, total_work
from evodevo.operators.layers.base import Layer
from evodevo.operators.layers.cost import layer_parameters, layer_work
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer


class SensesSizes(Protocol):
    """The part of a ``ZooStructure`` or a ``BaselineStructure`` that the cost of its encoders depends on."""

    @property
    def width(self) -> int: ...
    @property
    def missing(self) -> bool: ...
    def extractor_of(self, name: str) -> ExtractorStructure:
        """Extractor of the input with this name."""
        ...


# Senses


def senses_parameters(
    structure: SensesSizes,
    statistics: StatisticsStructure,
    inputs: Sequence[NamedInput],
    reads: frozenset[Read] = EVERYTHING,
) -> dict[str, int]:
    """Parameters of each part, frozen ones included; ``reads`` is what the network reads of a side.

    Returns:
        ``embeddings`` (of tokens, patches, positions, segments, missing inputs), ``extractors`` (their blocks, and
        towers as a whole), ``projections`` and ``statistics``.

    Raises:
        UsageError, NotFoundError, DataError: a tower that is not there or does not fit.
    """
    width = structure.width
    embeddings = extractors = projections = summaries = 0
    for spec in inputs:
        chosen = structure.extractor_of(spec.name)
        channels = _channels(spec, chosen, width)
        embeddings += channels if structure.missing else 0
        if _is_tower(spec, chosen):
            extractors += _tower(spec, chosen).parameters
        elif _is_built_in(spec):
            rows = spec.vocabulary if spec.modality == "tokens" else _pixels(spec) + 1
            embeddings += rows * width + (input_length(spec) * width if chosen.positions else 0)
            extractors += chosen.blocks * layer_parameters(_block(chosen, width), width, causal=False)
        projections += (channels + 1) * width if "tokens" in reads else 0
        if "vector" in reads:
            summaries += _statistics_parameters(statistics, channels, extracted_length(spec, chosen), width)
    embeddings += sum(len(side) * width for side in sides(inputs) if len(side) > 1 and "tokens" in reads)
    return {
        "embeddings": embeddings,
        "extractors": extractors,
        "projections": projections,
        "statistics": summaries,
    }


def senses_work(
    structure: SensesSizes,
    statistics: StatisticsStructure,
    inputs: Sequence[NamedInput],
    reads: frozenset[Read] = EVERYTHING,
) -> Work:
    """Work on one sample that has every input at its full length; ``reads`` names the representations that the network
    reads of a side.

    Raises:
        UsageError, NotFoundError, DataError: a tower that is not there or does not fit.
    """
    return total_work(_sense_work(spec, structure, statistics, reads) for spec in inputs)


def side_lengths(structure: SensesSizes, inputs: Sequence[NamedInput]) -> tuple[int | None, int | None]:
    """Positions of the first side and of the second; None for a side without inputs."""
    lengths = [extracted_length(spec, structure.extractor_of(spec.name)) for spec in inputs]
    first, second = (sum(lengths[place] for place in side) if side else None for side in sides(inputs))
    return first, second


def extracted_length(spec: NamedInput, chosen: ExtractorStructure) -> int:
    """Positions that an extractor makes of an input: a tower adds special tokens."""
    return _tower(spec, chosen).length(spec) if _is_tower(spec, chosen) else input_length(spec)


def _sense_work(
    spec: NamedInput, structure: SensesSizes, statistics: StatisticsStructure, reads: frozenset[Read]
) -> Work:
    width, chosen = structure.width, structure.extractor_of(spec.name)
    channels, length = _channels(spec, chosen, width), extracted_length(spec, chosen)
    work = Work(2 * length * channels * width) if "tokens" in reads else Work()
    if _is_tower(spec, chosen):
        work += _tower(spec, chosen).work(length)
    elif _is_built_in(spec):
        if spec.modality == "image":
            work += Work(2 * length * _pixels(spec) * width)
        work += layer_work(_block(chosen, width), width, length, causal=False).times(chosen.blocks)
    if "vector" not in reads:
        return work
    rank = statistics_rank(statistics, channels, length)
    summary = channels + rank * (rank + 1) // 2
    return work + Work(2 * length * channels * rank + 2 * length * rank**2 + 2 * summary * width)


def _statistics_parameters(statistics: StatisticsStructure, channels: int, length: int, width: int) -> int:
    rank = statistics_rank(statistics, channels, length)
    numbers = rank * (rank + 1) // 2
    norm = 2 * numbers if statistics.root else 0
    return channels * rank + norm + (channels + numbers + 1) * width


def _is_built_in(spec: InputSizes) -> bool:
    return spec.modality in ("tokens", "image")


def _is_tower(spec: InputSizes, chosen: ExtractorStructure) -> bool:
    return chosen.kind == "hugging_face" and _is_built_in(spec)


def _tower(spec: InputSizes, chosen: ExtractorStructure) -> TowerSizes:
    return tower_sizes(chosen.path or "", spec)


def _channels(spec: InputSizes, chosen: ExtractorStructure, width: int) -> int:
    """d_m."""
    if not _is_built_in(spec):
        return spec.size
    return _tower(spec, chosen).width if _is_tower(spec, chosen) else width


def _pixels(spec: InputSizes) -> int:
    return patch_size(spec) ** 2 * spec.channels


def _block(chosen: ExtractorStructure, width: int) -> Layer:
    return TransformerLayer(heads=fitting_heads(width)) if chosen.self_attention else MLPLayer()


# Fusion


def fusion_parameters(width: int, structure: FusionStructure, count: int = 2) -> int:
    """Parameters of a fusion of ``count`` sides; 0 of a single one."""
    if count == 1:
        return 0
    kind = structure.kind
    gate = {"half": 0, "sample": 2 * width + 1, "channel": (2 * width + 1) * width}[structure.gate]
    norms = (2 if kind in ("symmetric", "concat") else 1) * 2 * width if structure.norm else 0
    return gate + norms + _ways(structure) * _attention_parameters(width, structure) + _map_parameters(width, structure)


def fusion_work(width: int, structure: FusionStructure, first: int, second: int | None) -> Work:
    """Work of the fusion on one sample.

    Args:
        width: d.
        structure: structure of the fusion.
        first, second: positions of the two sides; None where there is one side.
    """
    if second is None:
        return Work()
    asking, answering = (first, second) if structure.query == "image" else (second, first)
    kind = structure.kind
    gates = asking if kind == "gmu" else 1
    gate = {"half": 0, "sample": 4 * width, "channel": 4 * width**2}[structure.gate] * gates
    attention = _attention_work(width, structure, asking, answering) if _ways(structure) else 0
    if kind == "symmetric":
        attention += _attention_work(width, structure, answering, asking)
    maps = 0
    if kind == "gmu":
        maps = 2 * (asking + 1) * width**2
    elif kind == "bilinear":
        maps = 2 * (2 * asking + 1) * width * structure.rank
    return Work(gate + attention + maps)


def _ways(structure: FusionStructure) -> int:
    """Attentions of a kind."""
    return {"asym_residual": 1, "paper": 1, "symmetric": 2}.get(structure.kind, 0)


def _attention_parameters(width: int, structure: FusionStructure) -> int:
    total = 3 * width**2
    total += width * (width + 1) if structure.projection else 0
    total += 1 if structure.temperature == "learned" else 0
    return total + (BUCKETS * structure.heads if structure.relative_positions else 0)


def _attention_work(width: int, structure: FusionStructure, asking: int, answering: int) -> int:
    source = answering if structure.values == "other" else asking
    outside = 2 if structure.projection else 1
    return 2 * width**2 * (outside * asking + 2 * source) + 4 * asking * source * width


def _map_parameters(width: int, structure: FusionStructure) -> int:
    if structure.kind == "gmu":
        return 2 * width * (width + 1)
    if structure.kind == "bilinear":
        return 2 * structure.rank * (width + 1) + width * (structure.rank + 1)
    return 0
