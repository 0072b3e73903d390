"""Mutation on the plan changes the network; the paper's stays as it was, draw for draw."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evodevo import canonical
from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.backbone.variation.mutation import MOST_DRAWS
from evodevo.backbone.variation.operations import INTEGERS, OPERATIONS
from evodevo.errors import UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator
from evodevo.search.problem import Goal
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.settings import validate
from evodevo.storage import Store

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "search.json.xz"
EVERYTHING: dict[str, Any] = {
    "depth": 12,
    "depth_range": (6, 14),
    "residuals": True,
    "share_queries": True,
    "partial_featurizers": True,
}


def space_of(operators: str = "plan", **options: Any) -> BackboneSpace:
    values = {"depth": 8, "operators": operators, "dimensions": Dimensions(width=64)} | options
    return BackboneSpace(BackboneSettings(**values))


@pytest.fixture(scope="module")
def recorded() -> list[BackboneGenome]:
    """All genomes of a recorded search of three generations, baselines included."""
    rows = json.loads(lzma.decompress(GOLDEN.read_bytes()))["genomes"]
    return [space_of().from_json(row["genome_envelope"]) for row in rows]


def changed_share(space: BackboneSpace, genomes: list[BackboneGenome], rounds: int) -> float:
    rng = generator(1, "mutants")
    pairs = [(genome, space.mutate(genome, rng)) for genome in genomes for _ in range(rounds)]
    return sum(space.canonical(a) != space.canonical(b) for a, b in pairs) / len(pairs)


@pytest.mark.parametrize("options", [{}, EVERYTHING, {"depth": 24}, {"classes": ("SA-1", "GMemless")}], ids=str)
def test_nearly_every_mutation_changes_the_network(options: dict[str, Any]) -> None:
    rng = generator(0, "founders")
    space = space_of(**options)
    designed = [genome for _ in range(60) if (genome := space.initial(rng)) is not None]
    assert changed_share(space, designed, 1) >= 0.95
    assert changed_share(space, [space.sample(rng) for _ in range(60)], 1) >= 0.95


def test_nearly_every_mutation_of_recorded_genomes_changes_the_network(recorded: list[BackboneGenome]) -> None:
    assert len(recorded) == 14
    assert changed_share(space_of(), recorded, 15) >= 0.95
    assert changed_share(space_of("paper"), recorded, 15) < 0.95, "the control"


def test_a_mutation_says_what_it_did() -> None:
    space, rng = space_of(depth=24, residuals=True), generator(2)
    names = Counter[str]()
    for _ in range(100):
        genome = space.sample(rng)
        mutant, facts = space.mutation(genome, rng)
        assert facts.keys() == {"operations", "draws"}
        assert facts["operations"]
        assert canonical.loads(canonical.dumps(facts)) == facts
        assert mutant == space.canonical(mutant)
        names.update(facts["operations"])
        assert facts["draws"] >= 1
    assert {name.removesuffix(" feature").removesuffix(" featurizer").removesuffix(" residual") for name in names} == (
        OPERATIONS.keys() - {"insert", "delete", "operator", "featurizer"}
    )
    # One for every tenth of 24 LIVs, and one where there is none: 2.4 + 0.9 ** 24 = 2.48.
    assert 2.1 < sum(names.values()) / 100 < 2.9


def test_a_draw_without_a_change_is_drawn_again() -> None:
    """The paper's mutation alone, of designed backbones: more than a third of its draws change no network."""
    only = dict.fromkeys(OPERATIONS, 0.0) | {INTEGERS: 1.0}
    space, rng = space_of(operation_weights=only), generator(4)
    draws = []
    for _ in range(60):
        genome = space.initial(rng)
        assert genome is not None
        mutant, facts = space.mutation(genome, rng)
        assert set(facts["operations"]) == {INTEGERS}
        assert space.canonical(mutant) != space.canonical(genome)
        draws.append(facts["draws"])
    assert sum(draws) > 1.3 * len(draws)


