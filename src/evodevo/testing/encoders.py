"""The laws of encoders and fusions, as tests to inherit: for kinds of extractors, statistics and fusions.

    class TestMine(FusionTests):
        @pytest.fixture
        def structure(self) -> FusionStructure:
            return FusionStructure(kind="gmu")

Legend: B samples, L positions of a side, d width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.module_zoo.encoders.cost import (
    fusion_parameters,
    fusion_work,
    senses_parameters,
    senses_work,
    side_lengths,
)
from evodevo.module_zoo.encoders.fusion import Fused, Fusion
from evodevo.module_zoo.encoders.model import EncodedModality, Senses
from evodevo.module_zoo.encoders.spec import fused_length
from evodevo.module_zoo.spec import FusionStructure, StatisticsStructure, ZooStructure
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import small_batch

WIDTH = 8
FIRST, SECOND = 5, 7
"""Positions of the two sides of a fusion under test."""
TOLERANCE = 1e-9
_GARBAGE = 3.0


@dataclass(frozen=True)
class SensesCase:
    """Encoders under test.

    Attributes:
        inputs: inputs of the task.
        extractor: extractor of all of them.
        statistics: statistics of each.
        untouched: beginnings of names of parameters that need no influence.
    """

    inputs: tuple[InputSpec, ...]
    extractor: ExtractorStructure = field(default_factory=lambda: ExtractorStructure(blocks=1))
    statistics: StatisticsStructure = field(default_factory=lambda: StatisticsStructure(rank=3))
    untouched: tuple[str, ...] = ()

    def structure(self, *, missing: bool = True) -> ZooStructure:
        """A zoo of width 8 without dropout."""
        return ZooStructure(
            width=WIDTH, extractor=self.extractor, statistics=self.statistics, dropout=0, missing=missing
        )

    def build(self, seed: int = 0, *, missing: bool = True) -> Senses:
        """The senses in float64 and evaluation mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            senses = Senses(self.structure(missing=missing), self.statistics, self.inputs)
        return senses.to(torch.float64).eval()

    def batch(self, count: int = 4, *, padded: bool = False, full: bool = False, seed: int = 0) -> dict[str, Tensor]:
        """Samples without targets; ``full`` ones are as long as they may be."""
        length = max((spec.length for spec in self.inputs), default=1)
        shortest = min((spec.length for spec in self.inputs if spec.length), default=1)
        chosen = length if full else max(shortest - 2, 1)
        return small_batch(self.inputs, (), count=count, length=chosen, padded=padded, seed=seed)


