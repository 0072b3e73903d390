"""A zoo that grows while it trains: repeatable, killed anywhere, and written down."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from evodevo.errors import DataError, UsageError
from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.remarks import remarks
from evodevo.experiments.trials import Trial
from evodevo.growth import driver
from evodevo.growth import procedure as grow_procedure
from evodevo.growth.edit_spec import Edit
from evodevo.growth.edits import replay_log
from evodevo.growth.procedure_settings import check_grow
from evodevo.growth.spec import BirthSettings, Operation
from evodevo.growth.strategists.base import Strategist, create
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.state import Legal, State
from evodevo.growth.strategists.transition import Decision
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.spec import HYBRID, ZooModule
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.networks.saved import load_network
from evodevo.search.problem import Outcome
from evodevo.settings import merge, validate
from evodevo.storage.blobs import FolderPool
from evodevo.testing.small_networks import problem, settings
from evodevo.training import optimizers

torch.set_num_threads(1)

TRAINING: dict[str, Any] = {"budget": {"steps": 20}, "checkpoint_every": 2}
GROWTH: dict[str, Any] = {
    "strategist": "random",
    "events": {"count": 2, "first": 0.2, "last": 0.6, "warm": 0.2, "horizon": 0.3},
    "fitness": {"samples": 24},
    "prune": {"age": 0, "distil_steps": 3, "tolerance": 10.0, "least": 2},
    "replay": {"capacity": 24, "steps": 2},
}


class Scripted(Strategist):
    """Prunes somebody and has a hybrid born at the first event, grows at the second one."""

    name = "scripted"

    def _choose(self, state: State, legal: Legal, rng: Any) -> Decision:
        wanted: tuple[Operation, ...] = ("hybridise", "prune") if state.progress < 0.4 else ("grow", "rewarm")
        for operation in wanted:
            targets = legal.targets(operation)
            done = operation in ("hybridise", "grow") and not legal.births
            if targets and not done:
                return Decision(legal=legal, action=targets[int(rng.integers(len(targets)))])
        return Decision(legal=legal, action=legal.targets("noop")[0])


@pytest.fixture(scope="module", autouse=True)
def _scripted() -> Iterator[None]:
    """``heuristic`` is scripted here: of its own accord it waits for more events than a short run has."""

    def create_scripted(name: str, **given: Any) -> Strategist:
        if name != "heuristic":
            return create(name, **given)
        return Scripted(given["settings"], actions=given["actions"], seed=given["seed"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "create", create_scripted)
        yield


@dataclass(frozen=True)
class Grown:
    """A zoo that the scripted strategist grew: where its blobs lie, and the reports of its checkpoints."""

    pool: Path
    given: NetworkProblem
    outcome: Outcome
    checkpoints: list[dict[str, Any]]


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory, _scripted: None) -> Grown:
    pool, found = tmp_path_factory.mktemp("grown"), []
    given = problem({"training": TRAINING}, pool)
    outcome = evaluate(
        given,
        arm(strategist="heuristic"),
        report=lambda message: found.append(message) if "checkpoint" in message else None,
    )
    return Grown(pool, given, outcome, found)


def arm(**changes: Any) -> Trial:
    structure = ZooStructure(width=16, modules=start_zoo(16)[:4], router=ZooRouterStructure(heads=2))
    return Trial(
        name="zoo",
        network=ModuleZooNetwork(structure=structure),
        learning_rate=1e-2,
        procedure="grow",
        options=merge(GROWTH, changes),
    )


def evaluate(given: NetworkProblem, one: Trial, *, resume: str | None = None, report: Any = None) -> Outcome:
    outcome = given.read(evaluate_network(given.payload(one, 5, resume), report or (lambda message: None)))
    assert outcome.reason is None, outcome.detail
    return outcome


def facts(outcome: Outcome) -> dict[str, Any]:
    """Of the growth; seconds are never the same twice."""
    return merge(outcome.extra["growth"], {"overhead": {"seconds": 0, "seconds_share": 0}})


def zoo_of(pool: Path, outcome: Outcome) -> ModuleZoo:
    network, _ = load_network(FolderPool(pool), outcome.blobs["weights"])
    assert isinstance(network, ModuleZoo)
    return network


def bits(network: ModuleZoo) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in network.state_dict().items()}


def log(pool: Path, outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FolderPool(pool).get(outcome.blobs["edits"]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategist", "checkpoints"),
    # The scripted one prunes, crosses and grows, so that it is killed everywhere; those that learn are killed between
    # their first reward and the second event.
    [("heuristic", (1, 3, 6)), ("ppo", (5,)), ("meta_gradient", (5,))],
)
def test_a_growth_repeated_or_killed_anywhere_is_the_same_growth(
    tmp_path: Path, strategist: str, checkpoints: tuple[int, ...]
) -> None:
    given = problem({"training": TRAINING}, tmp_path / "pool")
    events = 2 if strategist == "heuristic" else 3  # what the last reward teaches is not kept
    one = arm(strategist=strategist, events={"count": events})
    found: list[dict[str, Any]] = []
    whole = evaluate(given, one, report=lambda message: found.append(message) if "checkpoint" in message else None)
    assert len(found) == 10
    assert len(whole.extra["growth"]["timeline"]) == len(whole.extra["growth"]["rewards"]) == events
    runs = {tmp_path / "again": evaluate(problem({"training": TRAINING}, tmp_path / "again"), one)}
    for place in checkpoints:
        assert all(FolderPool(tmp_path / "pool").size(digest) for digest in found[place]["blobs"])
        later: list[dict[str, Any]] = []
        resumed = evaluate(given, one, resume=found[place]["checkpoint"], report=later.append)
        kept = [message["blobs"] for message in later if "checkpoint" in message]
        assert kept == [message["blobs"] for message in found[place + 1 :]], "what the strategist has learnt included"
        assert resumed.blobs == whole.blobs
        assert resumed.extra["training_flops"] == whole.extra["training_flops"]
        runs[tmp_path / "pool"] = resumed
        for pool, outcome in runs.items():
            assert log(pool, outcome) == log(tmp_path / "pool", whole)
            assert bits(zoo_of(pool, outcome)) == bits(zoo_of(tmp_path / "pool", whole))
            assert facts(outcome) == facts(whole)


@pytest.mark.slow
def test_a_budget_in_flops_is_shared_out_as_one_in_steps(tmp_path: Path) -> None:
    in_steps = evaluate(problem({"training": TRAINING}, tmp_path), arm())
    flops = in_steps.extra["training_flops"]
    given = problem({"training": {"budget": {"steps": None, "flops": flops}, "checkpoint_every": 2}}, tmp_path)
    found: list[dict[str, Any]] = []
    whole = evaluate(given, arm(), report=lambda message: found.append(message) if "checkpoint" in message else None)
    # No step begins that exceeds it; the last probe, which is three steps here, may.
    assert whole.extra["training_flops"] <= flops + 3 * flops / 20
    assert whole.extra["training_flops"] > 0.8 * flops
    shares = [one["share"] for one in whole.extra["growth"]["timeline"]]
    assert shares == pytest.approx([0.2, 0.6], abs=0.15)
    # Newborns are warmed up over their share of the budget, and rewards wait for the horizon.
    steps = [one["step"] for one in whole.extra["growth"]["timeline"]]
    assert 0 < steps[0] < steps[1] < whole.extra["steps"]
    resumed = evaluate(given, arm(), resume=found[4]["checkpoint"])
    assert facts(resumed) == facts(whole)
    assert bits(zoo_of(tmp_path, resumed)) == bits(zoo_of(tmp_path, whole))


@pytest.mark.slow
def test_the_log_rebuilds_genotypes_and_first_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began: dict[str, dict[str, bytes]] = {}
    really = ModuleZoo.insert

    def listening(self: ModuleZoo, module: ZooModule, **given: Any) -> None:
        really(self, module, **given)
        began[module.id] = {
            name: one.numpy().tobytes() for name, one in self.pool.parts[module.id].state_dict().items()
        }

    monkeypatch.setattr(ModuleZoo, "insert", listening)
    whole = evaluate(problem({"training": TRAINING}, tmp_path), arm(strategist="heuristic"))
    told, pool = log(tmp_path, whole), FolderPool(tmp_path)
    edits = [validate(Edit, one, what="an edit") for one in told["edits"]]
    assert {"hybridise", "grow", "prune"} <= {one.action.operation for one in edits}
    assert any(source.rule == "copied" for edit in edits for source in edit.tensors)
    blobs = {role.removeprefix("parents/"): own for role, own in whole.blobs.items() if role.startswith("parents/")}
    assert all(role == digest for role, digest in blobs.items())
    replayed = replay_log(
        [validate(ZooModule, one, what="a module") for one in told["start"]],
        edits,
        lambda digest: pool.get(blobs[digest]),
        validate(BirthSettings, told["birth"], what="births"),
    )
    assert replayed.modules == zoo_of(tmp_path, whole).structure.modules
    assert began == {
        one: {name: tensor.numpy().tobytes() for name, tensor in weights.items()}
        for one, weights in replayed.newborns.items()
    }
    with pytest.raises(DataError, match="not there"):
        replay_log([], [one for one in edits if one.action.operation == "prune"], pool.get, BirthSettings())


LOADING = """
import sys
from pathlib import Path
import torch
from safetensors.torch import load_file
from evodevo.networks.saved import load_network
from evodevo.storage.blobs import FolderPool
torch.set_num_threads(1)
network, _ = load_network(FolderPool(Path(sys.argv[1])), sys.argv[2])
with torch.no_grad():
    for name, logits in network.eval()(load_file(sys.argv[3])).items():
        print(name, logits.numpy().tobytes().hex())
