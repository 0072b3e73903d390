"""Mutation of operator and featurizer genomes: nearest genomes that compile, open places, and stages of levels."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.backbone.variation.genes import GENE_PLACES, OPERATOR_OPTIONS, mutant_class
from evodevo.backbone.written_classes import SMALLEST, LIVClasses, class_number, written_class
from evodevo.errors import GenomeError, UsageError
from evodevo.operators.classes import liv_classes
from evodevo.operators.compile import compile_operator
from evodevo.operators.spec import Dimensions
from evodevo.settings import validate

DIMS = Dimensions(width=64)
CLASSES = LIVClasses(liv_classes())
PLAIN = [number for number, row in liv_classes().items() if row.differential == "none"]


def space(**settings: object) -> BackboneSpace:
    """A space of eight LIVs."""
    values = {"depth": 8, "operators": "plan", "dimensions": {"width": 64}, **settings}
    return BackboneSpace(validate(BackboneSettings, values, what="space"))


def distances(number: int, place: int, value: int) -> dict[int, int]:
    """Class number -> fewest other integers changed, over all genomes with that integer and a featurizer of the table.

    Written out for rows of the table: integer 1 counts by its featurizer, and by itself where it is the mutated one.
    """
    start = CLASSES[number].spec
    found: dict[int, int] = {}
    for genome in product(*OPERATOR_OPTIONS):
        if genome[place] != value:
            continue
        try:
            spec = compile_operator(genome)
            spec.check(DIMS)
        except GenomeError:
            continue
        away = (spec.featurizer != start.featurizer) + sum(
            a != b for a, b in zip(genome[1:], start.operator[1:], strict=True)
        )
        other = class_number(spec)
        if other != number:
            found[other] = min(away, found.get(other, 9))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 5, 9])
def test_repair_goes_to_the_nearest_operator_that_compiles(number: int) -> None:
    rng = np.random.default_rng(number)
    for place, gene in enumerate(("featurization", "token_mixing", "sparsity", "nonlinearity", "channel_mixing")):
        nearest = set()
        for value in OPERATOR_OPTIONS[place]:
            if value != CLASSES[number].spec.operator[place] and (found := distances(number, place, value)):
                nearest |= {other for other, away in found.items() if away == min(found.values())}
        made = {mutant_class(CLASSES[number].spec, "operator", (f"operator.{gene}",), DIMS, rng) for _ in range(60)}
        assert made - {None} <= nearest
        assert made == {None} or len(made) > 1 or len(nearest) == 1


def test_mutants_of_featurizers_differ_in_the_featurizer_alone() -> None:
    rng = np.random.default_rng(0)
    made = 0
    for number in PLAIN * 6:
        mutant = mutant_class(CLASSES[number].spec, "featurizer", ("featurizer",), DIMS, rng)
        if mutant is not None:
            made += 1
            spec = CLASSES[mutant].spec
            assert spec.structure == CLASSES[number].spec.structure
            assert spec.featurizer != CLASSES[number].spec.featurizer
    assert made > len(PLAIN)


@pytest.mark.parametrize("place", [place for place in GENE_PLACES if place.startswith("featurizer.")])
def test_only_open_places_change(place: str) -> None:
    """One other gene may follow where it must: sparsity token mixing, a group its partner."""
    gene = place.partition(".")[2]
    rng = np.random.default_rng(1)
    for number in PLAIN:
        mutant = mutant_class(CLASSES[number].spec, "featurizer", (place,), DIMS, rng)
        if mutant is None:
            continue
        pairs = zip(CLASSES[mutant].spec.featurizer, CLASSES[number].spec.featurizer, strict=True)
        changed = [name for a, b in pairs for name in a._fields if getattr(a, name) != getattr(b, name)]
        assert gene in changed
        assert len(changed) <= 2


@pytest.mark.parametrize("start", ["striped-mamba", "11112 91111 11112 92121 51211 93131 51221 94141"])
def test_mutants_are_valid_canonical_and_other_networks(start: str) -> None:
    searched = space(open_genes=["operator", "featurizer"])
    rng = np.random.default_rng(2)
    genome = searched.parse(start)
    operations = set()
    for _ in range(80):
        mutant, facts = searched.mutation(genome, rng)
        searched.check(mutant)
        assert searched.parse(searched.print(mutant)) == searched.canonical(mutant) == mutant
        assert searched.from_json(searched.to_json(mutant)) == mutant
        assert searched.hash(mutant) != searched.hash(genome)
        operations |= set(facts["operations"])
        genome = mutant
    assert {"operator", "featurizer"} <= operations
    assert any(segment[0] >= SMALLEST for segment in genome)


def test_what_is_connected_stays_so_in_roles_that_both_have() -> None:
    searched = space(open_genes=["operator"], operation_weights=dict.fromkeys(_backbone_operations(), 0))
    genome = searched.parse("11112 91111 11112 92121 51111 93131 52121 94141")
    rng = np.random.default_rng(3)
    for _ in range(30):
        mutant, _ = searched.mutation(genome, rng)
        if mutant[0][0] != 1 and CLASSES[mutant[0][0]].spec.structure == "low_rank":
            assert mutant[0][0] == mutant[2][0]
            assert "key" not in searched.plan(mutant)[2].owned


def _backbone_operations() -> tuple[str, ...]:
    return ("connect", "extend", "disconnect", "split", "class", "group class", "swap", "insert", "delete", "integers")


def test_closed_spaces_write_no_operators() -> None:
    searched, rng = space(), np.random.default_rng(4)
    genome = searched.sample(rng)
    for _ in range(60):
        genome, facts = searched.mutation(genome, rng)
        assert not {"operator", "featurizer"} & set(facts["operations"])
    assert all(segment[0] < SMALLEST for segment in genome)


def test_stages_open_levels_one_after_the_other() -> None:
    nothing = dict.fromkeys(_backbone_operations(), 0)
    stages = [
        {"generations": 2, "open_genes": ["featurizer"], "operation_weights": nothing},
        {"generations": 1, "open_genes": ["operator"], "operation_weights": nothing},
        {},
    ]
    searched = space(levels=stages)
    rng = np.random.default_rng(5)
    genome = searched.parse("striped-mamba")
    seen = []
    for generation in range(5):
        names = set()
        for _ in range(12):
            names |= set(searched.at(generation).mutation(genome, rng)[1]["operations"])
        seen.append(names)
    assert seen[0] == seen[1] == {"featurizer"}
    assert seen[2] == {"operator"}
    assert not (seen[3] | seen[4]) & {"operator", "featurizer"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"open_genes": ["operators"]}, "no gene place 'operators'"),
        ({"open_genes": ["operator"], "operators": "paper"}, "operators=plan"),
        ({"levels": [{}], "open_genes": ["operator"]}, "each level"),
        ({"classes": ["12142"]}, "12141"),
    ],
)
def test_refusals(settings: dict[str, object], message: str) -> None:
    with pytest.raises((UsageError, GenomeError), match=message):
        space(**settings)


def test_a_pool_may_hold_written_operators() -> None:
    searched = space(classes=["SA-1", "12141", "GMemless"])
    genome = searched.sample(np.random.default_rng(6))
    assert {segment[0] for segment in genome} <= {1, 9, 12141}
    assert searched.plan(searched.parse("12141.1.1.1.1 91111"))[0].spec == written_class(12141).spec
