"""Rungs and inheritance with real training: to a rung and on is at once, bit for bit; a child has its parents' bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evodevo.backbone.evaluate import evaluate_backbone
from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.problem import BackboneProblem
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UsageError
from evodevo.execution.base import Event
from evodevo.execution.serial import SerialExecutor
from evodevo.networks.build import build_network
from evodevo.networks.inheritance import inherit
from evodevo.networks.saved import load_network
from evodevo.operators.spec import Dimensions
from evodevo.search.problem import INHERITANCE, SNAPSHOT, Outcome, Terms
from evodevo.search.record import is_final
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.text.language import windows_of
from evodevo.testing.histories import evaluated_twice, history
from evodevo.training import checkpoints

Make = Callable[..., BackboneProblem]
SPACE = BackboneSpace(BackboneSettings(depth=4, dimensions=Dimensions(width=16, head_size=4)))
SMALL = {"dimensions": {"width": 16, "head_size": 4}}
VOCABULARY = 32
MIXED = SPACE.sample(np.random.default_rng(4))


def evaluate(one: BackboneProblem, terms: Terms, genome: Any, resume: str | None = None) -> tuple[Outcome, list[int]]:
    """The outcome, and the steps that were trained."""
    steps: list[int] = []
    payload = one.payload_on(terms, genome, 1, resume)
    outcome = one.read(evaluate_backbone(payload, lambda message: steps.append(int(message.get("step", 0)))))
    return outcome, [step for step in steps if step]


def same(one: Outcome, other: Outcome) -> None:
    assert one.reason is None
    assert [value.hex() for value in one.scores.values()] == [value.hex() for value in other.scores.values()]
    assert one.series == other.series
    assert one.blobs["weights"] == other.blobs["weights"]


# To a rung and on


@pytest.mark.parametrize("budget", [{"steps": 8}, {"tokens": 8 * 2 * 16 + 5}])
def test_to_a_rung_and_on_is_at_once(problem: Make, tmp_path: Path, budget: dict[str, int]) -> None:
    one = problem({"training": {"budget": {"steps": None, **budget}}}, space=SMALL, blobs=tmp_path)
    genome = MIXED
    whole, _ = evaluate(one, Terms(), genome)
    first, early = evaluate(one, Terms(share=0.25), genome)
    second, middle = evaluate(one, Terms(share=0.6), genome, first.blobs[SNAPSHOT])
    third, late = evaluate(one, Terms(), genome, second.blobs[SNAPSHOT])
    assert (early, middle, late) == ([1, 2], [3, 4, 5], [6, 7, 8])
    same(third, whole)
    assert [first.extra["tokens"], second.extra["tokens"], third.extra["tokens"]] == [2 * 32, 5 * 32, 8 * 32]
    assert SNAPSHOT not in third.blobs
    assert first.scores["cache"] == whole.scores["cache"]
    assert first.scores["quality"] != whole.scores["quality"]


def test_the_snapshot_of_a_rung_names_all_that_it_is_made_of(problem: Make, tmp_path: Path) -> None:
    one = problem({"keep_weights": False}, space=SMALL, blobs=tmp_path)
    first, _ = evaluate(one, Terms(share=0.5), one.space.named("transformer++"))
    manifest = checkpoints.load(FolderPool(tmp_path), first.blobs[SNAPSHOT]).manifest
    assert set(first.blobs.values()) == {first.blobs[SNAPSHOT], *manifest.digests()}
    assert set(first.blobs.values()) == set(FolderPool(tmp_path).digests())
    assert manifest.cursor is not None
    assert manifest.cursor.step == 4


def test_a_damaged_snapshot_costs_its_work_and_nothing_else(problem: Make, tmp_path: Path) -> None:
    one = problem(space=SMALL, blobs=tmp_path)
    genome = one.space.named("transformer++")
    whole, _ = evaluate(one, Terms(), genome)
    first, _ = evaluate(one, Terms(share=0.5), genome)
    FolderPool(tmp_path).path(first.blobs[SNAPSHOT]).unlink()
    again, steps = evaluate(one, Terms(), genome, first.blobs[SNAPSHOT])
    assert steps == list(range(1, 9))
    same(again, whole)


def test_a_part_of_a_budget_has_a_schedule_of_its_own(problem: Make, tmp_path: Path) -> None:
    """Half of eight steps is a training of four steps, which has ended."""
    half, steps = evaluate(problem(space=SMALL, blobs=tmp_path), Terms(budget=0.5), SPACE.named("transformer++"))
    short = problem({"training": {"budget": {"steps": 4}}}, space=SMALL, blobs=tmp_path)
    same(half, evaluate(short, Terms(), SPACE.named("transformer++"))[0])
    assert steps == [1, 2, 3, 4]


def test_a_training_that_has_no_share_is_refused(problem: Make) -> None:
    with pytest.raises(UsageError, match="a budget in seconds has no share"):
        StudySettings(rungs={}).check(problem({"training": {"budget": {"seconds": 1.0, "steps": None}}}))


# Inheritance


def built(genome: BackboneGenome, seed: int, space: BackboneSpace = SPACE) -> Any:
    return build_network(BackboneNetwork.of(space, genome), *windows_of(VOCABULARY, 16), seed)


def kept(pool: FolderPool, network: Any, genome: BackboneGenome, space: BackboneSpace = SPACE) -> str:
    """Digest of its weights, as a search keeps them."""
    read = {"model": {"vocabulary": VOCABULARY}, "space": space.settings.model_dump(mode="json"), "context_length": 16}
    return checkpoints.save(pool, network, genome=space.to_json(genome), input_specification=read)


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**16), st.booleans())
def test_what_a_child_inherits_is_its_parents_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, seed: int, crossed: bool
) -> None:
    pool = FolderPool(tmp_path_factory.mktemp("pool"))
    rng = np.random.default_rng(seed)
    parents = [SPACE.sample(rng), SPACE.sample(rng)]
    networks = {name: built(genome, number) for number, (name, genome) in enumerate(zip("ab", parents, strict=True))}
    donors = [(name, kept(pool, networks[name], genome)) for name, genome in zip("ab", parents, strict=True)]
    genome = SPACE.crossover(*parents, rng)[0] if crossed else SPACE.mutate(parents[0], rng)
    child, fresh = built(genome, 7), built(genome, 7)
    record = inherit(child, donors, pool)
    own, untouched = checkpoints.parts_of(child), checkpoints.parts_of(fresh)
    numbers = 0
    for part, tensors in own.items():
        name, source = record["parts"].get(part, (None, None))
        expected = untouched[part] if name is None else checkpoints.parts_of(networks[name])[source]
        assert all(torch.equal(tensor, expected[key]) for key, tensor in tensors.items()), part
        numbers += sum(tensor.numel() for tensor in tensors.values()) if name is not None else 0
    assert record["share"] == numbers / sum(tensor.numel() for tensor in child.state_dict().values())
    assert {"embedding", "norm", "head"} <= {part for part, (name, _) in record["parts"].items() if name == "a"}


def test_a_child_equal_to_its_parent_inherits_everything_and_says_the_same(tmp_path: Path) -> None:
    pool, rng = FolderPool(tmp_path), np.random.default_rng(3)
    for _ in range(4):
        genome = SPACE.sample(rng)
        parent, child = built(genome, 1), built(genome, 2)
        record = inherit(child, [("a", kept(pool, parent, genome))], pool)
        assert record["share"] == 1.0
        weights = parent.state_dict()
        assert all(torch.equal(tensor, weights[name]) for name, tensor in child.state_dict().items())


def test_sharing_that_changes_is_followed(tmp_path: Path) -> None:
    """A featurizer that two LIVs shared is copied to both; one that they come to share is the first one's."""
    pool = FolderPool(tmp_path)
    apart, tied = SPACE.parse("51111 91111 51111 91111"), SPACE.parse("51211 91111 51211 91111")
    tokens = torch.arange(16).unsqueeze(0)
    parent, child = built(tied, 1), built(apart, 2)
    assert len(parent.bank) < len(child.bank)
    assert inherit(child, [("a", kept(pool, parent, tied))], pool)["share"] == 1.0
    assert torch.equal(child.next_logits(tokens), parent.next_logits(tokens)), "splitting a group changes no output"
    parent, child = built(apart, 1), built(tied, 2)
    record = inherit(child, [("a", kept(pool, parent, apart))], pool)
    assert record["share"] == 1.0
    for part, (_, source) in record["parts"].items():
        assert part == source, "the weights of a group are those of the LIV that names it"