def test_weights_choose_the_operations() -> None:
    only = dict.fromkeys(OPERATIONS, 0.0) | {"swap": 1.0}
    space, rng = space_of(operation_weights=only), generator(3)
    for _ in range(30):
        genome = space.sample(rng)
        mutant, facts = space.mutation(genome, rng)
        assert set(facts["operations"]) <= {"swap"}
        assert sorted(segment[0] for segment in genome) == sorted(segment[0] for segment in mutant)


def test_a_space_of_one_network_has_no_mutant() -> None:
    space = space_of(depth=1, classes=("GMemless",))
    genome = space.parse("91111")
    assert space.mutation(genome, generator(0)) == (genome, {"operations": [], "draws": MOST_DRAWS})


def test_no_probability_is_no_mutation() -> None:
    space = space_of(mutation_probability=0.0)
    genome = space.sample(generator(0))
    assert space.mutation(genome, generator(1)) == (genome, {})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"swop": 1.0}, "there is no operation 'swop'.*swap"),
        ({"swap": -1.0}, "the weight of 'swap' is -1.0; at least 0"),
        (dict.fromkeys(OPERATIONS, 0.0), "at least one must be above"),
    ],
)
def test_wrong_weights_are_refused(weights: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        validate(BackboneSettings, {"operation_weights": weights}, what="settings")


# The paper's operators


@pytest.mark.parametrize(
    ("options", "digest"),
    [
        ({}, "516bc0aa114c90f85b8aa2501379f4cfc4eb90bab609cb9fce8545efa830fd7b"),
        (EVERYTHING, "79c47d3c443b73a539c47063750487e54073be0a08e460c9b7bee85e7964b395"),
    ],
    ids=["plain", "everything"],
)
def test_the_papers_children_are_those_of_commit_7c5bd078(options: dict[str, Any], digest: str) -> None:
    """A fixture: the children of that commit, whose stored runs have no setting for the operators."""
    space = BackboneSpace(
        validate(BackboneSettings, {"dimensions": {"width": 64}, "depth": 8, **options}, what="space")
    )
    rng = generator(11, "children")
    made = []
    for _ in range(40):
        a, b = space.initial(rng), space.sample(rng)
        assert a is not None
        made += [space.mutate(child, rng) for child in space.crossover(a, b, rng)]
    assert canonical.digest([space.print(genome) for genome in made]) == digest


def test_defaults_are_written_as_before() -> None:
    """Settings decide hashes of networks and answers of commands; those of older runs are as they were."""
    assert BackboneSettings().operators == "paper"
    assert not {"operators", "operation_weights"} & BackboneSettings().model_dump(mode="json").keys()
    chosen = BackboneSettings(operators="plan", operation_weights={"swap": 2.0}).model_dump(mode="json")
    assert validate(BackboneSettings, chosen, what="space").operation_weights == {"swap": 2.0}


# In a search


def searched(operators: str, algorithm: str) -> Store:
    space, store = space_of(operators), Store.memory()

    def scores(genome: BackboneGenome) -> tuple[float, float]:
        cost = space.cost(genome, length=256)
        return cost.cache_bytes, cost.parameters

    study = Study(
        space,
        scores,
        goals=[Goal("cache"), Goal("parameters")],
        executor=SerialExecutor(),
        settings=StudySettings(algorithm=algorithm, population=6, generations=3, seed=5),
        store=store,
    )
    study.run()
    return store


@pytest.mark.parametrize("algorithm", ["nsga2", "firefly", "regularized"])
def test_the_search_records_the_operations_of_each_child(algorithm: str) -> None:
    store = searched("plan", algorithm)
    (run,) = store.runs()
    rows = store.individuals(run.id)
    children = [row for row in rows if row.parents]
    assert len(children) >= 8
    for row in children:
        assert ("mutation" in row.operation) == bool(row.details["operations"])
        assert row.details["draws"] >= 1
    assert all("operations" not in row.details for row in rows if not row.parents)
    again = searched("plan", algorithm)
    twins = again.individuals(again.runs()[0].id)
    assert [(one.genome_hash, one.details) for one in rows] == [(one.genome_hash, one.details) for one in twins]


def test_the_papers_operators_record_nothing_more() -> None:
    store = searched("paper", "nsga2")
    for row in store.individuals(store.runs()[0].id):
        assert row.details.keys() <= {"redraws", "known_samples"}
