"""Statistics of each module of a zoo, kept by its id and never by its position (eqs. 11, 66 to 69, 90)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from evodevo.module_zoo.spec import ContributionStructure

TINY = 1e-8


class _Record(nn.Module):
    """Numbers of one module, as buffers, so that they travel with the weights; a checkpoint holds finite ones only.

    Attributes:
        numbers: (3,), as ``NAMES``: moving average of its mean router weight; what the loss gains by it, as last
            probed; C, in [0, ``usage`` + ``impact``] of ``ContributionStructure``.
        known: (3,), false where nothing was measured yet.
    """

    NAMES = ("usage", "impact", "contribution")
    numbers: Tensor
    known: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.zeros(len(self.NAMES), dtype=torch.float32))
        self.register_buffer("known", torch.zeros(len(self.NAMES), dtype=torch.bool))

    def read(self, name: str) -> Tensor:
        """A scalar, NaN where it is not known."""
        place = self.NAMES.index(name)
        return torch.where(self.known[place], self.numbers[place], torch.nan)

    def write(self, name: str, value: Tensor | float) -> None:
        """From now on it is known."""
        place = self.NAMES.index(name)
        self.numbers[place] = value
        self.known[place] = True


class ZooStatistics(nn.Module):
    """Usage, impact and contribution of modules."""

    def __init__(self, ids: Sequence[str], structure: ContributionStructure) -> None:
        super().__init__()
        self.structure = structure
        self.records = nn.ModuleDict({name: _Record() for name in ids})

    def insert(self, name: str, like: str | None = None) -> None:
        """A newborn without statistics, or with those of the module that it is a copy of."""
        record = _Record()
        others = next(iter(self.records.values()), None)
        if isinstance(others, _Record):
            record.to(others.numbers.device, others.numbers.dtype)
        if like is not None:
            record.load_state_dict(self._of(like).state_dict())
        self.records[name] = record

    def remove(self, name: str) -> None:
        """Forget a module."""
        del self.records[name]

    def usage(self, ids: Sequence[str]) -> Tensor:
        """(N,), NaN where nothing is known."""
        return torch.stack([self._of(name).read("usage") for name in ids])

    def contribution(self, ids: Sequence[str]) -> Tensor:
        """(N,), NaN where nothing is known."""
        return torch.stack([self._of(name).read("contribution") for name in ids])

    def probed(self, impacts: Mapping[str, float]) -> None:
        """Keep what a probe measured: id -> loss without the module minus loss with it."""
        for name, impact in impacts.items():
            self._of(name).write("impact", impact)

    @torch.no_grad()
    def observe(self, ids: Sequence[str], usage: Tensor) -> None:
        """One step of training: (N,) mean router weights of the modules that took part."""
        records = [self._of(name) for name in ids]
        rate = self.structure.rate
        gains = torch.stack([record.read("impact") for record in records]).nan_to_num(0.0).clamp(min=0.0)
        # Shares of the largest and not of the sum, so that the scale does not depend on the number of modules.
        share = self.structure.usage * usage / usage.max().clamp(min=TINY)
        share = share + self.structure.impact * gains / gains.max().clamp(min=TINY)
        for record, used, now in zip(records, usage, share, strict=True):
            _move(record, "usage", used, rate)
            _move(record, "contribution", now, rate)

    def _of(self, name: str) -> _Record:
        record = self.records[name]
        assert isinstance(record, _Record)
        return record


def _move(record: _Record, name: str, value: Tensor, rate: float) -> None:
    """The moving average, which begins with its first value."""
    average = record.read(name)
    before = torch.where(average.isnan(), value, average)
    record.write(name, (1 - rate) * before + rate * value)
