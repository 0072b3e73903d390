"""From samples to the two sides of a fusion: extractors, projections, statistics (eqs. 1, 2, 28 to 37).

Source: docs/spec/architect_thyself.md#senses.

Legend: B samples, L positions of one side, d_m channels of an extractor, d width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.module_zoo.encoders.cost import extracted_length
from evodevo.module_zoo.encoders.extractors import build_extractor
from evodevo.module_zoo.encoders.moments import Statistics
from evodevo.module_zoo.encoders.spec import EVERYTHING, Read, sides
from evodevo.module_zoo.spec import StatisticsStructure
from evodevo.networks.inputs import POSITION_STD, batch_rows
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.tasks.inputs import InputSpec


class SensesStructure(Protocol):
    """The part of a ``ZooStructure`` or a ``BaselineStructure`` that defines the encoders."""

    @property
    def width(self) -> int: ...
    @property
    def dropout(self) -> float: ...
    @property
    def missing(self) -> bool: ...
    def extractor_of(self, name: str) -> ExtractorStructure:
        """Extractor of the input with this name."""
        ...


@dataclass(frozen=True)
class EncodedModality:
    """One side.

    Attributes:
        tokens: Z, (B, L, d) (eq. 37); (B, L, 0) where no part reads them.
        mask: (B, L), true at real positions; None where all are.
        vector: s, (B, d), the summary of the whole side (eqs. 31, 36); (B, 0) where no part reads it.
        present: (B,), false where a sample lacks every input of the side, or lost them to modality dropout; None where
            all have one.
    """

    tokens: Tensor
    mask: Tensor | None
    vector: Tensor
    present: Tensor | None = None


class Senses(nn.Module):
    """The encoders of a network: from a batch to its sides.

    ``module_zoo.encoders.spec.sides`` assigns inputs to sides. Several inputs of one side are concatenated along the
    sequence, with a learned embedding of the input, and the vector of the side is the mean of theirs.

    Args:
        structure: width, extractors, dropout, and whether a learned token replaces inputs that a sample lacks.
        statistics: settings of the summary of an input.
        inputs: inputs of the task.
        modality_dropout: share of training samples that lose one side; never one that has no other.
        reads: representations that are read of a side; modules for the others are not built.

    Raises:
        UsageError: no inputs, modality dropout without the learned token, or extractors that do not fit.
    """

    def __init__(
        self,
        structure: SensesStructure,
        statistics: StatisticsStructure,
        inputs: tuple[InputSpec, ...],
        modality_dropout: float = 0.0,
        reads: frozenset[Read] = EVERYTHING,
    ) -> None:
        super().__init__()
        if not inputs:
            raise UsageError("a network needs at least one input.")
        if modality_dropout and not structure.missing:
            raise UsageError("modality_dropout leaves inputs out, and the network has no token for that: set missing.")
        self.specs = inputs
        self.sides = sides(inputs)
        self.modality_dropout = modality_dropout
        self.extractors, self.projections, self.statistics = nn.ModuleDict(), nn.ModuleDict(), nn.ModuleDict()
        self._factors = {}
        for spec in inputs:
            chosen = structure.extractor_of(spec.name)
            extractor = build_extractor(spec, chosen, structure.width, missing=structure.missing)
            channels = extractor.width
            assert isinstance(channels, int)
            self.extractors[spec.name] = extractor
            if "tokens" in reads:
                self.projections[spec.name] = nn.Linear(channels, structure.width)
            if "vector" in reads:
                length = extracted_length(spec, chosen)
                self.statistics[spec.name] = Statistics(channels, structure.width, statistics, length)
            self._factors[spec.name] = chosen.learning_rate
        several = [len(side) > 1 and "tokens" in reads for side in self.sides]
        self.segments = nn.ParameterList(
            nn.Parameter(torch.randn(len(side), structure.width) * POSITION_STD)
            for side, wanted in zip(self.sides, several, strict=True)
            if wanted
        )
        self._segment_of = [sum(several[:number]) if wanted else None for number, wanted in enumerate(several)]
        self.dropout = nn.Dropout(structure.dropout)

    def forward(self, batch: Mapping[str, Tensor]) -> tuple[EncodedModality | None, EncodedModality | None]:
        """The first side (images, which ask) and the second (texts); None for a side without inputs.

        Raises:
            UsageError: an input that is missing where it may not, or of the wrong shape.
        """
        rows = batch_rows(batch)
        if self.training and self.modality_dropout and all(self.sides):
            batch = self.without_a_side(batch, rows)
        first, second = (self._side(number, batch, rows) for number in range(2))
        return first, second

    def learning_rates(self) -> dict[str, float]:
        """Beginning of a parameter's name, relative to this module -> factor of its learning rate, where not 1."""
        return {f"extractors.{name}.": factor for name, factor in self._factors.items() if factor != 1}

    def _side(self, number: int, batch: Mapping[str, Tensor], rows: int) -> EncodedModality | None:
        parts = [self._sense(self.specs[place].name, batch, rows) for place in self.sides[number]]
        if len(parts) < 2:
            return parts[0] if parts else None
        present = None
        if all(part.present is not None for part in parts):
            present = torch.stack([part.present for part in parts if part.present is not None]).any(0)
        segment = self._segment_of[number]
        pieces = [part.tokens for part in parts]
        if segment is not None:
            pieces = [piece + embedding for piece, embedding in zip(pieces, self.segments[segment], strict=True)]
        tokens, mask = side_by_side(pieces, [part.mask for part in parts])
        return EncodedModality(tokens, mask, torch.stack([part.vector for part in parts]).mean(0), present)

    def _sense(self, name: str, batch: Mapping[str, Tensor], rows: int) -> EncodedModality:
        h, mask = self.extractors[name](batch, rows)
        if not h.shape[1]:  # all texts are empty: as if one masked position were there, since means want one
            h = h.new_zeros(rows, 1, h.shape[2])
            mask = torch.zeros(rows, 1, dtype=torch.bool, device=h.device)
        tokens = self.projections[name](h) if name in self.projections else h[..., :0]
        vector = self.statistics[name](h, mask) if name in self.statistics else h[:, 0, :0]
        present = batch.get(f"{name}/present")
        if name not in batch:
            present = torch.zeros(rows, dtype=torch.bool, device=tokens.device)
        return EncodedModality(self.dropout(tokens), mask, self.dropout(vector), present)

    def without_a_side(self, batch: Mapping[str, Tensor], rows: int) -> dict[str, Tensor]:
        """The batch where some samples that have both sides lose one; drawn from the global random stream."""
        device = next(iter(batch.values())).device
        here = {spec.name: _present(batch, spec.name, rows, device) for spec in self.specs}
        has = [torch.stack([here[self.specs[place].name] for place in side]).any(0) for side in self.sides]
        hit = (torch.rand(rows, device=device) < self.modality_dropout) & has[0] & has[1]
        takes_second = torch.rand(rows, device=device) < 0.5
        after = dict(batch)
        for number, side in enumerate(self.sides):
            lost = hit & (takes_second if number else ~takes_second)
            for place in side:
                name = self.specs[place].name
                if name in batch:
                    after[f"{name}/present"] = here[name] & ~lost
        return after


def _present(batch: Mapping[str, Tensor], name: str, rows: int, device: torch.device) -> Tensor:
    """(B,), true where a sample has the input."""
    if name not in batch:
        return torch.zeros(rows, dtype=torch.bool, device=device)
    present = batch.get(f"{name}/present")
    return torch.ones(rows, dtype=torch.bool, device=device) if present is None else present


def side_by_side(pieces: Sequence[Tensor], masks: Sequence[Tensor | None]) -> tuple[Tensor, Tensor | None]:
    """Sequences (B, L, d) one after the other, and which positions are real; None where all are."""
    together = torch.cat(list(pieces), 1)
    if all(mask is None for mask in masks):
        return together, None
    whole = [
        torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        for x, mask in zip(pieces, masks, strict=True)
    ]
    return together, torch.cat(whole, 1)
