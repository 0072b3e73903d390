"""A zoo or an H-Model that grows while it trains: repeatable, killed anywhere, and written down."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
from evodevo.growth.edit_spec import Edit
from evodevo.growth.edits import replay_log
from evodevo.growth.events import learning
from evodevo.growth.growable import GROWABLES
from evodevo.growth.h_model.growable import GrowableHModel
from evodevo.growth.h_model.growing import GrowingHModel
from evodevo.growth.procedures import samples
from evodevo.growth.procedures.settings import check_grow
from evodevo.growth.spec import BirthSettings, GrowthSettings, Operation
from evodevo.growth.strategists.base import Strategist, create
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.memory_of_policy import PolicyMemory
from evodevo.growth.strategists.state import Legal, State
from evodevo.growth.strategists.transition import Decision
from evodevo.growth.zoo.growing import GrowingZoo
from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.opponents import parameter_matched
from evodevo.h_model.spec import CarriedStructure, HModelStructure
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.spec import HYBRID, ZooModule
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.module_zoo.statistics import ZooStatistics
from evodevo.networks.saved import load_network
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.search.problem import Outcome
from evodevo.settings import changes_of_new_runs, merge, validate
from evodevo.storage.blobs import FolderPool
from evodevo.testing.small_networks import problem, settings
from evodevo.training import optimizers

torch.set_num_threads(1)

TRAINING: dict[str, Any] = {"budget": {"steps": 20}, "checkpoint_every": 2}
GROWTH: dict[str, Any] = {
    "strategist": "heuristic",
    "events": {"count": 2, "first": 0.2, "last": 0.6, "warm": 0.2, "horizon": 0.3, "overhead": 10.0},
    "fitness": {"samples": 24},
    "prune": {"age": 0, "distil_steps": 3, "tolerance": 10.0, "least": 2},
    "replay": {"capacity": 24, "steps": 2},
}
SCRIPT: tuple[tuple[Operation, ...], ...] = (("hybridise", "prune"), ("grow", "spawn", "rewarm"))


class Killed(BaseException):
    """As kill -9."""


class Scripted(Strategist):
    """Has a hybrid born and prunes somebody at the first event; the second one begins with a child or a spawn."""

    name = "scripted"

    def _choose(self, state: State, legal: Legal, rng: Any) -> Decision:
        for operation in SCRIPT[0] if state.progress < 0.4 else SCRIPT[1]:
            targets = legal.targets(operation)
            if targets:
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
        patch.setattr(learning, "create", create_scripted)
        yield


def zoo() -> ModuleZooNetwork:
    structure = ZooStructure(width=16, modules=start_zoo(16)[:4], router=ZooRouterStructure(heads=2))
    return ModuleZooNetwork(structure=structure)


def h_model(**more: Any) -> HModelNetwork:
    """Its first layer is no module."""
    hidden = (TransformerLayer(heads=2), *(GenotypeLayer(module=one) for one in start_zoo(16)[:3]))
    return HModelNetwork(
        structure=HModelStructure(
            width=16, iterations=2, input_blocks=0, output_blocks=0, hidden=hidden, **{"stream": "paper", **more}
        )
    )


def carried() -> HModelNetwork:
    """The same layers on a carried stream."""
    return h_model(stream="carried", carried=CarriedStructure(m=2, cap=3))


NETWORKS = pytest.mark.parametrize("network", [zoo(), h_model(), carried()], ids=["zoo", "H-Model", "carried"])


def arm(network: NetworkSpec | None = None, **changes: Any) -> Trial:
    options = merge(GROWTH, changes)
    return Trial(name="grown", network=network or zoo(), learning_rate=1e-2, procedure="grow", options=options)


def begun_with(network: NetworkSpec) -> list[str]:
    return [one.id for one in GROWABLES.get(network.kind).of(network.structure).modules]


def evaluate(given: NetworkProblem, one: Trial, *, resume: str | None = None, report: Any = None) -> Outcome:
    outcome = given.read(evaluate_network(given.payload(one, 5, resume), report or (lambda message: None)))
    assert outcome.reason is None, outcome.detail
    return outcome


@dataclass(frozen=True)
class Grown:
    """A growth, and what was seen of it: reports of checkpoints, first weights of newborns, who came and who went in
    the state of the optimizer, and which samples of which split were read."""

    pool: Path
    given: NetworkProblem
    one: Trial
    outcome: Outcome
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    began: dict[str, dict[str, bytes]] = field(default_factory=dict)
    moved: list[tuple[set[str], set[str]]] = field(default_factory=list)
    read: set[str] = field(default_factory=set)

    @property
    def facts(self) -> dict[str, Any]:
        """Of the growth; seconds are never the same twice."""
        found: dict[str, Any] = self.outcome.extra["growth"]
        return merge(found, {"overhead": {"seconds": 0, "seconds_share": 0}})

    @property
    def log(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(FolderPool(self.pool).get(self.outcome.blobs["edits"]))
        return found

    @property
    def network(self) -> ModuleZoo | HModel:
        network, _ = load_network(FolderPool(self.pool), self.outcome.blobs["weights"])
        assert isinstance(network, (ModuleZoo, HModel))
        return network

    @property
    def memory(self) -> EditMemory:
        return EditMemory.loads(FolderPool(self.pool).get(self.outcome.blobs["edit_memory"]).decode())

    def is_like(self, other: Grown) -> bool:
        """Whether the two cannot be told apart, what the strategist has learnt at each checkpoint included."""
        bits = [{name: one.numpy().tobytes() for name, one in x.network.state_dict().items()} for x in (self, other)]
        assert self.log == other.log
        assert bits[0] == bits[1]
        assert self.facts == other.facts
        assert [one["blobs"] for one in self.checkpoints] == [one["blobs"] for one in other.checkpoints]
        assert self.outcome.blobs == other.outcome.blobs
        assert self.outcome.extra["training_flops"] == other.outcome.extra["training_flops"]
        return True


def grow(pool: Path, one: Trial, changes: dict[str, Any] | None = None, kills: Sequence[int] = ()) -> Grown:
    """Killed after each of these checkpoints, and resumed from it."""
    given = problem(merge({"training": TRAINING}, changes or {}), pool)
    seen: list[dict[str, Any]] = []
    resume: str | None = None

    def report(message: dict[str, Any]) -> None:
        if "checkpoint" in message:
            assert all(FolderPool(pool).size(digest) for digest in message["blobs"])
            seen.append(message)
            if len(seen) in kills:
                raise Killed

    for _ in kills:
        with pytest.raises(Killed):
            evaluate(given, one, resume=resume, report=report)
        resume = seen[-1]["checkpoint"]
    return Grown(pool, given, one, evaluate(given, one, resume=resume, report=report), seen)


def owner(model: Any, name: str) -> str:
    """Id of the module of a parameter; of a zoo the parameter itself where it is nobody's."""
    table, own, place, *_ = [*name.split("."), "", ""]
    if isinstance(model, ModuleZoo):
        return place if (table, own) == ("pool", "parts") else name
    layers = GrowableHModel.of(model.structure).modules
    return layers[int(place)].id if (table, own) == ("core", "layers") else ""


