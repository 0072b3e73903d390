"""Stacking and trimming by the motif, against the resolved connections; the named backbones against their builders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.backbone.depth import motif_of, repeat
from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.resolved import ResolvedLIV
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import GenomeError, UsageError
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator
from evodevo.testing.real_vector import RealVectorSpace

DIMS = Dimensions(width=64)
LAWS = settings(max_examples=15, deadline=None, database=None)
OPTIONS = st.sampled_from([{}, {"residuals": True}, {"share_queries": True, "partial_featurizers": True}])
FEW = ("SA-1", "Rec-1", "GMemless")


def space_of(depth: int, **options: Any) -> BackboneSpace:
    return BackboneSpace(BackboneSettings(depth=depth, dimensions=DIMS, **options))


def shifted(liv: ResolvedLIV, by: int) -> ResolvedLIV:
    """The LIV as it is ``by`` places later, with all that it is connected with."""
    return replace(
        liv,
        features=tuple((role, owner + by) for role, owner in liv.features),
        weights=tuple((role, owner + by) for role, owner in liv.weights),
        residual=None if liv.residual is None else liv.residual + by,
        words="",
    )


def meaning(space: BackboneSpace, genome: BackboneGenome) -> list[ResolvedLIV]:
    return [shifted(liv, 0) for liv in space.resolved(genome)]


def is_made_of(space: BackboneSpace, genome: BackboneGenome, length: int) -> bool:
    """Whether each ``length`` LIVs are the first ones again, connected among themselves alone."""
    livs = meaning(space, genome)
    return len(livs) % length == 0 and all(
        liv == shifted(livs[place % length], place - place % length) for place, liv in enumerate(livs)
    )


@LAWS
@given(seed=st.integers(0, 2**32), size=st.integers(1, 5), copies=st.integers(1, 4), options=OPTIONS)
def test_a_backbone_reaches_the_multiples_of_its_motif_and_no_other_depth(
    seed: int, size: int, copies: int, options: dict[str, Any]
) -> None:
    space = space_of(size, classes=FEW, **options)
    genome = repeat(space.sample(generator(seed)), copies)
    space.check(genome)
    motif = len(motif_of(genome, space.canonical))
    assert motif == min(length for length in range(1, len(genome) + 1) if is_made_of(space, genome, length))
    for depth in range(1, 2 * len(genome) + 2):
        if depth % motif:
            with pytest.raises(GenomeError, match=f"multiples of {motif} up to"):
                space.at_depth(genome, depth)
            continue
        other, said = space.at_depth(genome, depth)
        space.check(other)
        assert len(other) == depth
        assert is_made_of(space, other, motif)
        assert meaning(space, other)[:motif] == meaning(space, genome)[:motif]
        assert (f"motif of {motif}" in said) == (depth != len(genome))
        again, _ = space.at_depth(other, len(genome))
        assert space.hash(again) == space.hash(genome), "there and back"
    assert space.at_depth(genome, len(genome)) == (genome, "")


def test_the_example_of_the_documentation() -> None:
    space = space_of(8)
    genome = space.parse("11112 91111 11112 92121")
    stacked, said = space.at_depth(genome, 8)
    assert space.print(stacked) == "11112 91111 12112 92121 13122 93131 14122 94141"
    assert said == "4 LIVs stacked to 8: 2 copies of the motif of 4 LIVs, each with its own sharing"
    trimmed, said = space.at_depth(stacked, 4)
    assert trimmed == space.canonical(genome)
    assert said == "8 LIVs trimmed to 4: 1 copy of the motif of 4 LIVs, each with its own sharing"


@pytest.mark.parametrize("name", ["transformer++", "striped-mamba", "striped-hyena"])
@pytest.mark.parametrize("residuals", [False, True])
def test_stacked_named_backbones_are_those_of_their_builders(name: str, residuals: bool) -> None:
    space = space_of(24, residuals=residuals)
    genome = space.named(name, 24)
    for depth in (48, 72):
        assert space.at_depth(genome, depth)[0] == space.named(name, depth)
    assert len(motif_of(genome, space.canonical)) == (2 if name == "transformer++" else 12)


def test_a_transformer_is_one_at_every_even_depth() -> None:
    space = space_of(24)
    for depth in range(2, 40, 2):
        assert space.at_depth(space.named("transformer++", 8), depth)[0] == space.named("transformer++", depth)


def test_the_refusal_names_the_nearest_depths() -> None:
    space = space_of(8)
    genome = space.parse("11111 91111 51111")
    for depth, near in ((7, "6, 9"), (2, "3"), (511, "510"), (0, "3"), (600, "510")):
        with pytest.raises(GenomeError) as refusal:
            space.at_depth(genome, depth)
        assert str(refusal.value).endswith(f"up to 512; the nearest: {near}."), depth


def test_a_space_without_such_a_rule_says_so() -> None:
    space = RealVectorSpace(2)
    with pytest.raises(UsageError, match="no depth"):
        space.at_depth(space.sample(generator(0)), 4)