class SensesTests:
    """Inherit, and give the fixture ``case``; inputs of tokens and features must be of one length."""

    @pytest.fixture
    def case(self) -> SensesCase:
        """The senses under test; a subclass overrides it, with ``params`` for a table of them."""
        raise NotImplementedError

    def test_shapes(self, case: SensesCase) -> None:
        sides = case.build()(case.batch(full=True))
        for sense, length in zip(sides, side_lengths(case.structure(), case.inputs), strict=True):
            assert (sense is None) == (length is None)
            if sense is not None:
                assert sense.tokens.shape == (4, length, WIDTH)
                assert sense.vector.shape == (4, WIDTH)
                assert sense.mask is None or sense.mask.shape == (4, length)

    def test_stated_parameters_are_counted(self, case: SensesCase) -> None:
        for missing in (True, False):
            stated = senses_parameters(case.structure(missing=missing), case.statistics, case.inputs)
            counted = sum(parameter.numel() for parameter in case.build(missing=missing).parameters())
            assert sum(stated.values()) == counted

    def test_stated_work_is_counted(self, case: SensesCase) -> None:
        senses, batch = case.build(), case.batch(3, full=True)
        with torch.no_grad(), counting(senses) as counter:
            senses(batch)
        assert counter.flops == 3 * senses_work(case.structure(), case.statistics, case.inputs).products

    def test_samples_do_not_meet(self, case: SensesCase) -> None:
        senses = case.build()
        batch = _with_missing(case, case.batch(padded=True))
        with torch.no_grad():
            together = senses(batch)
            for row in range(4):
                alone = senses({name: tensor[row : row + 1] for name, tensor in batch.items()})
                for many, single in zip(together, alone, strict=True):
                    _assert_same_sense(_row(many, row), single)

    def test_padding_changes_nothing(self, case: SensesCase) -> None:
        senses, batch = case.build(), case.batch()
        longer = dict(batch)
        for spec in case.inputs:
            if spec.modality in ("tokens", "features"):
                raw = batch[spec.name]
                longer[spec.name] = torch.cat([raw, raw[:, :1], raw[:, 1:2]], 1)
                mask = torch.ones(longer[spec.name].shape[:2], dtype=torch.bool)
                mask[:, raw.shape[1] :] = False
                longer[f"{spec.name}/mask"] = mask
        with torch.no_grad():
            for short, padded in zip(senses(batch), senses(longer), strict=True):
                _assert_same_sense(short, padded)

    def test_masked_positions_have_no_influence(self, case: SensesCase) -> None:
        senses, batch, other = case.build(), case.batch(padded=True), case.batch(padded=True, seed=1)
        changed = dict(batch)
        for spec in case.inputs:
            mask = batch.get(f"{spec.name}/mask")
            if mask is not None:
                wide = mask if spec.modality == "tokens" else mask.unsqueeze(-1)
                changed[spec.name] = torch.where(wide, batch[spec.name], other[spec.name])
        with torch.no_grad():
            for first, two in zip(senses(batch), senses(changed), strict=True):
                _assert_same_sense(first, two)

    def test_what_a_sample_lacks_does_not_matter(self, case: SensesCase) -> None:
        """A missing input is one learned token, whatever the batch holds for it, and the same as no input at all."""
        senses, batch, other = case.build(), case.batch(), case.batch(seed=1)
        for spec in case.inputs:
            nobody = {f"{spec.name}/present": torch.zeros(4, dtype=torch.bool)}
            rest = {name: tensor for name, tensor in batch.items() if name.partition("/")[0] != spec.name}
            with torch.no_grad():
                sides = [senses(batch | nobody), senses(batch | {spec.name: other[spec.name]} | nobody)]
                if rest:
                    sides.append(senses(rest))
                for others in sides[1:]:
                    for first, two in zip(sides[0], others, strict=True):
                        _assert_same_sense(first, two)
            with pytest.raises(UsageError, match="missing"):
                case.build(missing=False)(batch | nobody)

    def test_every_trainable_parameter_has_an_influence(self, case: SensesCase) -> None:
        senses = case.build().train()
        loss = torch.zeros((), dtype=torch.float64)
        for sense in senses(_with_missing(case, case.batch(padded=True))):
            if sense is not None:
                loss = loss + (sense.tokens if sense.mask is None else sense.tokens[sense.mask]).square().sum()
                loss = loss + sense.vector.square().sum()
        _assert_influence(senses, loss, case.untouched)

    def test_half_precision_in_autocast_is_near(self, case: SensesCase) -> None:
        senses, batch = case.build().float(), _with_missing(case, case.batch(padded=True))
        with torch.no_grad():
            wanted = senses(batch)
            with torch.autocast("cpu", torch.bfloat16):
                encoded = senses(batch)
        for half, full in zip(encoded, wanted, strict=True):
            if half is not None and full is not None:
                for first, two in ((_real(half), _real(full)), (half.vector, full.vector)):
                    assert float((first.float() - two).norm() / two.norm()) < 0.1

    def test_the_same_seed_gives_the_same_parameters(self, case: SensesCase) -> None:
        first, again = (dict(case.build(seed).named_parameters()) for seed in (0, 0))
        assert all(torch.equal(first[name], again[name]) for name in first)