def watched(pool: Path, one: Trial, changes: dict[str, Any] | None = None) -> Grown:
    """A growth whose births, optimizer and samples are looked at while it goes on."""
    began: dict[str, dict[str, bytes]] = {}
    moved: list[tuple[set[str], set[str]]] = []
    read: set[str] = set()
    before: list[dict[str, list[torch.Tensor]]] = []
    probing = [False]
    save, load, split = optimizers.state_by_name, optimizers.load_state, samples.with_architecture_split
    probes = samples.GrowthSamples.probed

    def moments(model: Any, state: Any) -> dict[str, list[torch.Tensor]]:
        found: dict[str, list[torch.Tensor]] = {}
        for name, _ in model.named_parameters():
            found.setdefault(owner(model, name), []).extend(each.clone() for each in state.get(name, {}).values())
        found.pop("", None)
        return found

    def saved(model: Any, optimizer: Any) -> Any:
        state = save(model, optimizer)
        if isinstance(model, (ModuleZoo, HModel)):
            before.append(moments(model, state))
        return state

    def loaded(model: Any, optimizer: Any, state: Any, **more: Any) -> None:
        load(model, optimizer, state, **more)
        if isinstance(model, (ModuleZoo, HModel)):
            members = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
            assert sorted(members) == sorted(map(id, model.parameters()))
            earlier, now = before[-1], moments(model, save(model, optimizer))
            for name in earlier.keys() & now.keys():
                assert len(earlier[name]) == len(now[name])
                assert all(map(torch.equal, earlier[name], now[name])), name
            new = now.keys() - earlier.keys()
            assert not any(now[name] for name in new)
            moved.append((set(new), set(earlier.keys() - now.keys())))

    def listening(task: Any) -> Any:
        parts = split(task)
        fetch = parts.fetch

        def told(name: str, places: Any) -> Any:
            read.add(f"probe of {name}" if probing[0] else name)
            return fetch(name, places)

        patch.setattr(parts, "fetch", told)
        return parts

    def probe(self: Any, *given: Any) -> Any:
        probing[0] = True
        try:
            return probes(self, *given)
        finally:
            probing[0] = False

    def inserting(kind: Any) -> Any:
        really = kind.insert

        def insert(self: Any, module: ZooModule, **given: Any) -> None:
            really(self, module, **given)
            began[module.id] = {name: one.numpy().tobytes() for name, one in self.weights(module.id).items()}

        return insert

    with pytest.MonkeyPatch.context() as patch:
        for kind in (GrowingZoo, GrowingHModel):
            patch.setattr(kind, "insert", inserting(kind))
        patch.setattr(optimizers, "state_by_name", saved)
        patch.setattr(optimizers, "load_state", loaded)
        patch.setattr(samples, "with_architecture_split", listening)
        patch.setattr(samples.GrowthSamples, "probed", probe)
        done = grow(pool, one, changes)
    return Grown(pool, done.given, one, done.outcome, done.checkpoints, began, moved, read)


