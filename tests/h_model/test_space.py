"""The space of H-Models: the laws of every space, the written form, equal models, and the words of refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from evodevo.errors import GenomeError, UsageError
from evodevo.h_model.aggregations.attention import AttentionAggregation
from evodevo.h_model.genome import HModelGenome
from evodevo.h_model.space import SCALARS, HModelSpace
from evodevo.h_model.space_settings import HModelSpaceSettings
from evodevo.h_model.spec import PRESETS, HModelStructure, RegularisationStructure
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.layers.liv import LIVLayer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.randomness import generator
from evodevo.testing.spaces import SpaceTests


def space_of(**settings: Any) -> HModelSpace:
    """A space of the paper's stream, unless a structure is given."""
    return HModelSpace(HModelSpaceSettings(**{"structure": HModelStructure(stream="paper"), **settings}))


class HModelSpaceTests(SpaceTests):
    options: ClassVar[dict[str, Any]] = {}

    def make_space(self) -> HModelSpace:
        return space_of(**self.options)

    def make_invalid(self, space: Any, rng: np.random.Generator) -> Any:
        genome = space.sample(rng)
        for gene in ("iterations", "alpha", "alpha_rate", "window", "amount"):
            if rng.random() < 0.4:
                genome = replace(genome, **{gene: int(rng.choice([-3, 0, 2, 999, 10**9]))})
        if rng.random() < 0.3:
            genome = replace(genome, mode=str(rng.choice(["dense", "source_topk", "target_topm", "threshold"])))
        layers = [*genome.layers * int(rng.integers(0, 4)), *("unheard-of",) * int(rng.integers(0, 2))]
        return replace(genome, layers=tuple(layers))

    def make_equivalent(self, space: Any, genome: Any, rng: np.random.Generator) -> Any:
        if genome.window:
            return genome
        return replace(genome, layers=tuple(str(name) for name in rng.permutation(genome.layers)))


class TestDefault(HModelSpaceTests):
    pass


class TestOneLayer(HModelSpaceTests):
    options: ClassVar[dict[str, Any]] = {
        "hidden_range": (1, 1),
        "iterations_range": (1, 1),
        "layers": ("transformer",),
        "alphas": (1.0,),
        "alpha_rates": (1.4, 0.7),
        "aggregations": ("sum",),
        "windows": (0,),
        "modes": ("dense",),
    }


class TestWindowsAndNeverDense(HModelSpaceTests):
    options: ClassVar[dict[str, Any]] = {
        "modes": ("source_topk", "target_topm"),
        "windows": (3, 1),
        "hidden_range": (1, 4),
    }


class TestCustomLayers(HModelSpaceTests):
    options: ClassVar[dict[str, Any]] = {
        "layers": (),
        "custom": {"wide-mlp": MLPLayer(hidden=512), "narrow": TransformerLayer(width=32)},
        "structure": HModelStructure(stream="paper", causal=True, width=32),
    }


# Written form


def test_the_written_form() -> None:
    space, pair = space_of(), ("transformer",) * 2
    for text, genome in {
        "T4 a1 r1 sum dense | tr tr mlp": HModelGenome(4, layers=(*pair, "mlp")),
        "T2 a0.3 r1.4 attention w1 m2 | conv lstm Rec-1": HModelGenome(
            2, 300, 1400, "attention", 1, "target_topm", 2, ("convolution", "lstm", "Rec-1")
        ),
        "T1 a3 r0.7 sum k1 | tr tr": HModelGenome(1, 3000, 700, mode="source_topk", amount=1, layers=pair),
        "T1 a1 r1 sum c0.05 | mlp mlp": HModelGenome(1, mode="threshold", amount=50, layers=("mlp", "mlp")),
    }.items():
        assert space.parse(text) == genome
        assert space.print(genome) == text
    plain = space.parse("T4 a1 r1 sum dense | tr tr tr")
    assert space.parse("T4 | 3*tr") == plain, "what is left out is the default"
    assert space.parse("  dense   sum T4 a1.000 |transformer  2*transformer") == plain
    wide = space_of(hidden_range=(1, 10), iterations_range=(1, 10))
    for name, (count, iterations) in PRESETS.items():
        assert wide.parse(name) == HModelGenome(iterations, layers=("transformer",) * count)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no bar"),
        ("T4 sum dense", "no bar"),
        ("T4 |", "no layers"),
        ("| tr tr", "iterations are missing"),
        ("T4 T3 | tr tr", "'T3' sets iterations a second time"),
        ("T4 dense k2 | tr tr", "'k2' sets mode a second time"),
        ("T4 q7 | tr tr", "'q7' is not understood"),
        ("T4 a0.0001 | tr tr", "'a0.0001' is not understood"),
        ("T-1 | tr tr", "'T-1' is not understood"),
        ("T4 | tr 0*tr", r"layer 2 is '0\*tr'"),
        ("T4 | 999*tr", "more than 64"),
        ("T99 | tr tr", r"iterations is 99; allowed: 1, 2, 3, 4, 5, 6\."),
        ("T4 a2 | tr tr", r"alpha is 2; allowed: 0.1, 0.3, 1, 3\."),
        ("T4 k3 | tr tr", r"amount is 3; allowed of the mode source_topk with 2 layers: 1, 2\."),
        ("T4 c0.5 | tr tr", "amount is 0.5; allowed of the mode threshold with 2 layers: 0.05, 0.1, 0.2"),
        ("T4 w2 | tr tr", r"window is 2; allowed with 2 layers: 0, 1\."),
        ("T4 | tr", "2 to 8 hidden layers, not 1"),
        ("T4 | tr SA-1", "layer 2 is 'SA-1'; allowed: transformer, mlp"),
        ("T4 |" + "x" * 9000, "9004 characters"),
        ("wide", "2 to 8 hidden layers, not 10"),
    ],
)
def test_refusals_say_what_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(GenomeError, match=message):
        space_of().parse(text)