class FusionTests:
    """Inherit, and give the fixture ``structure``."""

    @pytest.fixture
    def structure(self) -> FusionStructure:
        """The fusion under test; a subclass overrides it, with ``params`` for a table of them."""
        raise NotImplementedError

    def test_shapes(self, structure: FusionStructure) -> None:
        fused = build_fusion(structure)(*both_sides())
        assert fused.tokens.shape == (4, fused_length(structure, FIRST, SECOND), WIDTH)
        assert fused.vector.shape == (4, WIDTH)
        masked = build_fusion(structure)(*both_sides(masked=True))
        assert masked.mask is not None
        assert masked.mask.shape == masked.tokens.shape[:2]

    def test_stated_parameters_are_counted(self, structure: FusionStructure) -> None:
        for count in (1, 2):
            fusion = Fusion(WIDTH, structure, count)
            assert sum(p.numel() for p in fusion.parameters()) == fusion_parameters(WIDTH, structure, count)

    def test_stated_work_is_counted(self, structure: FusionStructure) -> None:
        fusion = build_fusion(structure)
        with torch.no_grad(), counting(fusion) as counter:
            fusion(*both_sides())
        assert counter.flops == 4 * fusion_work(WIDTH, structure, FIRST, SECOND).products

    def test_one_side_passes_as_it_is(self, structure: FusionStructure) -> None:
        first, _ = both_sides(masked=True)
        assert first.mask is not None
        for fusion in (build_fusion(structure), Fusion(WIDTH, structure, 1)):
            fused = fusion(first)
            assert fused.tokens is first.tokens
            assert fused.mask is first.mask
            for row in range(4):
                torch.testing.assert_close(fused.vector[row], first.tokens[row][first.mask[row]].mean(0))
        assert fused_length(structure, FIRST, None) == FIRST
        assert fusion_work(WIDTH, structure, FIRST, None).total == 0

    def test_samples_do_not_meet(self, structure: FusionStructure) -> None:
        fusion, sides = build_fusion(structure), both_sides(masked=True)
        together = fusion(*sides)
        for row in range(4):
            alone = fusion(*(_chosen(sense, slice(row, row + 1)) for sense in sides))
            torch.testing.assert_close(together.tokens[row], alone.tokens[0], rtol=0, atol=TOLERANCE)
            torch.testing.assert_close(together.vector[row], alone.vector[0], rtol=0, atol=TOLERANCE)

    def test_padding_changes_nothing(self, structure: FusionStructure) -> None:
        fusion, sides = build_fusion(structure), both_sides()
        padded = []
        for sense in sides:
            mask = torch.ones(4, sense.tokens.shape[1] + 3, dtype=torch.bool)
            mask[:, -3:] = False
            tokens = torch.cat([sense.tokens, _GARBAGE * sense.tokens[:, :3]], 1)
            padded.append(replace(sense, tokens=tokens, mask=mask))
        _assert_same_fused(fusion(*sides), fusion(*padded))

    def test_masked_positions_have_no_influence(self, structure: FusionStructure) -> None:
        fusion, sides = build_fusion(structure), both_sides(masked=True)
        changed = []
        for sense in sides:
            assert sense.mask is not None
            other = torch.where(sense.mask.unsqueeze(-1), sense.tokens, _GARBAGE * sense.tokens.flip(0))
            changed.append(replace(sense, tokens=other))
        _assert_same_fused(fusion(*sides), fusion(*changed))

    def test_a_side_without_any_real_position_is_finite(self, structure: FusionStructure) -> None:
        fusion = build_fusion(structure)
        first, second = both_sides(masked=True)
        assert first.mask is not None
        assert second.mask is not None
        first.mask[0], second.mask[1] = False, False
        first.tokens.requires_grad_(True)
        fused = fusion(first, second)
        assert bool(fused.tokens.isfinite().all())
        assert bool(fused.vector.isfinite().all())
        loss = fused.tokens.square().sum() + fused.vector.square().sum()
        for gradient in torch.autograd.grad(loss, [first.tokens, *fusion.parameters()], allow_unused=True):
            assert gradient is None or bool(gradient.isfinite().all())

    def test_half_precision_in_autocast_is_near(self, structure: FusionStructure) -> None:
        fusion = build_fusion(structure).float()
        sides = [
            replace(side, tokens=side.tokens.float(), vector=side.vector.float()) for side in both_sides(masked=True)
        ]
        with torch.no_grad():
            wanted = fusion(*sides)
            with torch.autocast("cpu", torch.bfloat16):
                fused = fusion(*sides)
        for half, full in ((_real(fused), _real(wanted)), (fused.vector, wanted.vector)):
            assert float((half.float() - full).norm() / full.norm()) < 0.05

    def test_every_parameter_has_an_influence(self, structure: FusionStructure) -> None:
        fusion = build_fusion(structure)
        fused = fusion(*both_sides(masked=True))
        assert fused.mask is not None
        source = torch.Generator().manual_seed(5)
        direction = torch.randn(fused.tokens.shape, generator=source, dtype=torch.float64)
        loss = (fused.tokens * direction)[fused.mask].sum() + fused.vector.square().sum()
        _assert_influence(fusion, loss, ())


