"""The space of zoos and zoos by name: the laws of every space, what a genome means, and how it is written."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from evodevo.errors import GenomeError, UsageError
from evodevo.module_zoo.genome import ALL, ZooGenome
from evodevo.module_zoo.modules.spec import HYBRID, ModuleGenotype
from evodevo.module_zoo.modules.zoo import ARCHETYPES, PAPER, archetype
from evodevo.module_zoo.named import named_zoo, paper, zoo_structure
from evodevo.module_zoo.settings import ModuleZooSpaceSettings
from evodevo.module_zoo.space import ModuleZooSpace
from evodevo.module_zoo.spec import FusionStructure, ZooRouterStructure, ZooStructure
from evodevo.module_zoo.text import show_module
from evodevo.randomness import generator
from evodevo.search.space import Space
from evodevo.testing.spaces import SpaceTests
from module_zoo.modules.graphs import graph, hybrid_of, node

WIDTH = 16
TEMPLATE = ZooStructure(width=WIDTH, router=ZooRouterStructure(top_k=None), fusion=FusionStructure(heads=2))


def hybrid(norms: int = 1) -> ModuleGenotype:
    """A free graph: norms one after the other, and a residual connection around them."""
    names = [f"n{number}" for number in range(norms)]
    chain = " ".join(f"{a}>{b}" for a, b in pairwise(["in", *names, "s", "out"]))
    return hybrid_of(graph(f"{chain} in>s", *(node(name, "norm") for name in names), s="sum"), WIDTH)


class TestModuleZooSpace(SpaceTests):
    """Of all archetypes, with hybrids; half of the genes have a choice."""

    settings = ModuleZooSpaceSettings(
        structure=TEMPLATE,
        modules_range=(1, 3),
        archetypes=tuple(ARCHETYPES.names()),
        hybrids=True,
        fusions=("bilinear", "paper"),
        gates=("relu", "gumbel", "entmax"),
        top_ks=(ALL, 2, 3),
    )

    def make_space(self) -> ModuleZooSpace:
        return ModuleZooSpace(self.settings)

    def genomes(self, space: Space[Any], rng: np.random.Generator) -> list[Any]:
        drawn = super().genomes(space, rng)
        if not space.settings.hybrids:
            return drawn
        grown = replace(drawn[0], modules=(*drawn[0].modules[:1], hybrid(2), hybrid()))
        return [*drawn, grown, space.mutate(grown, rng), *space.crossover(grown, drawn[1], rng)]

    def make_invalid(self, space: Space[Any], rng: np.random.Generator) -> ZooGenome:
        genome = space.sample(rng)
        *others, last = genome.modules
        wrong: list[dict[str, Any]] = [
            {"modules": ()},
            {"modules": genome.modules * 40},
            {"heads": 7},
            {"top_k": 50},
            {"modules": (*others, archetype("mlp", 2 * WIDTH))},
            {"modules": (*others, last.model_copy(update={"graph": hybrid(3).graph}))},  # not what its attributes say
        ]
        return replace(genome, **wrong[int(rng.integers(len(wrong)))])

    def make_equivalent(self, space: Space[Any], genome: ZooGenome, rng: np.random.Generator) -> ZooGenome:
        order = rng.permutation(len(genome.modules))
        return replace(genome, modules=tuple(genome.modules[place] for place in order))


class TestSpaceWithoutChoices(TestModuleZooSpace):
    settings = ModuleZooSpaceSettings(
        structure=TEMPLATE,
        modules_range=(1, 1),
        archetypes=("squeeze_excite",),
        fusions=("gmu",),
        gates=("softmax",),
        synergies=("off",),
        heads=(1,),
        top_ks=(ALL,),
        keys=("output",),
    )


SPACE = ModuleZooSpace(ModuleZooSpaceSettings(structure=TEMPLATE))


# Meaning


def test_a_genome_says_what_the_template_does_not() -> None:
    genome = SPACE.parse("gmu softmax off h2 k3 predictor | mlp(depth=2) squeeze_excite mlp(depth=3)")
    structure = SPACE.structure(genome)
    assert [module.id for module in structure.modules] == ["mlp-1", "mlp-2", "squeeze_excite-1"]
    assert structure.modules[1].genotype == archetype("mlp", WIDTH, depth=3)
    assert len({module.seed for module in structure.modules}) == 3
    router = structure.router
    assert (structure.fusion.kind, router.gate, router.synergy) == ("gmu", "softmax", "off")
    assert (router.heads, router.top_k, router.keys) == (2, 3, "predictor")
    assert structure.fusion.heads == 2, "the template's"
    assert SPACE.structure(replace(genome, top_k=ALL)).router.top_k is None


@pytest.mark.parametrize("seed", range(5))
def test_genomes_that_are_one_model_have_one_structure(seed: int) -> None:
    genome = SPACE.sample(generator(seed))
    twin = replace(genome, modules=genome.modules[::-1])
    assert SPACE.structure(twin) == SPACE.structure(genome)
    assert SPACE.structure(SPACE.canonical(genome)).modules == SPACE.structure(genome).modules


def test_a_limit_that_limits_nothing_is_none_and_the_start_is_one_of_each_archetype() -> None:
    three = SPACE.parse("k3 | mlp lstm cnn")
    assert SPACE.hash(three) == SPACE.hash(SPACE.parse("kall | cnn mlp lstm"))
    assert SPACE.hash(three) != SPACE.hash(SPACE.parse("k2 | mlp lstm cnn"))
    limited = ModuleZooSpace(ModuleZooSpaceSettings(structure=TEMPLATE, top_ks=(2, 4)))
    assert limited.canonical(limited.parse("k4 | mlp lstm")).top_k == 2
    genome = SPACE.parse("start")
    assert sorted(module.archetype for module in genome.modules) == sorted(PAPER)
    assert SPACE.initial(generator(0)) == genome
    few = ModuleZooSpace(ModuleZooSpaceSettings(structure=TEMPLATE, modules_range=(1, 2), archetypes=("lstm", "mlp")))
    first = few.initial(generator(0))
    assert {module.archetype for module in first.modules} == {"lstm", "mlp"}


# Variation


def test_mutation_changes_every_gene_and_every_kind_of_pool() -> None:
    rng = generator(0)
    start = SPACE.parse("asym_residual sparsemax similar h4 k4 output | mlp lstm cnn")
    children = [SPACE.mutate(start, rng) for _ in range(150)]
    for gene in ("fusion", "gate", "synergy", "heads", "top_k", "keys"):
        assert len({getattr(child, gene) for child in children}) > 1, gene
    assert {len(child.modules) for child in children} == {2, 3, 4}
    assert any(
        child.modules[0] != start.modules[0] and child.modules[0].archetype == "mlp" and len(child.modules) == 3
        for child in children
    ), "a module is mutated"
    assert all(len(set(SPACE.segments(child)) ^ set(SPACE.segments(start))) <= 2 for child in children), "one change"


@pytest.mark.parametrize("seed", range(5))
def test_modules_change_owner(seed: int) -> None:
    """What children have comes from a parent; where archetypes differ no module is lost or changed."""
    rng = generator(seed)
    a = SPACE.parse("softmax h1 | mlp mlp(depth=2)")
    b = SPACE.parse("entmax15 h2 | lstm cnn squeeze_excite")
    left, right = SPACE.crossover(a, b, rng)
    assert {left.gate, right.gate} == {"softmax", "entmax15"}
    assert {left.heads, right.heads} == {1, 2}
    both = sorted(show_module(module) for module in (*left.modules, *right.modules))
    assert both == sorted(show_module(module) for module in (*a.modules, *b.modules))


def test_distance_knows_how_alike_modules_are() -> None:
    a = SPACE.parse("| mlp lstm")
    near, far = SPACE.parse("| lstm mlp(depth=2)"), SPACE.parse("| cnn squeeze_excite")
    assert SPACE.distance(a, SPACE.parse("| lstm mlp")) == 0
    assert 0 < SPACE.distance(a, near) < SPACE.distance(a, far)
    assert SPACE.distance(a, SPACE.parse("| mlp lstm cnn")) == pytest.approx(1 / 9), "one without a partner"
    assert SPACE.distance(a, SPACE.parse("softmax | mlp lstm")) == pytest.approx(1 / 8)


# Text


def test_text_is_short_and_can_be_typed() -> None:
    text = "asym_residual sparsemax similar h4 k4 output | transformer(depth=2,heads=2) mlp"
    genome = SPACE.parse(text)
    assert SPACE.print(genome) == text
    assert SPACE.parse("| transformer ( heads = 2 , depth=2 )mlp ") == genome, "defaults may be left out"
    assert SPACE.parse("|2*mlp cnn(kernels=[3,7])").modules[:2] == (genome.modules[1],) * 2
    assert SPACE.title(SPACE.parse("kall | 2*mlp cnn")) == "asym_residual sparsemax similar h4 kall output | 2*mlp cnn"
    settings = ModuleZooSpaceSettings(structure=TEMPLATE, fusions=("bilinear", "gmu"), synergies=("bilinear", "off"))
    space = ModuleZooSpace(settings)
    genome = space.parse("low_rank bilinear | mlp lstm")
    assert (genome.fusion, genome.synergy) == ("bilinear", "bilinear"), "two words"
    assert space.print(genome).startswith("low_rank sparsemax bilinear")
    with pytest.raises(GenomeError, match="fusion is asym_residual; allowed: low_rank, gmu"):
        space.parse("bilinear | mlp lstm")
    assert SPACE.parse('| mlp(outer="sigmoid") lstm(both_ways=false)').modules[1].attributes["both_ways"] is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mlp lstm", "no bar"),
        ("magic | mlp lstm", "'magic' is not understood; known: h4"),
        ("k2 k3 | mlp lstm", "'k3' sets top_k a second time"),
        ("hall | mlp lstm", "'hall' is not understood"),
        ("h3 | mlp lstm", "heads is h3; allowed: h1, h2, h4"),
        ("| mlp", "2 to 6 modules, not 1"),
        ("| mlp lstmm", "unknown archetype 'lstmm'. Did you mean 'lstm'"),
        ("| mlp lstm(hidden=3)", "unknown attribute of the archetype 'lstm' 'hidden'"),
        ("| mlp transformer(heads=3)", "heads of 'transformer' is 3; allowed"),
        ("| mlp transformer(heads=4", "',' is missing"),
        ("| mlp transformer(heads=)", "a word or a JSON value is wanted at '\\)'"),
        ("| mlp transformer(heads=[[[)", "a word or a JSON value"),
        ("| mlp transformer(heads=NaN)", "a word or a JSON value"),
        ("| mlp mlp(depth=1,depth=2)", "sets depth a second time"),
        ("| mlp 99*lstm", "more than 64 modules"),
        ("| mlp operator", "module 2: the archetype is 'operator'; allowed: transformer"),
        ("| mlp hybrid", "unknown archetype 'hybrid'"),
        ("| mlp hybrid(3)", "object with nodes and edges"),
        ('| mlp hybrid({"nodes":[]})', "module 2: the archetype is 'hybrid'"),
        ("| mlp 9", "the name of an archetype is wanted at '9'"),
        (f"| {'mlp ' * 100_000}", "characters; at most"),
    ],
)
def test_text_that_cannot_be_read(text: str, words: str) -> None:
    with pytest.raises(GenomeError, match=words):
        SPACE.parse(text)


def test_genes_that_cannot_be() -> None:
    genes = SPACE.to_json(SPACE.parse("| mlp lstm"))["genes"]
    modules: list[Any] = [
        {},
        [{"archetype": "mlp"}, {"archetype": "mlp", "attributes": {}}],
        [{"archetype": "mlp", "attributes": {"De pth": 1}}] * 2,
        [{"archetype": "mlp", "attributes": {"depth": 1.5}}] * 2,
        [{"archetype": "mlp", "attributes": {"depth": None}}] * 2,
        [{"archetype": HYBRID, "graph": {"nodes": [{"type": "spell", "id": "a"}]}}] * 2,
        [{"archetype": HYBRID, "graph": {"edges": [["in", "nowhere"]]}}] * 2,
    ]
    for changes in ({"heads": True}, {"heads": "4"}, {"gate": 3}, *({"modules": one} for one in modules)):
        with pytest.raises(GenomeError):
            SPACE.from_json({"space": "module_zoo", "version": 1, "genes": genes | changes})


# Settings


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"archetypes": ("mpl",)}, "unknown archetype 'mpl'. Did you mean 'mlp'"),
        ({"archetypes": ()}, "archetypes is"),
        ({"modules_range": (3, 2)}, "modules_range is"),
        ({"modules_range": (1, 65)}, "modules_range is"),
        ({"heads": (3,)}, "each divides the width 16"),
        ({"top_ks": (-1,)}, "top_ks are"),
        ({"gates": ("softmax", "softmax")}, "each once"),
        ({"structure": ZooStructure(width=WIDTH, router=ZooRouterStructure(kind="mean"))}, "kind is 'mean'"),
    ],
)
def test_settings_that_make_no_space(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ModuleZooSpace(ModuleZooSpaceSettings(**{"structure": TEMPLATE, **changes}))


# Zoos by name and from plain data


def kinds(structure: Any) -> list[str]:
    return [module.genotype.archetype for module in structure.modules]


def test_zoos_by_name_and_from_plain_data() -> None:
    assert [one.genotype.archetype for one in named_zoo("start", 16)] == list(PAPER)
    assert len(named_zoo("table_3", 16)) == 9
    chosen = named_zoo(["mlp", "lstm", "mlp"], 16)
    assert [one.id for one in chosen] == ["mlp-1", "lstm-1", "mlp-2"]
    assert len({one.seed for one in chosen}) == 3
    assert named_zoo("mlp, lstm,mlp", 16) == chosen
    assert kinds(zoo_structure({"modules": "cnn", "width": 8})) == ["cnn"]
    assert {one.genotype.width for one in chosen} == {16}
    assert (zoo_structure({}).width, kinds(zoo_structure({}))) == (64, list(PAPER))
    wide = zoo_structure({"width": 32, "router": {"top_k": 2}})
    assert (wide.width, wide.router.top_k, kinds(wide)) == (32, 2, list(PAPER))
    assert kinds(zoo_structure({"modules": ["mlp"], "width": 8})) == ["mlp"]
    named = zoo_structure({"modules": "table_3"}, wide)
    assert (named.router.top_k, len(named.modules)) == (2, 9)
    given = zoo_structure({"modules": [one.model_dump(mode="json") for one in wide.modules[:2]]}, wide)
    assert given.modules == wide.modules[:2]
    structure = paper()
    assert (structure.width, len(structure.modules), structure.dropout) == (512, 9, 0.1)
    assert {name: one.kind for name, one in structure.extractors.items()} == dict.fromkeys(
        ("text", "image"), "hugging_face"
    )
    assert structure.router.top_k == 9, "its K is not given: all may count"
    assert paper(None, None).extractors == {}


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        ("strat", "unknown zoo 'strat'. Did you mean 'start'"),
        (["mpl"], "unknown archetype 'mpl'. Did you mean 'mlp'"),
        ("mpl", "unknown zoo 'mpl'. Did you mean 'mlp'"),
        ("cnn,mpl", "unknown archetype 'mpl'. Did you mean 'mlp'"),
        ("cnn,", "unknown archetype ''"),
        ([], "at least one module"),
    ],
)
def test_zoos_that_are_none(modules: Any, words: str) -> None:
    with pytest.raises(UsageError) as error:
        named_zoo(modules, 16)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"widht": 8}, "did you mean 'width'"),
        ({"router": {"topk": 8}}, "did you mean 'top_k'"),
        ({"width": "wide"}, "width"),
        ({"width": -1}, "width"),
        ({"width": 10**9}, "width"),
        ({"width": 30}, "does not divide the width 30"),
        ({"modules": "six"}, "unknown zoo 'six'"),
        ({"router": 3}, "router"),
    ],
)
def test_wrong_settings_of_a_zoo_are_told_with_their_place(changes: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        zoo_structure(changes)