"""


@pytest.mark.slow
def test_a_zoo_with_a_hybrid_loads_in_another_process(grown: Grown, tmp_path: Path) -> None:
    pool, given, whole = grown.pool, grown.given, grown.outcome
    network = zoo_of(pool, whole)
    assert any(one.genotype.archetype == HYBRID for one in network.structure.modules)
    task = given.open_task({})
    batch = {name: torch.as_tensor(value) for name, value in task.batch("validation", 0, 0, 8).items()}
    save_file(batch, tmp_path / "batch")
    words = [sys.executable, "-c", LOADING, str(pool), whole.blobs["weights"], str(tmp_path / "batch")]
    elsewhere = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    with torch.no_grad():
        here = network.eval()(batch)
    assert elsewhere.split() == [
        word for name, logits in here.items() for word in (name, logits.numpy().tobytes().hex())
    ]


@pytest.mark.slow
def test_a_checkpoint_in_the_middle_of_a_warm_up_knows_who_is_half_born(grown: Grown) -> None:
    given, whole, found = grown.given, grown.outcome, grown.checkpoints
    (newborn,) = whole.extra["growth"]["timeline"][0]["born"]
    (middle,) = (one for one in found if one["tokens"] == 6 * given.settings.training.batch_size)
    network, about = load_network(FolderPool(grown.pool), middle["checkpoint"])
    assert isinstance(network, ModuleZoo)
    assert network.births == {newborn: pytest.approx(0.5)}
    assert "newborns" not in about
    task = given.open_task({})
    batch = {name: torch.as_tensor(value) for name, value in task.batch("validation", 0, 0, 8).items()}
    with torch.no_grad():
        half = next(iter(network(batch).values()))
        network.births = {}
        assert not torch.allclose(half, next(iter(network(batch).values())))
    assert zoo_of(grown.pool, whole).births == {}


@pytest.mark.slow
def test_a_zoo_that_nobody_changes_trains_as_ever(tmp_path: Path) -> None:
    given = problem({"training": TRAINING}, tmp_path)
    fixed = evaluate(given, arm(strategist="fixed", replay={"capacity": 0}))
    assert fixed.extra["growth"]["edits"] == []
    assert [one["born"] for one in fixed.extra["growth"]["timeline"]] == [[], []]
    assert fixed.extra["growth"]["modules"] == [one.id for one in start_zoo(16)[:4]]


@pytest.mark.slow
def test_a_budget_in_seconds_and_a_cap_of_latency(tmp_path: Path) -> None:
    given = problem({"training": {"budget": {"seconds": 4.0}}}, tmp_path)
    outcome = evaluate(given, arm(strategist="heuristic", caps={"latency": 60.0}))
    growth = outcome.extra["growth"]
    assert [one["event"] for one in growth["timeline"]] == [one["number"] for one in growth["rewards"]] == [1, 2]
    assert zoo_of(tmp_path, outcome).live == tuple(growth["modules"])


@pytest.mark.slow
def test_who_is_killed_before_the_first_event_still_remembers_earlier_runs(tmp_path: Path) -> None:
    given = problem({"training": TRAINING}, tmp_path)
    earlier = evaluate(given, arm(strategist="ppo"))
    digest = FolderPool(tmp_path).put_bytes(FolderPool(tmp_path).get(earlier.blobs["edit_memory"]))
    one, found = arm(strategist="ppo", edit_memory=digest), []
    whole = evaluate(given, one, report=lambda message: found.append(message) if "checkpoint" in message else None)
    resumed = evaluate(given, one, resume=found[0]["checkpoint"])
    assert log(tmp_path, resumed) == log(tmp_path, whole)
    assert bits(zoo_of(tmp_path, resumed)) == bits(zoo_of(tmp_path, whole))
    assert facts(resumed) == facts(whole)
    decided = [one["decisions"] for one in (earlier.extra["growth"], whole.extra["growth"])]
    kept = EditMemory.loads(FolderPool(tmp_path).get(whole.blobs["edit_memory"]).decode())
    assert len(kept.edits) > decided[1] // 2 > 0, "earlier edits are there, too"


@pytest.mark.slow
def test_growth_sees_the_split_architecture_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What selects the model and what it is judged by are no part of a probe, and no two splits share a sample."""
    seen: list[tuple[str, frozenset[int]]] = []
    probing = [False]
    really, fetch = grow_procedure.with_architecture_split, grow_procedure._Run._probes

    def listening(task: Any) -> Any:
        split = really(task)
        original = split.fetch

        def told(name: str, places: Any) -> Any:
            seen.append((name if not probing[0] else f"probe of {name}", frozenset(map(int, places))))
            return original(name, places)

        monkeypatch.setattr(split, "fetch", told)
        return split

    def probes(self: Any, *given: Any) -> Any:
        probing[0] = True
        try:
            return fetch(self, *given)
        finally:
            probing[0] = False

    monkeypatch.setattr(grow_procedure, "with_architecture_split", listening)
    monkeypatch.setattr(grow_procedure._Run, "_probes", probes)
    evaluate(problem({"training": TRAINING}, tmp_path), arm(strategist="heuristic"))
    by_name: dict[str, set[int]] = {}
    for name, places in seen:
        by_name.setdefault(name, set()).update(places)
    assert {name for name in by_name if name.startswith("probe")} == {"probe of architecture"}
    assert set(by_name) <= {"train", "probe of architecture", "validation"}