def test_other_genes_are_refused_and_repair_takes_the_nearest_number() -> None:
    space = space_of()
    envelope = space.to_json(space.parse("T4 | tr tr"))
    for change in (
        {"iterations": True},
        {"iterations": 4.0},
        {"layers": "tr"},
        {"layers": ["tr", 1]},
        {"layers": ["mlp"] * 65},
        {"mode": None},
        {"more": 1},
    ):
        with pytest.raises(GenomeError):
            space.from_json(envelope | {"genes": envelope["genes"] | change})
    broken = HModelGenome(99, 500, 10**9, "sum", 7, "target_topm", 9, ("transformer", "mlp", "lstm"))
    mended = space.repair(broken, generator(0))
    assert mended == replace(broken, iterations=6, alpha=300, alpha_rate=1400, window=2, amount=3)


def test_impossible_spaces_are_refused() -> None:
    for settings, message in (
        ({"layers": ()}, "no layers"),
        ({"layers": ("transformr",)}, "Did you mean 'transformer'"),
        ({"layers": ("Rec-1",), "structure": HModelStructure(stream="paper", width=40)}, "width 40"),
        ({"heads": 5}, "5 attention heads do not divide the width 64"),
        *(({"custom": {name: MLPLayer()}}, "a name of its own") for name in ("mlp", "tr", "two words")),
        ({"hidden_range": (3, 2)}, "hidden_range"),
        ({"hidden_range": (1, 65)}, "hidden_range"),
        ({"iterations_range": (0, 2)}, "iterations_range"),
        ({"alphas": ()}, "alphas"),
        ({"alphas": (1.0, 1.0)}, "each once"),
        ({"alphas": (0.0001,)}, "at most three decimals"),
        ({"thresholds": (1.5,)}, "0.001 to 1 is wanted"),
        ({"windows": (-1,)}, "windows"),
        ({"modes": ()}, "modes"),
        ({"structure": HModelStructure(stream="paper", disabled=(0,))}, "disabled"),
    ):
        with pytest.raises(UsageError, match=message):
            space_of(**settings)


# Drawing


def test_every_kind_of_change_is_reached() -> None:
    space, rng = space_of(), generator(0)
    genome = space.parse("T3 w1 m2 | tr mlp lstm tr")
    seen: set[str] = set()
    for _ in range(200):
        mutant = space.mutate(genome, rng)
        assert mutant != genome
        changed = {name for name in (*SCALARS, "mode") if getattr(mutant, name) != getattr(genome, name)}
        if mutant.amount != genome.amount and mutant.mode == genome.mode:
            changed.add("amount")
        if mutant.layers != genome.layers:
            same = sorted(mutant.layers) == sorted(genome.layers)
            size = len(mutant.layers) - len(genome.layers)
            changed.add("swap" if same else {1: "add", -1: "remove", 0: "replace"}[size])
        assert len(changed) == 1, changed
        seen |= changed
    assert seen == {*SCALARS, "mode", "amount", "add", "remove", "replace", "swap"}


def test_crossover_gives_each_child_a_piece_of_both() -> None:
    space = space_of()
    a, b = space.parse("T1 a0.1 | 2*tr"), space.parse("T6 a3 r0.7 attention m3 | 8*mlp")
    seen = set()
    for seed in range(60):
        one, two = space.crossover(a, b, generator(seed))
        assert {one.iterations, two.iterations} == {1, 6}
        assert {one.alpha, two.alpha} == {100, 3000}
        assert sorted((*one.layers, *two.layers)) == sorted((*a.layers, *b.layers))
        seen |= {one.layers, two.layers}
    assert ("transformer", *("mlp",) * 7) in seen
    assert ("mlp", "transformer") in seen