def test_a_group_that_was_borrowed_has_no_weights_to_inherit(tmp_path: Path) -> None:
    pool = FolderPool(tmp_path)
    apart, borrowing = SPACE.parse("11111 91111 11111 91111"), SPACE.parse("11114 91111 11114 91111")
    record = inherit(built(apart, 2), [("a", kept(pool, built(borrowing, 1), borrowing))], pool)
    missing = checkpoints.parts_of(built(apart, 2)).keys() - record["parts"].keys()
    assert missing == {"bank.2_key", "bank.2_value"}
    back = inherit(built(borrowing, 2), [("a", kept(pool, built(apart, 1), apart))], pool)
    assert back["share"] == 1.0


def test_backbones_of_other_depth_are_aligned_by_class(tmp_path: Path) -> None:
    pool = FolderPool(tmp_path)
    longer = BackboneSpace(BackboneSettings(depth=5, dimensions=SPACE.settings.dimensions))
    parent, genome = SPACE.parse("11111 91111 31111 91112"), longer.parse("11111 91111 21111 31111 91112")
    record = inherit(built(genome, 2, longer), [("a", kept(pool, built(parent, 1), parent))], pool)
    blocks = {part: source for part, (_, source) in record["parts"].items() if part.startswith("blocks")}
    assert blocks == {
        "blocks.0": "blocks.0", "blocks.1": "blocks.1", "blocks.3": "blocks.2", "blocks.4": "blocks.3"
    }  # fmt: skip