@pytest.mark.slow
def test_a_full_zoo_replaces(tmp_path: Path) -> None:
    outcome = evaluate(
        problem({"training": TRAINING}, tmp_path),
        arm(strategist="heuristic", birth={"most": 4}, prune={"least": 4}, allow=["hybridise", "prune"]),
    )
    first = outcome.extra["growth"]["timeline"][0]
    assert len(first["born"]) == len(first["gone"]) == 1
    assert len(outcome.extra["growth"]["modules"]) == 4


class Insistent(Strategist):
    """Has somebody born, and then wants the least fit gone, whoever may be there still."""

    name = "insistent"

    def _choose(self, state: State, legal: Legal, rng: Any) -> Decision:
        fitness = {one.id: one.fitness for one in state.modules}
        for operation in ("spawn", "prune", "rewarm"):
            targets = legal.targets(operation)
            if targets:
                chosen = min(targets, key=lambda one: fitness.get(one.modules[0], 0.0) if one.modules else 0.0)
                return Decision(legal=legal, action=chosen)
        return Decision(legal=legal, action=legal.targets("noop")[0])


@pytest.mark.slow
def test_who_gave_its_place_is_not_pruned_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "create", lambda _, **given: Insistent(given["settings"], actions=given["actions"]))
    events = {"count": 1, "first": 0.4, "last": 0.4, "actions": 8}
    outcome = evaluate(problem({"training": TRAINING}, tmp_path), arm(birth={"most": 4}, events=events))
    (event,) = outcome.extra["growth"]["timeline"]
    assert len(event["gone"]) == len(set(event["gone"])) == 2
    assert len(event["born"]) == 1
    assert outcome.extra["growth"]["modules"] == list(zoo_of(tmp_path, outcome).live)
    about = [
        one["action"]["modules"] for one in outcome.extra["growth"]["edits"] if one["action"]["operation"] == "rewarm"
    ]
    assert not {name for names in about for name in names} & set(event["gone"])