def test_initial_genomes_are_presets_within_the_ranges() -> None:
    space = space_of()
    found = {(len(g.layers), g.iterations) for g in (space.initial(generator(seed)) for seed in range(40)) if g}
    assert found == {(8, 2), (2, 6), (4, 4)}
    genome = space.initial(generator(0))
    assert (set(genome.layers), genome.mode, genome.alpha) == ({"transformer"}, "dense", 1000)
    other = space_of(layers=("mlp", "lstm"), modes=("threshold",)).initial(generator(0))
    assert (set(other.layers), other.mode) == ({"mlp"}, "threshold")


# Meaning


def test_the_structure_is_the_template_with_the_genes() -> None:
    template = HModelStructure(
        stream="paper", width=32, causal=True, inference=InferenceStructure(outputs_count=True), slots=3
    )
    space = space_of(structure=template, head_size=8)
    made = space.structure(space.parse("T2 a0.3 r1.4 attention w1 k2 | tr Rec-1 mlp"))
    assert (made.width, made.causal, made.slots) == (32, True, 3)
    assert [layer.kind for layer in made.hidden] == ["transformer", "liv", "mlp"]
    assert isinstance(made.hidden[1], LIVLayer)
    assert made.hidden[1].operator == "Rec-1"
    assert (made.iterations, made.alpha, made.alpha_rate, made.window) == (2, 0.3, 1.4, 1)
    assert made.aggregation == AttentionAggregation()
    assert made.inference == InferenceStructure(mode="source_topk", k=2, outputs_count=True)
    assert space.structure(space.parse("T2 c0.2 | tr tr")).inference.threshold == 0.2
    assert space.structure(space.parse("T2 | tr tr")).window is None


def test_every_genome_has_a_valid_structure() -> None:
    for options in (TestDefault.options, TestCustomLayers.options, TestWindowsAndNeverDense.options):
        space, rng = space_of(**options), generator(5)
        for _ in range(40):
            structure = space.structure(space.sample(rng))
            assert HModelStructure.model_validate_json(structure.model_dump_json()) == structure


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("T4 | tr mlp lstm", "T4 | lstm tr mlp", True),
        ("T1 r0.7 | tr tr", "T1 r1.4 | tr tr", True),
        ("T4 m2 | tr tr", "T4 dense | tr tr", True),
        ("T4 k2 | tr tr", "T4 dense | tr tr", True),
        ("T4 w1 | tr mlp lstm", "T4 w1 | lstm tr mlp", False),
        ("T2 r0.7 | tr tr", "T2 r1.4 | tr tr", False),
        ("T4 m1 | tr tr", "T4 dense | tr tr", False),
        ("T4 k1 | tr tr", "T4 m1 | tr tr", False),
        ("T4 c0.05 | tr tr", "T4 c0.1 | tr tr", False),
        ("T4 | tr tr", "T4 | tr tr tr", False),
    ],
)
def test_one_model_has_one_hash_and_other_models_have_others(a: str, b: str, same: bool) -> None:
    space = space_of()
    assert (space.hash(space.parse(a)) == space.hash(space.parse(b))) == same


def test_what_the_template_makes_different_stays_different() -> None:
    """Outputs that count in k can lose their connections at k = H; a T drawn while training uses the rate."""
    drawn = RegularisationStructure(iterations_min=1, iterations_max=3)
    for structure, a, b in (
        (
            HModelStructure(stream="paper", inference=InferenceStructure(outputs_count=True)),
            "T4 k2 | tr tr",
            "T4 | tr tr",
        ),
        (HModelStructure(stream="paper", regularisation=drawn), "T1 r0.7 | tr tr", "T1 r1.4 | tr tr"),
    ):
        space = space_of(structure=structure)
        assert space.hash(space.parse(a)) != space.hash(space.parse(b))


def test_distance_compares_layers_as_sets_unless_windows_order_them() -> None:
    space = space_of()

    def distance(a: str, b: str) -> float:
        return space.distance(space.parse(a), space.parse(b))

    assert distance("T4 | tr mlp lstm", "T4 | lstm tr mlp") == 0
    assert distance("T4 w1 | tr mlp lstm", "T4 w1 | lstm tr mlp") == pytest.approx(3 / 9)
    assert distance("T4 | tr mlp", "T3 | tr mlp lstm") == pytest.approx(2 / 9)


def test_hash_is_of_the_genome_alone() -> None:
    """A fixture: a change of this number makes every stored genome a stranger."""
    wide, narrow = space_of(), space_of(structure=HModelStructure(stream="paper", width=128), alphas=(1.0,))
    text = "T4 a1 r1 sum dense | tr tr mlp"
    assert wide.hash(wide.parse(text)) == narrow.hash(narrow.parse(text))
    assert wide.hash(wide.parse(text)) == ("f4c874f6bdf66346054dbb8ffc73176056c38ad07c2cf8b0b0b50aefba2495e9")