def test_the_first_step_begins_with_inherited_weights(problem: Make, tmp_path: Path) -> None:
    """Through the worker; the second donor is asked only for what the first lacks."""
    one = problem({"training": {"budget": {"steps": 2}, "optimizer": {"learning_rate": 1e-30, "weight_decay": 0}}},
                  space=SMALL, blobs=tmp_path)  # fmt: skip
    genome = one.space.named("transformer++")
    better, _ = evaluate(one, Terms(bequeaths=True), genome)
    other, _ = evaluate(one, Terms(bequeaths=True), MIXED)
    assert better.blobs[INHERITANCE] == better.blobs["weights"]
    donors = (("x", better.blobs[INHERITANCE]), ("y", other.blobs[INHERITANCE]))
    payload = one.payload_on(Terms(donors=donors), genome, 99)
    child = one.read(evaluate_backbone(payload, lambda message: None))
    assert child.extra["inherited"]["share"] == 1.0
    assert child.extra["inherited"]["donors"] == dict(donors)
    assert {name for name, _ in child.extra["inherited"]["parts"].values()} == {"x"}
    pool = FolderPool(tmp_path)
    a, b = (load_network(pool, outcome.blobs["weights"])[0].state_dict() for outcome in (better, child))
    assert all(torch.allclose(a[name], b[name], atol=1e-6) for name in a), "nothing was learned with so small a rate"


# A whole search