def test_what_was_learnt_is_left_for_the_next_run(grown: Grown) -> None:
    outcome = grown.outcome
    memory = EditMemory.loads(FolderPool(grown.pool).get(outcome.blobs["edit_memory"]).decode())
    totals = [one["total"] for one in outcome.extra["growth"]["rewards"]]
    assert {one.reward for one in memory.edits} == set(totals)
    assert any(one.child is not None for one in memory.edits)


@pytest.mark.slow
def test_what_growth_cost_is_told_and_what_was_left_out_for_it(tmp_path: Path) -> None:
    given = problem({"training": TRAINING}, tmp_path)
    poor, rich = (evaluate(given, arm(events={"overhead": overhead})).extra["growth"] for overhead in (0.01, 10.0))
    assert poor["overhead"]["exceeded"]
    assert poor["overhead"]["looks_left_out"] == 1
    assert not poor["looks"]
    assert not rich["overhead"]["exceeded"]
    assert rich["overhead"]["looks_left_out"] == 0
    assert len(rich["looks"]) == 1
    assert poor["overhead"]["flops_share"] < rich["overhead"]["flops_share"]
    assert "0.01" not in remarks([{"growth": poor}])[0]
    assert "grow.events.overhead allows 1 %" in remarks([{"growth": poor}, {"growth": rich}])[0]
    assert not remarks([{"growth": rich}])