@pytest.fixture(scope="module")
def grown_zoo(tmp_path_factory: pytest.TempPathFactory, _scripted: None) -> Grown:
    return watched(tmp_path_factory.mktemp("zoo"), arm())


@pytest.fixture(scope="module")
def grown_h_model(tmp_path_factory: pytest.TempPathFactory, _scripted: None) -> Grown:
    return watched(tmp_path_factory.mktemp("h_model"), arm(h_model()), {"select": {"metric": "loss"}})


@pytest.fixture(scope="module")
def grown_carried(tmp_path_factory: pytest.TempPathFactory, _scripted: None) -> Grown:
    """Three of the layers run."""
    return watched(tmp_path_factory.mktemp("carried"), arm(carried()), {"select": {"metric": "loss"}})


@pytest.fixture(scope="module", params=["zoo", "h_model", "carried"])
def grown(request: pytest.FixtureRequest) -> Grown:
    found: Grown = request.getfixturevalue(f"grown_{request.param}")
    return found


# What one growth leaves


def test_the_log_rebuilds_genotypes_and_first_weights(grown: Grown) -> None:
    told, pool, facts = grown.log, FolderPool(grown.pool), grown.facts
    edits = [validate(Edit, one, what="an edit") for one in told["edits"]]
    assert {"hybridise", "prune"} <= {one.action.operation for one in edits}
    assert {"grow", "spawn"} & {one.action.operation for one in edits}
    assert len(grown.began) == len(facts["timeline"]) == len(facts["rewards"]) == 2
    assert [one["id"] for one in facts["start"]] == begun_with(grown.one.network)
    assert facts["overhead"]["flops_share"] > 0
    assert any(source.rule == "copied" for edit in edits for source in edit.tensors)
    roles = grown.outcome.blobs.items()
    blobs = {role.removeprefix("parents/"): own for role, own in roles if role.startswith("parents/")}
    assert all(role == digest for role, digest in blobs.items())
    replayed = replay_log(
        [validate(ZooModule, one, what="a module") for one in told["start"]],
        edits,
        lambda digest: pool.get(blobs[digest]),
        validate(BirthSettings, told["birth"], what="births"),
    )
    kept = GROWABLES.get(grown.one.network.kind).of(grown.network.structure).modules
    assert [one.id for one in replayed.modules] == facts["modules"] == [one.id for one in kept]
    assert [one.genotype for one in replayed.modules] == [one.genotype for one in kept]
    assert grown.began == {
        one: {name: tensor.numpy().tobytes() for name, tensor in weights.items()}
        for one, weights in replayed.newborns.items()
    }
    with pytest.raises(DataError, match="not there"):
        replay_log([], [one for one in edits if one.action.operation == "prune"], pool.get, BirthSettings())