class Disorderly(SerialExecutor):
    """Several workers, and which of them ends first is drawn."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers = workers
        self._rng = np.random.default_rng(workers)

    def poll(self, timeout: float) -> list[Event]:
        self._waiting.rotate(int(self._rng.integers(100)))
        return super().poll(timeout)


class Killed(BaseException):
    """As kill -9: nothing of ours catches it."""


def search(
    make: Make, folder: Path, workers: int = 1, kills: tuple[int, ...] = (), generations: int = 2, **other: Any
) -> tuple[Store, str]:
    """A search with rungs and inheritance, killed at these events; the store, and the run."""
    store, run = Store.open(folder), other.pop("run", None)
    values = {"population": 4, "generations": generations, "seed": 2, "confirmations": 1, "baselines": False}
    chosen = StudySettings(**values, rungs={"shares": (0.25,)}, inheritance={"budget": 0.5})
    one = make({"keep_weights": False, **other}, space=SMALL, blobs=store.blobs_address)
    for kill in [*kills, None]:
        seen = 0

        def listen(kind: str, facts: dict[str, Any], kill: int | None = kill) -> None:
            nonlocal seen
            seen += 1
            if seen == kill:
                raise Killed

        study = Study(
            one.space, one, settings=chosen, store=store, run=run, listener=listen, executor=Disorderly(workers)
        )
        run = study.run_id
        try:
            study.run()
        except Killed:
            continue
    assert run is not None
    return store, run


def told(store: Store, run: str) -> Any:
    """Everything that must not depend on workers and interruptions."""
    assert evaluated_twice(store, run) == []
    names = {row.id: row.birth for row in store.individuals(run)}
    facts = {}
    for row in store.evaluations(run):
        if is_final(row):
            record = row.extra.get("inherited", {"parts": {}})
            parts = {part: (names[donor], source) for part, (donor, source) in record["parts"].items()}
            facts[names[row.individual_id], row.fidelity, row.seed] = (row.extra["tokens"], record.get("share"), parts)
    tokens = [event.payload["tokens"] for event in store.events(run) if event.type == "generation"]
    return history(store, run), facts, tokens


@pytest.mark.slow
def test_a_search_with_both_is_the_same_with_any_workers_killed_or_not(problem: Make, tmp_path: Path) -> None:
    store, run = search(problem, tmp_path / "one")
    expected = told(store, run)
    births, facts, tokens = expected
    children = [row for row in store.individuals(run) if row.parents and row.details.get("donors")]
    assert children
    by_birth = {birth.birth: birth for birth in births}
    for child in children:
        rows = {row.fidelity: row for row in store.evaluations(run) if row.individual_id == child.id}
        inherited = [row for fidelity, row in rows.items() if "inherited=0.5" in fidelity]
        assert inherited, "a child's own evaluation says that it inherited"
        assert set(inherited[0].extra["inherited"]["donors"]) <= set(child.parents)
        assert by_birth[child.birth]
    fresh = [row for row in store.evaluations(run) if row.seed != store.individuals(run)[0].seed]
    assert fresh
    assert all("inherited" not in row.extra and row.fidelity.startswith("steps=") for row in fresh), "from scratch"
    # Budget 8 steps of 32 tokens; a founder's first rung is 2 steps, a child's (half the budget) 1 of 4.
    assert tokens[0] == {"0.25": 4 * 64, "1.0": 2 * 192}
    spent = sum(sum(row.values()) for row in tokens)
    last = {
        key: value[0] for key, value in sorted(facts.items(), key=lambda item: item[1][0]) if key[2] != fresh[0].seed
    }
    assert spent == sum({key[0]: value for key, value in last.items()}.values()), "each token is counted once"
    _weights_that_nobody_needs_are_let_go_of(store, run)
    store.close()
    other, again = search(problem, tmp_path / "two", workers=3, kills=(7, 19))
    assert told(other, again) == expected
    other.close()


def _weights_that_nobody_needs_are_let_go_of(store: Store, run: str) -> None:
    closed = [event for event in store.events(run) if event.type == "generation"]
    population = set(closed[-1].payload["population"])
    holding = {row.individual_id for row in store.evaluations(run) if row.blobs}
    assert holding == population, "those who may have children if the run is made longer, and no others"
    for row in store.evaluations(run):
        assert not any(role.startswith(SNAPSHOT) for role in row.blobs)
