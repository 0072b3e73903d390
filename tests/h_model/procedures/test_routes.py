"""Routes that are searched for or given, and a router that learns them: what is counted, kept, resumed and refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.racing.race import batches_from
from evodevo.experiments.remarks import remarks
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trainer import Trainer
from evodevo.experiments.trials import Trial
from evodevo.h_model.cost import h_model_cost
from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.procedures.routes import train_routes
from evodevo.h_model.procedures.routes_settings import RoutesOptions, routes_words
from evodevo.h_model.recipes.programs import GIVEN
from evodevo.h_model.routes.genome import RoutesGenome
from evodevo.h_model.routes.search import RouteSearch, Tried
from evodevo.h_model.routes.settings import RouteSearchSettings
from evodevo.h_model.spec import HModelStructure, imposed
from evodevo.networks.saved import load_network
from evodevo.search.base import Proposal
from evodevo.settings import merge, validate
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.reasoning.programs import ProgramsSettings, ProgramsTask
from evodevo.training.precision import decide
from fixtures.evaluations import Told, assert_equal, evaluate, outcome_of

PROGRAMS: dict[str, Any] = {
    "operations": 4,
    "values": 5,
    "held_out": 0.3,
    "samples": {"train": 3000, "validation": 80, "test": 60},
}
LAYER = {"kind": "mlp", "hidden": 8}
STRUCTURE: dict[str, Any] = {
    "width": 16,
    "hidden": [LAYER] * 5,
    "iterations": 3,
    "input_blocks": 0,
    "output_blocks": 0,
    "stream": "carried",
    "carried": {"iteration_router": True},
    "router": {"pool": "mean"},
    "regularisation": {"balance": 0.02},
}
SETTINGS: dict[str, Any] = {
    "task": "programs",
    "task_settings": PROGRAMS,
    "training": {"budget": {"steps": 40}, "batch_size": 16, "device": "cpu", "report_every": 1},
    "validation_samples": 40,
    "test_samples": 40,
    "curve_points": 2,
    "curve_samples": 20,
    "trace_samples": 4,
}
SLOTS = [5, 10, 15]
TABLE = {"input": "program", "slots": SLOTS, "layers": [0, 1, 2, 3, 4]}
SEARCH: dict[str, Any] = {
    "input": "program", "slots": SLOTS, "symbols": 5, "population": 3, "generations": 3, "steps": 3, "samples": 32,
}  # fmt: skip


def settings(changes: dict[str, Any] | None = None) -> NetworkEvaluationSettings:
    return validate(NetworkEvaluationSettings, merge(SETTINGS, changes or {}), what="settings")


def problem(blobs: Path | None = None, arms: Any = (), **changes: Any) -> NetworkProblem:
    return NetworkProblem(lambda arm: arm, settings(changes), blobs, arms=arms)


def structure(**changes: Any) -> HModelStructure:
    return validate(HModelStructure, {**STRUCTURE, **changes}, what="x")


def arm(options: Mapping[str, Any], *, network: Any = None, **more: Any) -> Trial:
    network = network or HModelNetwork(structure=structure())
    options = {"guided": 0.5, **options}
    given = {"name": "H-Model", "network": network, "learning_rate": 1e-2, "procedure": "routes", "options": options}
    return Trial(**{**given, **more})


def searched(**changes: Any) -> Trial:
    return arm({"search": {**SEARCH, **changes}})


def bench_of(seed: int = 1) -> Trainer:
    task = ProgramsTask.open(validate(ProgramsSettings, PROGRAMS, what="x"))
    return Trainer(searched(), settings(), task, seed, decide("cpu"), None, lambda message: None, None, Path("unused"))


def search_of(changes: dict[str, Any], seed: int = 1) -> RouteSearch:
    return RouteSearch(bench_of(seed), validate(RouteSearchSettings, {**SEARCH, **changes}, what="x"), structure())


def watched(bench: Trainer) -> list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]]:
    """Weights before and after every stage that is trained from now on."""
    seen: list[Any] = []
    train = bench.train

    def watching(network: Any, **more: Any) -> Any:
        before = {name: one.clone() for name, one in network.state_dict().items()}
        result = train(network, **more)
        seen.append((before, {name: one.clone() for name, one in network.state_dict().items()}))
        return result

    bench.train = watching  # type: ignore[method-assign]
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["regularized", "nsga2", "random"])
def test_a_search_is_recorded_and_all_of_it_counts(algorithm: str, tmp_path: Path) -> None:
    outcome = evaluate(problem(tmp_path), searched(algorithm=algorithm))
    found = outcome.extra["search"]
    tried = found["tables"]
    assert len(tried) == found["tried"] == 9
    assert remarks([outcome.extra]), "what the table of a comparison says of searches"
    assert len({one["routes"] for one in tried}) == 9, "no table is tried twice"
    assert found["best"] == min(range(9), key=lambda number: tried[number]["loss"])
    for number, one in enumerate(tried):
        assert (one["parent"] is None) == (number < 3 or algorithm == "random")
        assert one["parent"] is None or one["parent"] < number
    slots, layers = (part.split() for part in tried[found["best"]]["routes"].split("|"))
    assert outcome.extra["routes"] == {
        "input": "program", "slots": [int(one) for one in slots], "layers": [int(one) for one in layers],
    }  # fmt: skip
    assert 0 <= outcome.extra["named"] <= 1
    # What was spent: nine trainings of three steps with their judgements, then the rest of the budget.
    assert (found["steps"], outcome.extra["steps"]) == (27, 40)
    task = ProgramsTask.open(validate(ProgramsSettings, PROGRAMS, what="x"))
    routed = imposed(structure(), validate(RoutesOptions, {"routes": TABLE}, what="x").routes)  # type: ignore[arg-type]
    judged = 32 * h_model_cost(routed, inputs=task.inputs, outputs=task.outputs).executed_flops
    step = (found["flops"] - 9 * judged) / 27
    exact = h_model_cost(routed, inputs=task.inputs, outputs=task.outputs, batch=16, mode="train").flops
    assert step == pytest.approx(exact, rel=0.2), "layers that no sample addresses are not run backwards"
    assert outcome.extra["training_flops"] > found["flops"] + 13 * 0.8 * step


@pytest.mark.slow
def test_what_is_kept_is_an_ordinary_h_model(tmp_path: Path) -> None:
    outcome = evaluate(problem(tmp_path), searched())
    network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    assert isinstance(network, HModel)
    assert network.structure == structure()
    assert not network.follows
    assert outcome.cost["parameters"] == sum(one.numel() for one in network.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("inherit", [False, True])
def test_a_search_goes_on_from_any_checkpoint_to_the_same_network(inherit: bool, tmp_path: Path) -> None:
    given, told = problem(tmp_path, training={"checkpoint_every": 2}), Told()
    one = searched(inherit=inherit)
    whole = evaluate(given, one, report=told.append)
    assert len(told.checkpoints) > 12
    # In the first generation, in the last one, under the table, and after it.
    for checkpoint in (told.checkpoints[1], told.checkpoints[7], told.checkpoints[-6], told.checkpoints[-1]):
        assert_equal(evaluate(given, one, resume=checkpoint), whole, "search", "routes", "named", "training_flops")


@pytest.mark.slow
def test_a_router_learns_a_given_table_and_then_decides() -> None:
    given = {"training": {"budget": {"steps": 400}, "batch_size": 64}, "validation_samples": 80}
    outcome = evaluate(problem(**given), arm({"routes": TABLE, "guided": 0.6}))
    assert outcome.extra["named"] > 0.95
    unguided = evaluate(problem(**given), arm({"routes": TABLE, "guided": 0.01}))
    assert unguided.extra["named"] < 0.8


def test_children_begin_with_their_parents_weights_where_they_inherit() -> None:
    for inherit in (False, True):
        search = search_of({"inherit": inherit})
        stages = watched(search.bench)
        parent = search._try(0, Proposal(RoutesGenome((5, 10, 15), (0, 1, 2, 3, 4)), (), "sample", {}))
        search.tried.append(parent)
        child = search._try(1, Proposal(RoutesGenome((5, 10, 15), (0, 1, 2, 3, 3)), ("0",), "mutation", {}))
        (new, trained), (begun, _) = stages
        assert all(torch.equal(begun[name], trained[name]) for name in trained) == inherit
        assert all(torch.equal(begun[name], new[name]) for name in trained) != inherit
        assert (parent.steps, child.steps, child.parent) == (3, 6 if inherit else 3, 0)
        batches = [batches_from(search.bench, search.task, first)(0)["program"] for first in (parent.steps, 0)]
        assert not (batches[0] == batches[1]).all(), "and with the batches after those of the parent"


@pytest.mark.slow
def test_the_best_table_keeps_its_weights_and_the_table_is_followed_at_first() -> None:
    bench = bench_of()
    stages = watched(bench)
    trained = train_routes(bench, {"search": SEARCH, "guided": 0.5})
    assert len(stages) == 9 + 2
    kept, begun = stages[trained.extra["search"]["best"]][1], stages[9][0]
    layers = [name for name in kept if name.startswith("core.layers.")]
    assert layers
    assert all(torch.equal(begun[name], kept[name]) for name in layers)
    moved = [not torch.equal(stages[9][1][name], begun[name]) for name in layers]
    assert any(moved)
    assert isinstance(trained.network, HModel)
    assert not trained.network.follows


def test_selection_finds_tables_that_random_search_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judged by a known number instead of a training: slots that are wrong, and symbols that share a layer."""

    def judged(self: RouteSearch, number: int, proposal: Proposal) -> Tried:
        genome = proposal.genome
        wrong = sum(a != b for a, b in zip(genome.slots, SLOTS, strict=True)) + 5 - len(set(genome.layers))
        parent = int(proposal.parents[0]) if proposal.parents else None
        return Tried(genome, parent, float(wrong), 0, None)

    monkeypatch.setattr(RouteSearch, "_try", judged)
    lowest: dict[str, list[float]] = {}
    for algorithm in ("regularized", "random"):
        for seed in range(5):
            best = search_of({"algorithm": algorithm, "population": 8, "generations": 12}, seed).run()
            assert best is not None
            assert best.loss is not None
            lowest.setdefault(algorithm, []).append(best.loss)
    assert sum(lowest["regularized"]) < sum(lowest["random"])
    assert min(lowest["regularized"]) == 0


