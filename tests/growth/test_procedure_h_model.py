"""The procedure grow on an H-Model: the same options, facts, log and promises as on a zoo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.trials import Trial
from evodevo.growth import driver
from evodevo.growth.edit_spec import Edit
from evodevo.growth.edits import replay_log
from evodevo.growth.h_model.growable import GrowableHModel
from evodevo.growth.h_model.growing import GrowingHModel
from evodevo.growth.procedure_settings import check_grow
from evodevo.growth.spec import BirthSettings, Operation
from evodevo.growth.strategists.base import Strategist, create
from evodevo.growth.strategists.state import Legal, State
from evodevo.growth.strategists.transition import Decision
from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.opponents import parameter_matched
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.networks.saved import load_network
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.search.problem import Outcome
from evodevo.settings import merge, validate
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
PLACED: tuple[tuple[Operation, ...], ...] = (("hybridise", "prune"), ("grow", "spawn", "rewarm"))


class Scripted(Strategist):
    """Has a hybrid born and prunes a layer at the first event; the second one begins with a child or a spawn."""

    name = "scripted"

    def _choose(self, state: State, legal: Legal, rng: Any) -> Decision:
        for operation in PLACED[0] if state.progress < 0.4 else PLACED[1]:
            targets = legal.targets(operation)
            if targets:
                return Decision(legal=legal, action=targets[int(rng.integers(len(targets)))])
        return Decision(legal=legal, action=legal.targets("noop")[0])


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """``heuristic`` is scripted here: of its own accord it waits for more events than a short run has."""

    def create_scripted(name: str, **given: Any) -> Strategist:
        if name != "heuristic":
            return create(name, **given)
        return Scripted(given["settings"], actions=given["actions"], seed=given["seed"])

    monkeypatch.setattr(driver, "create", create_scripted)


def structure(**more: Any) -> HModelStructure:
    modules = tuple(GenotypeLayer(module=one) for one in start_zoo(16)[:3])
    values = {"width": 16, "iterations": 2, "input_blocks": 0, "output_blocks": 0, "hidden": modules, **more}
    return HModelStructure(**{**values, "hidden": (TransformerLayer(heads=2), *values["hidden"])})


def arm(given: HModelStructure | None = None, **changes: Any) -> Trial:
    return Trial(
        name="H-Model",
        network=HModelNetwork(structure=given or structure()),
        learning_rate=1e-2,
        procedure="grow",
        options=merge(GROWTH, changes),
    )


def evaluate(given: NetworkProblem, one: Trial, *, resume: str | None = None, report: Any = None) -> Outcome:
    outcome = given.read(evaluate_network(given.payload(one, 5, resume), report or (lambda message: None)))
    assert outcome.reason is None, outcome.detail
    return outcome


def model_of(pool: Path, outcome: Outcome) -> HModel:
    network, _ = load_network(FolderPool(pool), outcome.blobs["weights"])
    assert isinstance(network, HModel)
    return network


def bits(network: HModel) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in network.state_dict().items()}


def log(pool: Path, outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FolderPool(pool).get(outcome.blobs["edits"]))
    return found


def test_it_grows_and_its_log_rebuilds_newborns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began: dict[str, dict[str, bytes]] = {}
    really = GrowingHModel.insert

    def listening(self: GrowingHModel, module: ZooModule, **given: Any) -> None:
        really(self, module, **given)
        began[module.id] = {name: one.numpy().tobytes() for name, one in self.weights(module.id).items()}

    monkeypatch.setattr(GrowingHModel, "insert", listening)
    whole = evaluate(problem({"training": TRAINING}, tmp_path), arm())
    growth, told = whole.extra["growth"], log(tmp_path, whole)
    edits = [validate(Edit, one, what="an edit") for one in told["edits"]]
    assert {"hybridise", "prune"} <= {one.action.operation for one in edits}
    assert len(began) == 2
    assert growth["start"][0]["id"] == "transformer-0"
    assert len(growth["timeline"]) == len(growth["rewards"]) == 2
    assert growth["overhead"]["flops_share"] > 0
    blobs = {role.removeprefix("parents/"): own for role, own in whole.blobs.items() if role.startswith("parents/")}
    replayed = replay_log(
        [validate(ZooModule, one, what="a module") for one in told["start"]],
        edits,
        lambda digest: FolderPool(tmp_path).get(blobs[digest]),
        validate(BirthSettings, told["birth"], what="births"),
    )
    grown = model_of(tmp_path, whole)
    assert [one.id for one in replayed.modules] == growth["modules"]
    assert [one.genotype for one in replayed.modules] == [
        one.genotype for one in GrowableHModel.of(grown.structure).modules
    ]
    assert began == {
        one: {name: tensor.numpy().tobytes() for name, tensor in weights.items()}
        for one, weights in replayed.newborns.items()
    }


@pytest.mark.slow
def test_a_growing_h_model_survives_being_killed_anywhere(tmp_path: Path) -> None:
    given = problem({"training": TRAINING, "select": {"metric": "loss"}}, tmp_path)
    one = arm(strategist="heuristic")
    found: list[dict[str, Any]] = []
    whole = evaluate(given, one, report=lambda message: found.append(message) if "checkpoint" in message else None)
    for message in found[1::3]:
        resumed = evaluate(given, one, resume=message["checkpoint"])
        assert log(tmp_path, resumed) == log(tmp_path, whole)
        assert bits(model_of(tmp_path, resumed)) == bits(model_of(tmp_path, whole))
        theirs, ours = (dict(run.extra["growth"]) for run in (resumed, whole))
        for facts in (theirs, ours):
            facts["overhead"] = {name: value for name, value in facts["overhead"].items() if "seconds" not in name}
        assert theirs == ours


@pytest.mark.slow
def test_edits_leave_the_moments_of_all_others_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, list[torch.Tensor]]] = []
    really = optimizers.load_state

    def owned(model: HModel, state: Any) -> dict[str, list[torch.Tensor]]:
        """Id of a layer -> its moments, in the order of its parameters."""
        ids = [one.id for one in GrowableHModel.of(model.structure).modules]
        return {
            name: [
                state[f"core.layers.{place}.{own}"]["exp_avg"].clone()
                for own, _ in model.core.layers[place].named_parameters()
                if f"core.layers.{place}.{own}" in state
            ]
            for place, name in enumerate(ids)
        }

    ended: list[dict[str, list[torch.Tensor]]] = []
    saving = optimizers.state_by_name

    def saved(model: Any, optimizer: Any) -> Any:
        state = saving(model, optimizer)
        if isinstance(model, HModel):
            ended.append(owned(model, state))
        return state

    def loaded(model: Any, optimizer: Any, state: Any, **more: Any) -> None:
        really(model, optimizer, state, **more)
        if isinstance(model, HModel):
            now = saving(model, optimizer)
            before, after = ended[-1], owned(model, now)
            for name in before.keys() & after.keys():
                assert len(before[name]) == len(after[name])
                assert all(map(torch.equal, before[name], after[name])), name
            seen.append(after)
            new = after.keys() - before.keys()
            assert all(not after[name] for name in new)

    monkeypatch.setattr(optimizers, "state_by_name", saved)
    monkeypatch.setattr(optimizers, "load_state", loaded)
    growth = evaluate(problem({"training": TRAINING}, tmp_path), arm()).extra["growth"]
    ids = {name for one in seen for name in one}
    assert {one for event in growth["timeline"] for one in event["born"]} <= ids
    assert any(event["gone"] for event in growth["timeline"])


@pytest.mark.slow
def test_one_that_nobody_changes_trains_as_ever(tmp_path: Path) -> None:
    given = problem({"training": TRAINING}, tmp_path)
    fixed = evaluate(given, arm(strategist="fixed", events={"count": 0}, replay={"capacity": 0}))
    assert fixed.extra["growth"]["edits"] == []
    assert fixed.extra["growth"]["modules"] == ["transformer-0", *(one.id for one in start_zoo(16)[:3])]
    assert model_of(tmp_path, fixed).structure == structure()


@pytest.mark.slow
def test_a_full_model_replaces(tmp_path: Path) -> None:
    one = arm(birth={"most": 4}, allow=["prune", "hybridise"])
    outcome = evaluate(problem({"training": TRAINING}, tmp_path), one)
    growth = outcome.extra["growth"]
    (child,) = growth["timeline"][0]["born"]
    gave = [edit["module"] for edit in growth["edits"] if f"gives its place to {child}" in edit["note"]]
    assert len(gave) == 1
    assert gave[0] in growth["timeline"][0]["gone"]
    assert len(growth["modules"]) <= 4


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        (structure(), {"caps": {"parameters": 100}}, "over the cap"),
        (structure(), {"birth": {"most": 3}}, "begins with 4 modules"),
        (structure(), {"birth": {"inheritance": "split"}}, "do not add up to one"),
        (structure(), {"caps": {"latency": 1.0}}, "cap the flops"),
        (structure(window=1), {}, "with a window cannot grow"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(given: HModelStructure, options: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_grow(settings({"training": {"budget": {"steps": 20}}}), arm(given, **options))


def test_other_networks_do_not_grow() -> None:
    one = arm().model_copy(update={"network": StackNetwork(structure=parameter_matched(structure()))})
    with pytest.raises(UsageError, match="grows H-Models and zoos"):
        check_grow(settings({"training": {"budget": {"steps": 20}}}), one)
