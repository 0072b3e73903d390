"""A fresh module takes the place of another at once: who is there then, with what, and how it is repeated and told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.errors import DataError, UsageError
from evodevo.growth.diagrams.edit_glyphs import LETTERS, words_of
from evodevo.growth.edit_spec import Action, Edit
from evodevo.growth.edits import Editor, repeat, replay_log
from evodevo.growth.fitness import FitnessHistory, ModuleHistory
from evodevo.growth.growable import TaskSizes
from evodevo.growth.legality import EventState, rule
from evodevo.growth.procedures.settings import check_zoo
from evodevo.growth.report.data import modules_after
from evodevo.growth.report.text import edit_words
from evodevo.growth.resources import Resources
from evodevo.growth.spec import REPLACE, GrowthSettings
from evodevo.growth.strategists.base import create
from evodevo.growth.strategists.edit_memory import kinds_of
from evodevo.growth.strategists.state import Legal
from evodevo.growth.zoo.bank import ModuleBank
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.growth.zoo.growing import GrowingZoo
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.build import build_module
from evodevo.module_zoo.modules.zoo import PAPER
from evodevo.randomness import generator
from evodevo.settings import validate
from evodevo.storage.blobs import MemoryPool
from evodevo.testing.networks import CLASS, small_batch
from evodevo.testing.strategists import some_zoo
from fixtures.small_zoo import INPUTS, lively, small_zoo

torch.set_num_threads(1)
BATCH = small_batch(INPUTS, count=8)
ACTION = Action(operation=REPLACE, modules=("mlp-1",), archetype="lstm")


def zoo_of() -> ModuleZoo:
    zoo = lively(small_zoo(), 0.2, seed=1)
    zoo.statistics.observe(zoo.live, torch.linspace(0.1, 0.4, len(zoo.live)))
    return zoo


def editor_of(zoo: ModuleZoo, **settings: Any) -> Editor:
    def leave(name: str) -> str:
        raise AssertionError("nobody is taught: somebody has its place")

    growing, options = GrowingZoo(zoo, GrowableZoo), GrowthSettings(**settings)
    return Editor(growing, options, 3, MemoryPool(), lambda *_: None, leave, ModuleBank(10))


def replaced(editor: Editor, action: Action = ACTION, order: int = 0) -> tuple[Edit, ...]:
    return editor.apply(action, event=2, order=order, fitness={})


@torch.no_grad()
def answer(zoo: ModuleZoo) -> Tensor:
    return torch.cat(list(zoo(BATCH).values()), 1)


def test_one_leaves_and_another_family_has_its_statistics_and_no_warm_up() -> None:
    zoo = zoo_of()
    old = {name: zoo.pool.parts[name].state_dict() for name in zoo.live}
    contribution = zoo.statistics.contribution(["mlp-1"])
    before, others = answer(zoo), [name for name in zoo.live if name != "mlp-1"]
    editor = editor_of(zoo)
    newborn, leaver = replaced(editor)
    assert newborn.module is not None
    assert list(zoo.live) == [*others, newborn.module]
    assert newborn.after is not None
    assert newborn.after.archetype == "lstm"
    assert (newborn.born, newborn.warms, leaver.born) == (True, False, False)
    assert (newborn.order, leaver.order, leaver.module) == (0, 1, "mlp-1")
    assert not zoo.births
    assert not zoo.twins
    assert not zoo.newborn_rates, "nothing warms up"
    assert torch.isfinite(contribution).all()
    assert torch.equal(zoo.statistics.contribution([newborn.module]), contribution)
    assert zoo.structure.modules[-1].parents == (), "it comes from nobody"
    fresh = build_module(newborn.after, newborn.seed).state_dict()
    assert all(torch.equal(zoo.pool.parts[newborn.module].state_dict()[name], one) for name, one in fresh.items())
    for name in others:
        assert all(torch.equal(value, old[name][key]) for key, value in zoo.pool.parts[name].state_dict().items())
    assert float((answer(zoo) - before).abs().max()) > 1e-3, "the network answers otherwise, as the page says"
    (kept,) = editor.bank.entries
    assert kept.name == "mlp-1"
    assert all(torch.equal(kept.state[name], one) for name, one in old["mlp-1"].items())


def test_the_only_module_can_be_replaced() -> None:
    zoo = zoo_of()
    for name in zoo.live[1:]:
        zoo.remove(name)
    (only,) = zoo.live
    newborn, _ = replaced(editor_of(zoo), ACTION.model_copy(update={"modules": (only,)}))
    assert zoo.live == (newborn.module,)
    assert torch.isfinite(answer(zoo)).all()


def test_a_cap_refuses_it_and_all_stays() -> None:
    zoo = zoo_of()
    before, editor = answer(zoo), editor_of(zoo)
    editor.refuses = lambda child, gone: f"{child.archetype} is dear, instead of {gone}"
    (edit,) = replaced(editor)
    assert edit.module is None
    assert edit.note == "refused: lstm is dear, instead of mlp-1"
    assert edit_words(edit) == "replace mlp-1 lstm: refused: lstm is dear, instead of mlp-1"
    assert torch.equal(answer(zoo), before)
    assert not editor.bank.entries


def test_the_log_replays_and_repeats_it_bit_for_bit_or_says_what_is_wrong() -> None:
    zoo, start = zoo_of(), zoo_of().structure.modules
    editor = editor_of(zoo)
    edits = [Edit.model_validate_json(edit.model_dump_json()) for edit in replaced(editor)]
    replayed = replay_log(start, edits, editor.blobs.get, editor.settings.birth)
    assert replayed.modules == zoo.structure.modules == modules_after(start, edits)
    (newborn,) = replayed.newborns
    first = zoo.pool.parts[newborn].state_dict()
    assert all(torch.equal(first[name], value) for name, value in replayed.newborns[newborn].items())
    other = zoo_of()
    repeat(other, edits)
    assert other.structure == zoo.structure
    assert other.births == zoo.births == {}
    other.load_state_dict(zoo.state_dict())
    assert torch.equal(answer(other), answer(zoo))
    for wrong in ([edits[0], edits[0]], [edits[1], edits[1]], [edits[0].model_copy(update={"after": None})]):
        with pytest.raises(DataError):
            replay_log(start, wrong, editor.blobs.get, editor.settings.birth)


def test_it_is_told_and_drawn() -> None:
    newborn, leaver = replaced(editor_of(zoo_of()))
    assert edit_words(newborn) == f"{newborn.module} put in the place of mlp-1"
    assert edit_words(leaver) == f"mlp-1 pruned: gives its place to {newborn.module}"
    assert words_of(REPLACE) == "put in the place of another"
    assert LETTERS[REPLACE] == "R"


# Rules

STRUCTURE = GrowableZoo.of(zoo_of().structure)
IDS = tuple(module.id for module in STRUCTURE.modules)
FAMILIES = {module.id: module.genotype.archetype for module in STRUCTURE.modules}
TASK = TaskSizes(INPUTS, (CLASS,), batch=8)
HISTORY = FitnessHistory(modules={one: ModuleHistory(events=2, fitness=0.1, impact=0.01) for one in IDS})
SITUATION = EventState(STRUCTURE, TASK, HISTORY, spared=dict.fromkeys(IDS, "it is needed"))


def ruled(situation: EventState = SITUATION, **changes: Any) -> Legal:
    return rule(situation, validate(GrowthSettings, {"allow": [REPLACE], **changes}, what="growth")).legal


def test_every_module_gives_place_to_each_other_family_if_the_settings_say_so() -> None:
    assert rule(SITUATION, GrowthSettings()).legal.replace == ()
    legal = ruled()
    assert set(legal.replace) == {(name, family) for name in IDS for family in PAPER if family != FAMILIES[name]}
    assert legal.operations == ("noop", REPLACE)
    assert len(legal.targets(REPLACE)) == len(legal.replace)
    full = ruled(birth={"most": len(IDS)}, prune={"least": len(IDS)})
    assert full.replace == legal.replace, "it takes no room"
    assert ruled(replace(SITUATION, warming=(IDS[0],))).replace == ()
    late = ruled(replace(SITUATION, left=0.01))
    assert late.replace == ()
    assert "1.0% of the budget is left" in late.reasons[REPLACE]


def test_a_cap_forbids_a_larger_family() -> None:
    now = Resources.of(STRUCTURE, TASK).parameters
    legal = ruled(caps={"parameters": now})
    assert 0 < len(legal.replace) < len(ruled().replace)
    for name, family in set(ruled().replace) - set(legal.replace):
        assert "parameters" in legal.reasons[f"{REPLACE}:{name},{family}"]


def test_an_event_has_births_or_one_replacement() -> None:
    legal = rule(SITUATION, GrowthSettings(allow=("spawn", "prune", "rewarm", REPLACE))).legal
    one = legal.targets(REPLACE)[0]
    after = legal.after(one)
    assert not after.targets(REPLACE)
    assert not after.targets("spawn")
    assert one.modules[0] not in (*after.prune, *after.rewarm)
    assert not legal.after(legal.targets("spawn")[0]).targets(REPLACE)


def test_policies_and_the_memory_know_it() -> None:
    state = some_zoo()
    legal = Legal(replace=(("m0", "lstm"), ("m1", "mlp")))
    for name in ("ppo", "random"):
        actions = [create(name).propose(state, legal, generator(seed)) for seed in range(20)]
        assert any(done and done[0].operation == REPLACE for done in actions)
    family = state.modules[0].archetype
    assert kinds_of(legal.targets(REPLACE)[0], state) == (REPLACE, f"{REPLACE}:{family}+lstm")


def test_what_cannot_be_replaced_is_refused_before_anything_is_trained() -> None:
    class Elsewhere(GrowableZoo):
        in_place = False
        plural = "others"

    with pytest.raises(UsageError, match="others are not replaced at once; leave replace out of allow"):
        check_zoo(Elsewhere.of(STRUCTURE.zoo), GrowthSettings(allow=(REPLACE,)))