def test_a_space_of_few_tables_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        RouteSearch, "_try", lambda self, number, proposal: Tried(proposal.genome, None, -float(number), 0, None)
    )
    search = search_of({"slots": [5], "generations": 40})
    best = search.run()
    # Partitions of five symbols into at most five equal layers.
    assert len(search.tried) == 52
    assert best == search.tried[51]


def test_a_search_in_which_everything_fails_is_a_failed_training() -> None:
    outcome = outcome_of(problem(), arm({"search": SEARCH}, learning_rate=1e30))
    assert outcome.reason in ("nan", "diverged")


@pytest.mark.parametrize(
    ("options", "more", "changes", "words"),
    [
        ({}, {}, {}, "either routes, or a search"),
        ({"routes": TABLE, "search": SEARCH}, {}, {}, "either routes, or a search"),
        ({"search": SEARCH}, {"training": {"budget": {"steps": 27}}}, {}, "9 tables of 3 steps use up .* of 27 steps"),
        ({"search": SEARCH}, {"training": {"budget": {"tokens": 9000}}}, {}, "give it in steps"),
        ({"search": {**SEARCH, "algorithm": "nsga3"}}, {}, {}, "nsga3"),
        ({"search": {**SEARCH, "slots": [5, 5]}}, {}, {}, "each slot once"),
        ({"routes": {**TABLE, "layers": [0, 1, 2, 3, 5]}}, {}, {}, "layers holds 5"),
        ({"routes": TABLE}, {}, {"stream": "paper", "carried": {}}, "stream = carried"),
        ({"routes": TABLE}, {}, {"carried": {"m": 2}}, "take m = 1"),
        ({"search": SEARCH}, {}, {"disabled": [2]}, "are disabled"),
        ({"search": SEARCH}, {}, {"causal": True, "router": {}}, "whole samples"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(
    options: dict[str, Any], more: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    one = arm(options, network=HModelNetwork(structure=structure(**changes)), **more)
    with pytest.raises(UsageError, match=words):
        problem(arms=[one])


def test_what_was_found_is_told_in_words() -> None:
    facts = {
        "routes": {"input": "x", "slots": [8, 5], "layers": [2, 0]},
        "search": {"tried": 2, "tables": [{"loss": 2.0}, {"loss": 0.5}], "best": 1, "steps": 1200},
        "named": 0.875,
    }
    words = " ".join(routes_words(facts))
    assert "8 5 | 2 0" in words
    assert "2 tables in 1,200 steps" in words
    assert "0.500 nats" in words
    assert "87.5% of its decisions" in words
    assert routes_words({}) == []
    assert len(routes_words({name: facts[name] for name in ("routes", "named")})) == 2


def test_codes_beyond_the_end_of_the_input_are_refused() -> None:
    for options in ({"routes": {**TABLE, "slots": [5, 10, 16]}}, {"search": {**SEARCH, "slots": [5, 16]}}):
        with pytest.raises(UsageError, match="5 symbols from entry 16 of 'program' on, which has 20 entries"):
            problem(arms=[arm(options)])


def test_the_routes_of_the_recipe_are_those_of_its_task() -> None:
    task = ProgramsTask.open(ProgramsSettings())
    GIVEN.check(task.inputs)
    assert max(GIVEN.slots) + len(GIVEN.layers) == task.inputs[0].size