def build_fusion(structure: FusionStructure, seed: int = 0) -> Fusion:
    """A fusion of width 8 in float64, whose gates and biases are moved away from their quiet start."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fusion = Fusion(WIDTH, structure).to(torch.float64)
        with torch.no_grad():
            for parameter in fusion.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    return fusion


def both_sides(*, masked: bool = False, count: int = 4, seed: int = 0) -> tuple[EncodedModality, EncodedModality]:
    """Random sides of 5 and 7 positions; ``masked`` ones have some that are not real, anywhere but at the first."""
    source = torch.Generator().manual_seed(seed)

    def side(length: int) -> EncodedModality:
        tokens = torch.randn(count, length, WIDTH, generator=source, dtype=torch.float64)
        mask = torch.rand(count, length, generator=source) > 0.4
        mask[:, 0] = True
        vector = torch.randn(count, WIDTH, generator=source, dtype=torch.float64)
        return EncodedModality(tokens, mask if masked else None, vector)

    return side(FIRST), side(SECOND)


def _with_missing(case: SensesCase, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each input is missing in another sample."""
    rows = {spec.name: place % 4 for place, spec in enumerate(case.inputs)}
    return dict(batch) | {f"{name}/present": torch.arange(4) != row for name, row in rows.items()}


def _row(sense: EncodedModality | None, row: int) -> EncodedModality | None:
    return None if sense is None else _chosen(sense, slice(row, row + 1))


def _chosen(sense: EncodedModality, rows: slice) -> EncodedModality:
    mask = None if sense.mask is None else sense.mask[rows]
    return EncodedModality(sense.tokens[rows], mask, sense.vector[rows])


def _assert_same_sense(first: EncodedModality | None, two: EncodedModality | None) -> None:
    assert (first is None) == (two is None)
    if first is not None and two is not None:
        torch.testing.assert_close(_real(first), _real(two), rtol=0, atol=TOLERANCE)
        torch.testing.assert_close(first.vector, two.vector, rtol=0, atol=TOLERANCE)


def _assert_same_fused(first: Fused, two: Fused) -> None:
    torch.testing.assert_close(_real(first), _real(two), rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(first.vector, two.vector, rtol=0, atol=TOLERANCE)


def _real(given: EncodedModality | Fused) -> Tensor:
    """All real positions of all samples, in order: (positions, d)."""
    return given.tokens.flatten(0, 1) if given.mask is None else given.tokens[given.mask]


def _assert_influence(module: nn.Module, loss: Tensor, untouched: tuple[str, ...]) -> None:
    trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    for name, gradient in zip(trained, gradients, strict=True):
        if name.startswith(untouched) or name.endswith(("key.bias", "k_lin.bias", "k_proj.bias")):
            continue
        assert gradient is not None, name
        assert bool(gradient.isfinite().all()), name
        assert float(gradient.abs().max()) > 0, name