def test_edits_leave_the_moments_of_all_others_alone(grown: Grown) -> None:
    timeline = grown.facts["timeline"]
    born, gone = ({one for event in timeline for one in event[what]} for what in ("born", "gone"))
    assert set.union(*(new for new, _ in grown.moved)) == born != set()
    assert set.union(*(old for _, old in grown.moved)) == gone != set()


def test_growth_sees_the_split_architecture_alone(grown: Grown) -> None:
    """What selects the model and what it is judged by are no part of a probe."""
    assert {name for name in grown.read if name.startswith("probe")} == {"probe of architecture"}
    assert grown.read <= {"train", "probe of architecture", "validation"}


def test_what_was_learnt_is_left_for_the_next_run(grown: Grown) -> None:
    # The memory has the sum of the event itself; a record that is read back has its terms in the order of their names.
    order = ("value", "cost", "novelty", "instability", "parameters")
    totals = {sum(one["terms"][name] for name in order if name in one["terms"]) for one in grown.facts["rewards"]}
    assert {one.reward for one in grown.memory.edits} == totals
    assert any(one.child is not None for one in grown.memory.edits)


def test_a_checkpoint_in_the_middle_of_a_warm_up_knows_who_is_half_born(grown_zoo: Grown) -> None:
    (newborn,) = grown_zoo.facts["timeline"][0]["born"]
    batch_size = grown_zoo.given.settings.training.batch_size
    (middle,) = (one for one in grown_zoo.checkpoints if one["tokens"] == 6 * batch_size)
    network, about = load_network(FolderPool(grown_zoo.pool), middle["checkpoint"])
    assert isinstance(network, ModuleZoo)
    assert network.births == {newborn: pytest.approx(0.5)}
    assert "newborns" not in about
    batch = validation_batch(grown_zoo)
    with torch.no_grad():
        half = next(iter(network(batch).values()))
        network.births = {}
        assert not torch.allclose(half, next(iter(network(batch).values())))
    assert grown_zoo.network.births == {}


def validation_batch(grown: Grown) -> dict[str, torch.Tensor]:
    task = grown.given.open_task({})
    return {name: torch.as_tensor(value) for name, value in task.batch("validation", 0, 0, 8).items()}


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
def test_a_zoo_with_a_hybrid_loads_in_another_process(grown_zoo: Grown, tmp_path: Path) -> None:
    network, batch = grown_zoo.network, validation_batch(grown_zoo)
    assert any(one.genotype.archetype == HYBRID for one in network.structure.modules)
    save_file(batch, tmp_path / "batch")
    weights = grown_zoo.outcome.blobs["weights"]
    words = [sys.executable, "-c", LOADING, str(grown_zoo.pool), weights, str(tmp_path / "batch")]
    elsewhere = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    with torch.no_grad():
        here = network.eval()(batch)
    assert elsewhere.split() == [
        word for name, logits in here.items() for word in (name, logits.numpy().tobytes().hex())
    ]


# Interruptions


