"""Edits around the modules: no answer changes, new parameters learn, and all is repeated, refused, told and resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.trials import Trial
from evodevo.growth.around.after import surrounded
from evodevo.growth.around.base import AROUND, AroundEdit
from evodevo.growth.around.spec import AroundSettings
from evodevo.growth.diagrams.edit_glyphs import words_of
from evodevo.growth.edit_spec import NETWORK, Action, Edit
from evodevo.growth.edits import Editor, repeat, replay_log
from evodevo.growth.fitness import FitnessHistory, ModuleHistory
from evodevo.growth.growable import TaskSizes
from evodevo.growth.legality import EventState, rule
from evodevo.growth.log import read_log
from evodevo.growth.procedures.settings import check_zoo
from evodevo.growth.report.data import modules_after
from evodevo.growth.report.text import done_words, edit_words
from evodevo.growth.resources import Resources
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.base import create
from evodevo.growth.strategists.gains.features import added_flops, edit_features
from evodevo.growth.strategists.heuristic import rule as heuristic
from evodevo.growth.strategists.spec import HeuristicSettings
from evodevo.growth.strategists.state import Legal
from evodevo.growth.zoo.bank import ModuleBank
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.growth.zoo.growing import GrowingZoo
from evodevo.module_zoo.cost import zoo_cost
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.networks.saved import load_network
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.randomness import generator
from evodevo.search.problem import Outcome
from evodevo.settings import merge, validate
from evodevo.storage.blobs import FolderPool, MemoryPool
from evodevo.testing.networks import CLASS, small_batch
from evodevo.testing.small_networks import problem
from evodevo.testing.strategists import some_zoo
from fixtures.small_zoo import INPUTS, lively, small_zoo

torch.set_num_threads(1)
BATCH = small_batch(INPUTS, count=8)
OPERATIONS = ("map_positions", "add_readout")
SETTINGS = AroundSettings(hidden=12)


def editor_of(zoo: ModuleZoo, **settings: Any) -> Editor:
    options = validate(GrowthSettings, merge({"around": {"hidden": 12}}, settings), what="growth")
    return Editor(GrowingZoo(zoo, GrowableZoo), options, 3, MemoryPool(), lambda *_: None, lambda _: "", ModuleBank(10))


def edited(editor: Editor, operation: str, order: int = 0) -> Edit:
    (edit,) = editor.apply(Action(operation=operation), event=2, order=order, fitness={})
    return edit


@torch.no_grad()
def answer(zoo: ModuleZoo) -> Tensor:
    return torch.cat(list(zoo.eval()(BATCH).values()), 1)


@pytest.mark.parametrize("numbers", [torch.float32, torch.float64])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_answer_changes_and_what_is_new_learns(operation: str, numbers: torch.dtype) -> None:
    zoo = lively(small_zoo(), 0.2).to(numbers)
    before, names, drawn = answer(zoo), dict(zoo.named_parameters()), torch.get_rng_state()
    edit = edited(editor_of(zoo), operation)
    assert torch.equal(torch.get_rng_state(), drawn), "all is drawn from the seed of the edit"
    assert (edit.module, edit.around, edit.born, edit.warms, edit.enlarged) == (NETWORK, SETTINGS, False, False, False)
    assert torch.allclose(answer(zoo), before, rtol=0, atol=1e-6 if numbers == torch.float32 else 1e-14)
    new = {name: one for name, one in zoo.named_parameters() if name not in names}
    assert new
    assert all(one.dtype == numbers for one in new.values())
    assert all(zoo.get_parameter(name) is one for name, one in names.items()), "the others are the same objects"
    optimiser = torch.optim.SGD(zoo.parameters(), 0.5)
    first = {name: one.detach().clone() for name, one in new.items()}
    for _ in range(2):  # the second map of a readout is 0 at first, so that the first one has no gradient yet
        zoo.train().loss(BATCH).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert all(float((one.detach() - first[name]).abs().max()) > 0 for name, one in new.items())


@pytest.mark.parametrize("operation", OPERATIONS)
def test_it_is_the_zoo_that_is_built_so_and_costs_as_much(operation: str) -> None:
    zoo = lively(small_zoo(), 0.2)
    edited(editor_of(zoo), operation)
    built = small_zoo(**({"pool": "positions"} if operation == "map_positions" else {"readout": 12}))
    assert zoo.structure == built.structure
    built.load_state_dict(zoo.state_dict())
    assert torch.equal(answer(built), answer(zoo))
    cost = zoo_cost(zoo.structure, inputs=INPUTS, outputs=(CLASS,))
    assert cost.parameters + cost.embedding_parameters == sum(one.numel() for one in zoo.parameters())


def test_the_log_repeats_it_and_a_second_one_is_refused() -> None:
    zoo = lively(small_zoo(), 0.2)
    start, editor = zoo.structure, editor_of(zoo)
    edits = [edited(editor, operation, order) for order, operation in enumerate(OPERATIONS)]
    edits = [Edit.model_validate_json(edit.model_dump_json()) for edit in edits]
    other = small_zoo()
    torch.manual_seed(99)
    repeat(GrowingZoo(other, GrowableZoo), edits)
    assert other.structure == zoo.structure == surrounded(GrowableZoo.of(start), edits).structure
    fresh = {name: one for name, one in other.state_dict().items() if name.startswith("readout.up")}
    assert fresh
    assert all(torch.equal(one, zoo.state_dict()[name]) for name, one in fresh.items()), "drawn from the edit's seed"
    replayed = replay_log(start.modules, edits, editor.blobs.get, editor.settings.birth)
    assert replayed.modules == start.modules == modules_after(start.modules, edits)
    before = answer(zoo)
    for order, (operation, words) in enumerate(zip(OPERATIONS, ("pooled by positions", "12 units"), strict=True), 2):
        again = edited(editor, operation, order)
        assert again.module is None
        assert words in again.note
        assert edit_words(again) == f"{operation}: {again.note}"
    assert torch.equal(answer(zoo), before)
    for edit in edits:
        assert edit_words(edit).startswith(f"network {done_words(edit.action.operation)}: ")
        assert words_of(edit.action.operation) == f"network {done_words(edit.action.operation)}"


# Rules

STRUCTURE = GrowableZoo.of(small_zoo().structure)
IDS = tuple(module.id for module in STRUCTURE.modules)
TASK = TaskSizes(INPUTS, (CLASS,), batch=8)
HISTORY = FitnessHistory(modules={one: ModuleHistory(events=2, fitness=0.1, impact=0.01) for one in IDS})
SITUATION = EventState(STRUCTURE, TASK, HISTORY, spared=dict.fromkeys(IDS, "it is needed"))


def ruled(situation: EventState = SITUATION, **changes: Any) -> Legal:
    return rule(situation, validate(GrowthSettings, {"allow": list(OPERATIONS), **changes}, what="growth")).legal


def test_it_is_open_where_the_settings_name_it_and_closed_where_it_cannot_be() -> None:
    assert rule(SITUATION, GrowthSettings()).legal.around == ()
    legal = ruled()
    assert legal.around == OPERATIONS
    assert legal.operations == ("noop", *OPERATIONS)
    assert legal.after(Action(operation="map_positions")).around == ("add_readout",)
    late = ruled(replace(SITUATION, left=0.01))
    assert late.around == ()
    assert "1.0% of the budget is left" in late.reasons["add_readout"]
    mapped = GrowableZoo.of(STRUCTURE.zoo.model_copy(update={"pool": "attention", "readout": 4}))
    there = ruled(replace(SITUATION, structure=mapped))
    assert there.around == ()
    assert "pooled by attention" in there.reasons["map_positions"]
    assert "4 units" in there.reasons["add_readout"]
    unknown = ruled(replace(SITUATION, task=TaskSizes((), (CLASS,), batch=8)))
    assert unknown.around == ("add_readout",)
    assert "is not known" in unknown.reasons["map_positions"]


def test_a_cap_closes_the_dearer_one() -> None:
    after = GrowableZoo.of(STRUCTURE.zoo.model_copy(update={"readout": 12}))
    cap = Resources.of(after, TASK).parameters
    legal = ruled(caps={"parameters": cap}, around={"hidden": 12})
    assert legal.around == ("add_readout",)
    assert "over the cap of parameters" in legal.reasons["map_positions"]
    assert ruled(caps={"parameters": cap - 1}, around={"hidden": 12}).around == ()


def test_what_forks_refused_comes_later_and_then_never() -> None:
    assert ruled(replace(SITUATION, refused={"map_positions": 1})).around == ("add_readout", "map_positions")
    closed = ruled(replace(SITUATION, refused={"map_positions": 2}))
    assert closed.around == ("add_readout",)
    assert closed.reasons["map_positions"] == "forks have refused it 2 times"


def test_strategists_and_the_model_of_gains_know_it() -> None:
    state, legal = some_zoo(), ruled()
    assert heuristic(state, legal, HeuristicSettings()) == Action(operation="map_positions")
    for name in ("ppo", "random", "thompson"):
        actions = [create(name).propose(state, legal, generator(seed)) for seed in range(20)]
        assert any(done and done[0].operation in OPERATIONS for done in actions), name
    action = Action(operation="add_readout")
    assert added_flops(state, action) == 0.0
    assert edit_features(state, action).any()
    assert Legal.model_validate_json(legal.model_dump_json()) == legal
    assert "around" not in Legal().model_dump(mode="json"), "stored events keep their keys"


def test_other_kinds_of_networks_refuse_it_before_anything_is_trained() -> None:
    class Elsewhere(GrowableZoo):
        in_place = False
        plural = "others"

    with pytest.raises(UsageError, match="others are not edited around their modules; leave map_positions, add"):
        check_zoo(Elsewhere.of(STRUCTURE.zoo), GrowthSettings(allow=OPERATIONS))


def test_a_row_of_a_package_is_as_good_as_ours() -> None:
    class Dropping(AroundEdit):
        name, done, letter = "drop", "given a dropout of its own", "X"
        applied: ClassVar[list[int]] = []

        def changed(self, structure: Any, settings: AroundSettings) -> Any:
            return structure.model_copy(update={"dropout": 0.5})

        def apply(self, network: Any, settings: AroundSettings, seed: int) -> None:
            self.applied.append(seed)
            network.structure = self.changed(network.structure, settings)

    AROUND.add("drop", Dropping)
    try:
        zoo = small_zoo()
        edit = edited(editor_of(zoo, allow=["drop"]), "drop")
        assert zoo.structure.dropout == 0.5
        assert Dropping.applied == [edit.seed]
        assert edit_words(edit).startswith("network given a dropout of its own")
        assert ruled(allow=["drop"]).around == ("drop",)
    finally:
        del AROUND._rows["drop"]
    with pytest.raises(UsageError, match="there is no operation 'drop'"):
        ruled(allow=["drop"])


# Whole runs

ZOO = ZooStructure(
    width=16,
    modules=start_zoo(16)[:2],
    extractor=ExtractorStructure(blocks=0),
    router=ZooRouterStructure(heads=2),
)
GROWTH: dict[str, Any] = {
    "strategist": "heuristic",
    "allow": list(OPERATIONS),
    "around": {"hidden": 8},
    "events": {"count": 2, "first": 0.2, "last": 0.4, "actions": 1, "overhead": 10.0},
    "fitness": {"samples": 12},
    "replay": {"capacity": 24, "steps": 2},
}
FORKED = {"forks": {"share": 0.6, "samples": 12, "least": 2, "orders": 1, "paired": True, "average": 0.5}}
FLOPS = 1e8


def grown(pool: Path | None = None, *, resume: str | None = None, report: Any = None, **more: Any) -> Outcome:
    one = Trial(
        name="grown",
        role="zoo",
        network=ModuleZooNetwork(structure=ZOO),
        learning_rate=1e-2,
        procedure="grow",
        options=merge(GROWTH, more),
    )
    made = problem({"training": {"budget": {"steps": None, "flops": FLOPS}, "checkpoint_every": 3}}, pool, arms=(one,))
    outcome = made.read(evaluate_network(made.payload(one, 5, resume), report or (lambda message: None)))
    assert outcome.reason is None, outcome.detail
    return outcome


def timeless(outcome: Outcome) -> dict[str, Any]:
    return merge(outcome.extra["growth"], {"overhead": {"seconds": 0, "seconds_share": 0}})


@pytest.mark.slow
def test_a_run_carries_them_out_keeps_the_network_and_resumes(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    outcome = grown(tmp_path / "whole", report=told.append)
    edits = [validate(Edit, edit, what="an edit") for edit in outcome.extra["growth"]["edits"]]
    assert [edit.action.operation for edit in edits] == list(OPERATIONS)
    assert all(edit.surrounds for edit in edits)
    network, *_ = load_network(FolderPool(tmp_path / "whole"), outcome.blobs["weights"])
    assert isinstance(network, ModuleZoo)
    assert (network.structure.pool, network.structure.readout) == ("positions", 8)
    moved = network.pool.maps
    assert moved is not None
    assert float((moved - torch.eye(16)).detach().abs().max()) > 0, "it was trained on"
    log = read_log(FolderPool(tmp_path / "whole").get(outcome.blobs["edits"]), what="a log")
    assert [edit.around for edit in log.edits] == [AroundSettings(hidden=8)] * 2
    checkpoints = [message for message in told if message.get("checkpoint")]
    for number, message in enumerate(checkpoints[:: max(1, len(checkpoints) // 4)]):
        own = FolderPool(tmp_path / str(number))
        for digest in (message["checkpoint"], *message["blobs"]):
            own.put_bytes(FolderPool(tmp_path / "whole").get(digest))
        resumed = grown(tmp_path / str(number), resume=message["checkpoint"])
        assert timeless(resumed) == timeless(outcome)
        assert resumed.blobs["weights"] == outcome.blobs["weights"]


def test_a_fork_keeps_what_pays_and_counts_what_it_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    network_of = GrowingZoo.edit_around

    def harming(zoo: GrowingZoo, operation: str, settings: AroundSettings, seed: int) -> None:
        network_of(zoo, operation, settings, seed)
        if operation == "map_positions":
            with torch.no_grad():
                for name, parameter in zoo.network.heads.named_parameters():  # type: ignore[union-attr]
                    if name.endswith("bias"):
                        parameter[0] += 20

    monkeypatch.setattr(GrowingZoo, "edit_around", harming)
    facts = grown(**FORKED, around={"tries": 1}, events={"count": 3})
    growth = facts.extra["growth"]
    tried = growth["forks"]["tried"]
    assert [fork["edits"] for fork in tried if fork["spent"]][:2] == [["map_positions"], ["add_readout"]]
    assert not tried[0]["kept"]
    assert len(tried[0]["pairs"]) == 2
    refused = validate(Edit, growth["edits"][0], what="an edit")
    assert (refused.module, refused.around) == (None, None)
    wanted = [edit["action"]["operation"] for edit in growth["edits"]]
    assert wanted.count("map_positions") == 1, "one try"