@pytest.mark.parametrize(
    ("options", "steps", "words"),
    [
        ({"events": {"count": 8}}, 8, "too few for 8 events"),
        ({"caps": {"parameters": 100}}, 20, "over the cap"),
        ({"birth": {"most": 3}}, 20, "begins with 4 modules"),
        ({"events": {"first": 0.6}}, 20, "come all at"),
        ({"strategist": "nobody"}, 20, "strategist"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(options: Any, steps: int, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_grow(settings({"training": {"budget": {"steps": steps}}}), arm(**options))


@pytest.mark.slow
def test_edits_leave_the_moments_of_all_others_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = optimizers.load_state
    seen: list[tuple[set[str], set[str]]] = []

    def listening(model: Any, optimizer: Any, state: Any, *, changed: bool = False) -> None:
        really(model, optimizer, state, changed=changed)
        parameters = dict(model.named_parameters())
        members = [id(one) for group in optimizer.param_groups for one in group["params"]]
        assert sorted(members) == sorted(map(id, parameters.values()))
        for name in parameters.keys() & state.keys():
            for key, moment in state[name].items():
                assert torch.equal(optimizer.state[parameters[name]][key], moment), name
        new = parameters.keys() - state.keys()
        assert all(parameters[name] not in optimizer.state for name in new)
        seen.append((set(new), set(state.keys() - parameters.keys())))

    monkeypatch.setattr(optimizers, "load_state", listening)
    outcome = evaluate(problem({"training": TRAINING}, tmp_path), arm(strategist="heuristic"))
    growth = outcome.extra["growth"]
    born = {one for event in growth["timeline"] for one in event["born"]}
    gone = {one for event in growth["timeline"] for one in event["gone"]}
    assert born == {name.split(".")[2] for new, _ in seen for name in new if name.startswith("pool.parts.")} != set()
    assert gone == {name.split(".")[2] for _, old in seen for name in old if name.startswith("pool.parts.")} != set()