@pytest.mark.slow
def test_a_growth_killed_anywhere_is_the_same_growth(grown: Grown, tmp_path: Path) -> None:
    """Before the first event, while its newborn warms up, and after the second one."""
    changes = {"select": {"metric": "loss"}} if grown.one.network.kind == "h_model" else {}
    assert len(grown.checkpoints) == 10
    assert grow(tmp_path, grown.one, changes, kills=(2, 4, 7)).is_like(grown)


@pytest.mark.slow
def test_a_growth_with_edits_in_place_killed_anywhere_is_the_same_and_its_log_has_all_that_a_replay_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SCRIPT", (("widen",), ("deepen", "grow")))
    one = arm(allow=["widen", "deepen", "grow"], in_place={"units": "twins"})
    done = grow(tmp_path / "a", one)
    edits = [validate(Edit, each, what="an edit") for each in done.log["edits"]]
    assert {each.action.operation for each in edits if each.module is not None} == {"widen", "deepen", "grow"}
    kept = {each.id: each for each in GROWABLES.get("module_zoo").of(done.network.structure).modules}
    parents = {role: own for role, own in done.outcome.blobs.items() if role.startswith("parents/")}
    replayed = replay_log(
        [validate(ZooModule, each, what="a module") for each in done.log["start"]],
        edits,
        lambda digest: FolderPool(done.pool).get(parents[f"parents/{digest}"]),
        validate(BirthSettings, done.log["birth"], what="births"),
    )
    assert {each.id: each.genotype for each in replayed.modules} == {name: each.genotype for name, each in kept.items()}
    assert len(replayed.enlarged) == sum(each.enlarged for each in edits) >= 4
    assert done.facts["timeline"][0]["born"] == []
    assert grow(tmp_path / "b", one, kills=(2, 4, 7)).is_like(done)
    # What it takes from the budget is counted as for births.
    still = grow(tmp_path / "c", arm(allow=["prune"], prune={"least": 4}))
    assert done.outcome.extra["training_flops"] > still.outcome.extra["training_flops"]


@pytest.mark.slow
def test_by_the_rules_of_new_runs_a_killed_growth_is_the_same_and_the_router_may_know_the_impacts(
    grown_zoo: Grown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts of probes in a row, newborns beside the gate and impacts are in the checkpoints, too."""
    monkeypatch.setattr(sys.modules[__name__], "SCRIPT", (("hybridise",), ("prune",)))
    # Every module falls short at every probe: who goes at the second event was counted at the first, and between them.
    short = {"prune": {"usage": 0.999, "benefit": 100.0, "patience": 3}}
    new = merge(changes_of_new_runs(GrowthSettings()), short)
    one = arm(**merge(new, {"fitness": {"inform": True}, "events": {"horizon": 0.1}}))
    changes = {"training": {"budget": {"flops": 1.2e8, "steps": None}}}
    whole = grow(tmp_path / "whole", one, changes)
    assert [edit["action"]["operation"] for edit in whole.facts["edits"]] == ["hybridise", "prune"]
    for kills in ((2,), (3, 5)):
        assert whole.is_like(grow(tmp_path / str(kills), one, changes, kills))
    for growth, told in ((whole, True), (grown_zoo, False)):
        statistics = growth.network.statistics
        assert isinstance(statistics, ZooStatistics)
        known = [bool(statistics._of(name).read("impact").isfinite()) for name in growth.network.live]
        assert any(known) == told


@pytest.mark.slow
@pytest.mark.parametrize("strategist", ["ppo", "meta_gradient"])
def test_who_learns_goes_on_with_what_was_learnt_and_remembered(
    grown_zoo: Grown, tmp_path: Path, strategist: str
) -> None:
    """Killed before the first event, and between the first reward and the second event."""
    digest = grown_zoo.outcome.blobs["edit_memory"]
    for name in ("whole", "parts"):
        FolderPool(tmp_path / name).put_bytes(FolderPool(grown_zoo.pool).get(digest))
    # What the last reward teaches is not kept: a third event.
    one = arm(strategist=strategist, events={"count": 3}, edit_memory=digest, policy={"memory": {"epochs": 2}})
    whole = grow(tmp_path / "whole", one)
    assert grow(tmp_path / "parts", one, kills=(1, 6)).is_like(whole)
    assert len(whole.facts["rewards"]) == 3
    earlier = grown_zoo.memory.edits
    assert whole.memory.edits[: len(earlier)] == earlier
    assert len(whole.memory.edits) > len(earlier) > 0


@pytest.mark.slow
@pytest.mark.parametrize("strategist", ["ppo", "meta_gradient"])
def test_a_policy_goes_on_where_that_of_the_run_before_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategist: str
) -> None:
    """Bit for bit, with its moments and the scale of rewards; also where the second run is killed and resumed."""
    begun: list[PolicyMemory] = []
    really = learning.Learner.conclude

    def concluded(self: learning.Learner, memory: Any, after: Any) -> Any:
        if memory.pending is None:  # the first event: nothing is learnt from yet
            begun.append(PolicyMemory(strategist, self.strategist.state_dict(), memory.scale))
        return really(self, memory, after)

    monkeypatch.setattr(learning.Learner, "conclude", concluded)
    first = grow(tmp_path / "first", arm(strategist=strategist))
    pool = FolderPool(first.pool)
    blobs: dict[str, Any] = {name: first.outcome.blobs[name] for name in ("edit_memory", "policy_memory")}
    left = PolicyMemory.loads(pool.get(blobs["policy_memory"]))
    assert (left.runs, left.scale.count) == (1, 2)
    assert "policy" not in first.facts
    one = arm(strategist=strategist, **blobs)
    for name in ("whole", "parts", "anew"):
        for digest in blobs.values():
            FolderPool(tmp_path / name).put_bytes(pool.get(digest))
    whole = grow(tmp_path / "whole", one)
    assert begun[1].dumps() == PolicyMemory(strategist, left.state, left.scale).dumps() != begun[0].dumps()
    assert whole.facts["policy"] == {"runs": 1, "rewards": 2, "anew": ""}
    last = PolicyMemory.loads(FolderPool(whole.pool).get(whole.outcome.blobs["policy_memory"]))
    assert (last.runs, last.scale.count) == (2, 4)
    assert last.scale.squares >= left.scale.squares
    assert grow(tmp_path / "parts", one, kills=(1, 6)).is_like(whole)
    other = merge(one.options, {"policy": {"memory": {"continues": False}}})
    anew = grow(tmp_path / "anew", one.model_copy(update={"options": other}))
    assert anew.facts["policy"] == {"runs": 0, "rewards": 0, "anew": "policy.memory.continues is false"}
    assert PolicyMemory.loads(FolderPool(anew.pool).get(anew.outcome.blobs["policy_memory"])).runs == 1


@pytest.mark.slow
def test_a_budget_in_flops_is_shared_out_as_one_in_steps(grown_zoo: Grown, tmp_path: Path) -> None:
    flops = grown_zoo.outcome.extra["training_flops"]
    changes = {"training": {"budget": {"steps": None, "flops": flops}}}
    whole = grow(tmp_path / "whole", arm(), changes)
    # No step begins that exceeds it; the last probe, which is three steps here, may.
    assert 0.8 * flops < whole.outcome.extra["training_flops"] <= flops + 3 * flops / 20
    # Newborns are warmed up over their share of the budget, and rewards wait for the horizon.
    shares, steps = ([one[what] for one in whole.facts["timeline"]] for what in ("share", "step"))
    assert shares == pytest.approx([0.2, 0.6], abs=0.15)
    assert 0 < steps[0] < steps[1] < whole.outcome.extra["steps"]
    assert grow(tmp_path / "parts", arm(), changes, kills=(5,)).is_like(whole)


# Settings


@NETWORKS
@pytest.mark.slow
def test_one_that_nobody_changes_trains_as_ever(network: NetworkSpec, tmp_path: Path) -> None:
    fixed = grow(
        tmp_path, arm(network, strategist="fixed", replay={"capacity": 0}), {"training": {"budget": {"steps": 10}}}
    )
    assert fixed.facts["edits"] == []
    assert [one["born"] for one in fixed.facts["timeline"]] == [[], []]
    assert fixed.facts["modules"] == begun_with(network)
    assert fixed.network.structure == network.structure


@pytest.mark.slow
def test_a_budget_in_seconds_and_a_cap_of_latency(tmp_path: Path) -> None:
    budget = {"training": {"budget": {"steps": 8, "seconds": 4.0}}}
    seconds = grow(tmp_path, arm(caps={"latency": 60.0}), budget)
    growth = seconds.facts
    assert [one["event"] for one in growth["timeline"]] == [one["number"] for one in growth["rewards"]] == [1, 2]
    assert seconds.network.live == tuple(growth["modules"])


@pytest.mark.slow
def test_a_full_model_replaces(tmp_path: Path) -> None:
    growth = grow(tmp_path, arm(h_model(), birth={"most": 4}, allow=["prune", "hybridise"])).facts
    (child,) = growth["timeline"][0]["born"]
    (gave,) = [edit["module"] for edit in growth["edits"] if f"gives its place to {child}" in edit["note"]]
    assert gave in growth["timeline"][0]["gone"]
    assert len(growth["modules"]) <= 4


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
def test_who_gave_its_place_in_a_full_zoo_is_not_pruned_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "create", lambda _, **given: Insistent(given["settings"], actions=given["actions"]))
    events = {"count": 1, "first": 0.4, "last": 0.4, "actions": 8}
    outcome = grow(tmp_path, arm(birth={"most": 4}, events=events))
    (event,) = outcome.facts["timeline"]
    assert len(event["gone"]) == len(set(event["gone"])) == 2
    assert len(event["born"]) == 1
    assert outcome.facts["modules"] == list(outcome.network.live)
    about = [one["action"]["modules"] for one in outcome.facts["edits"] if one["action"]["operation"] == "rewarm"]
    assert not {name for names in about for name in names} & set(event["gone"])


@pytest.mark.slow
def test_one_unused_module_goes_at_an_event_whether_it_is_pruned_or_gives_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "create", lambda _, **given: Insistent(given["settings"], actions=given["actions"]))
    events = {"count": 1, "first": 0.4, "last": 0.4, "actions": 8}
    everybody = {"rule": "unused", "usage": 1.0, "benefit": 100.0, "patience": 1}
    outcome = grow(tmp_path, arm(birth={"most": 4}, events=events, prune={**GROWTH["prune"], **everybody}))
    (event,) = outcome.facts["timeline"]
    assert len(event["gone"]) == len(event["born"]) == 1


@pytest.mark.slow
def test_what_growth_cost_is_told_and_what_was_left_out_for_it(grown_zoo: Grown, tmp_path: Path) -> None:
    poor, rich = grow(tmp_path, arm(events={"overhead": 0.01})).facts, grown_zoo.facts
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
    ("network", "options", "words"),
    [
        (zoo(), {"events": {"count": 20}}, "too few for 20 events"),
        (zoo(), {"caps": {"parameters": 100}}, "over the cap"),
        (zoo(), {"birth": {"most": 3}}, "begins with 4 modules"),
        (zoo(), {"events": {"first": 0.6}}, "come all at"),
        (zoo(), {"strategist": "nobody"}, "strategist"),
        (h_model(), {"caps": {"parameters": 100}}, "over the cap"),
        (h_model(), {"birth": {"most": 3}}, "begins with 4 modules"),
        (h_model(), {"birth": {"inheritance": "split"}}, "do not add up to one"),
        (h_model(), {"caps": {"latency": 1.0}}, "cap the flops"),
        (h_model(), {"allow": ["widen"]}, "modules of H-Models are not edited in place; leave widen out"),
        (h_model(window=1), {}, "with a window cannot grow"),
        (StackNetwork(structure=parameter_matched(h_model().structure)), {}, "grows H-Models and zoos"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(network: NetworkSpec, options: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_grow(settings({"training": {"budget": {"steps": 20}}}), arm(network, **options))
