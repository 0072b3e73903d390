"""Actions become edits: births that nobody hears, twins that share, a log that fits to its blobs or is refused."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from evodevo import canonical
from evodevo.errors import DataError
from evodevo.growth.edit_spec import Action, Edit
from evodevo.growth.edits import Editor, repeat, replay_log
from evodevo.growth.log import FORMAT, Log, read_log, write_log
from evodevo.growth.spec import BirthSettings, GrowthSettings
from evodevo.growth.zoo.bank import ModuleBank
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.growth.zoo.growing import GrowingZoo
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.zoo import archetype, start_zoo, with_lineage
from evodevo.module_zoo.spec import Gate
from evodevo.storage.blobs import MemoryPool
from evodevo.testing.networks import small_batch
from fixtures.small_zoo import INPUTS, WIDTH, lively, small_zoo

torch.set_num_threads(1)
BATCH = small_batch(INPUTS, count=8)
INHERITANCES = ("function_preserving", "split", "soft", "copy_noise")
ACTIONS = (
    Action(operation="grow", modules=("mlp-1",), scale=2.0),
    Action(operation="grow", modules=("transformer-1",), scale=2.0),
    Action(operation="spawn", archetype="lstm"),
    Action(operation="hybridise", modules=("mlp-1", "transformer-1")),
    Action(operation="hybridise", modules=("resnet1d-1", "mlp-1")),
)


def zoo_of(**router: Any) -> ModuleZoo:
    return lively(small_zoo(router=router), 0.2, seed=1)


def editor_of(zoo: ModuleZoo, *, seed: int = 3, bank: ModuleBank | None = None, **birth: Any) -> Editor:
    settings = GrowthSettings(birth=BirthSettings(**birth))
    return Editor(
        GrowingZoo(zoo, GrowableZoo),
        settings,
        seed,
        MemoryPool(),
        lambda *_: None,
        lambda _: "",
        bank or ModuleBank(10),
    )


def apply(editor: Editor, action: Action, *, event: int = 1, order: int = 0, **given: Any) -> tuple[Edit, ...]:
    fitness = {one: -float(place) for place, one in enumerate(editor.zoo.live)}
    return editor.apply(action, event=event, order=order, fitness=fitness, **given)


@torch.no_grad()
def answer(zoo: ModuleZoo) -> Tensor:
    return torch.cat(list(zoo(BATCH).values()), 1)


@pytest.mark.parametrize(
    ("action", "inheritance"),
    [
        *((ACTIONS[0], how) for how in INHERITANCES),
        *((ACTIONS[1], how) for how in ("function_preserving", "split")),
        (ACTIONS[2], "function_preserving"),
        (ACTIONS[3], "function_preserving"),
        *((ACTIONS[4], how) for how in ("split", "soft", "copy_noise")),
    ],
    ids=lambda one: one if isinstance(one, str) else f"{one.operation}-{'+'.join(one.modules)}",
)
def test_a_birth_changes_no_answer(action: Action, inheritance: str) -> None:
    """Birth is a no-op, through the editor: whatever a mutation does to a child, ``split`` included."""
    for seed in range(2):
        zoo = zoo_of()
        before = answer(zoo)
        (edit,) = apply(editor_of(zoo, seed=seed, inheritance=inheritance), action)
        assert edit.module is not None
        assert zoo.births == {edit.module: 0.0}
        torch.testing.assert_close(answer(zoo), before, rtol=0, atol=1e-5)
        assert edit.twin == (zoo.twins == {edit.module: "mlp-1"}) or action.modules != ("mlp-1",)
        zoo.births[edit.module] = 0.5
        assert float((answer(zoo) - before).abs().max()) > 1e-6


SYNERGIES = itertools.cycle(["similar", "complement", "off"])


@pytest.mark.parametrize(("gate", "synergy"), [(gate, next(SYNERGIES)) for gate in get_args(Gate)])
def test_a_twin_is_no_event_for_any_gate(gate: str, synergy: str) -> None:
    """At 0 mutation the child is a copy, which takes half of its parent's weight."""
    zoo = zoo_of(gate=gate, synergy=synergy)
    before = answer(zoo)
    (edit,) = apply(editor_of(zoo, inheritance="split", mutation=0.0), Action(operation="grow", modules=("mlp-1",)))
    if not edit.twin:
        pytest.skip("a step of a whole number made it another")
    torch.testing.assert_close(answer(zoo), before, rtol=0, atol=1e-5)
    weights = dict(zip(zoo.live, zoo.passage(BATCH).decision.weights.unbind(1), strict=True))
    torch.testing.assert_close(weights[edit.module or ""], weights["mlp-1"])


@pytest.mark.slow
def test_only_a_child_that_answers_alike_shares_its_parents_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the weight for somebody who says something else would be heard. Mutants are drawn until one does not."""

    def twins() -> list[bool]:
        found = []
        for seed in range(8):
            zoo = zoo_of()
            (edit,) = apply(editor_of(zoo, seed=seed, inheritance="split"), ACTIONS[1])
            found.append(edit.twin)
            assert (edit.module in zoo.twins) == edit.twin
        return found

    assert sum(twins()) >= 6
    monkeypatch.setattr("evodevo.growth.edits.TRIES", 0)
    assert sum(twins()) < 6


def test_who_comes_from_the_bank_is_no_twin() -> None:
    zoo = zoo_of()
    editor = editor_of(zoo, inheritance="split")
    (tried,) = apply(editor_of(zoo_of(), inheritance="split"), Action(operation="grow", modules=("mlp-1",)))
    assert tried.after is not None
    state = {name: one + 1 for name, one in zoo_state(tried).items()}
    editor.bank.keep("gone", tried.after, state, hashlib.sha256(save(state)).hexdigest())
    before = answer(zoo)
    (edit,) = apply(editor, Action(operation="grow", modules=("mlp-1",)))
    assert "from the bank" in edit.note
    assert not edit.twin
    assert not zoo.twins
    torch.testing.assert_close(answer(zoo), before, rtol=0, atol=1e-5)


def zoo_state(edit: Edit) -> dict[str, Tensor]:
    """First weights of the newborn of a first edit of ``zoo_of()``."""
    zoo = zoo_of()
    apply(editor_of(zoo, inheritance="split"), edit.action)
    return {name: one.clone() for name, one in zoo.pool.parts[edit.module or ""].state_dict().items()}


def test_a_replaced_parent_has_no_twin() -> None:
    zoo = zoo_of()
    action = Action(operation="grow", modules=("mlp-1",))
    gone, edit = apply(editor_of(zoo, inheritance="split", mutation=0.0), action, replaces="mlp-1")
    assert gone.module == "mlp-1"
    assert not edit.twin
    assert "mlp-1" not in zoo.live


@pytest.mark.parametrize("inheritance", ["function_preserving", "split"])
def test_repeated_edits_make_the_same_zoo(inheritance: str) -> None:
    zoo, other = zoo_of(), zoo_of()
    edits = several(editor_of(zoo, inheritance=inheritance))
    repeat(other, [Edit.model_validate_json(one.model_dump_json()) for one in edits])
    assert other.structure == zoo.structure
    assert other.twins == zoo.twins
    other.load_state_dict(zoo.state_dict())
    other.births = dict(zoo.births)
    assert torch.equal(answer(other), answer(zoo))


def several(editor: Editor) -> list[Edit]:
    """A growth, a hybrid, and a module that goes."""
    edits = [*apply(editor, ACTIONS[0]), *apply(editor, ACTIONS[3], event=2)]
    return [*edits, *apply(editor, Action(operation="prune", modules=("lstm-1",)), event=3)]


def _sources(edits: list[Edit], **update: Any) -> None:
    tensors = tuple(one.model_copy(update=update) if one.digest else one for one in edits[0].tensors)
    edits[0] = edits[0].model_copy(update={"tensors": tensors})


def _other_weights(edits: list[Edit], blobs: dict[str, bytes]) -> None:
    digest = next(one.digest for one in edits[0].tensors if one.digest)
    blobs[digest] = save({name: one + 1 for name, one in load(blobs[digest]).items()})


def _other_module(edits: list[Edit], blobs: dict[str, bytes]) -> None:
    """The blob exists, and holds another module."""
    _sources(edits, digest=next(name for name in blobs if name not in {one.digest for one in edits[0].tensors}))


def _parent(edits: list[Edit], name: str, **attributes: Any) -> None:
    edits[0] = edits[0].model_copy(update={"before": {name: archetype("mlp", WIDTH, **attributes)}})


@pytest.mark.parametrize(
    "change",
    [
        _other_weights,
        _other_module,
        lambda edits, _: _sources(edits, source="parts.nobody.inner.weight"),
        lambda edits, _: _parent(edits, "mlp-1", hidden_factor=3.0),
        lambda edits, _: _parent(edits, "somebody"),
        lambda edits, _: edits.append(edits[0]),
        lambda edits, _: _sources(edits, rule="bank", digest=None),
    ],
    ids=["weights", "module", "name", "genotype of the parent", "parent", "twice", "bank without a name"],
)
def test_a_log_that_does_not_fit_is_one_clear_error(change: Callable[[list[Edit], dict[str, bytes]], None]) -> None:
    zoo = zoo_of()
    editor = editor_of(zoo)
    edits = several(editor)
    blobs = {digest: editor.blobs.get(digest) for digest in editor.blobs.digests()}
    start: tuple[ZooModule, ...] = zoo_of().structure.modules
    fine = replay_log(start, edits, blobs.__getitem__, BirthSettings())
    assert fine.modules == zoo.structure.modules
    change(edits, blobs)
    with pytest.raises(DataError) as caught:
        replay_log(start, edits, blobs.__getitem__, BirthSettings())
    assert "\n" not in str(caught.value)


def test_a_newborn_is_slow_and_a_module_that_is_warmed_again_too() -> None:
    zoo = zoo_of()
    editor = editor_of(zoo)
    (edit,) = apply(editor, ACTIONS[2])
    assert zoo.newborn_rates == {edit.module: editor.settings.events.warm_rate}
    (again,) = apply(editor, Action(operation="rewarm", modules=("mlp-1",)), order=1)
    assert zoo.newborn_rates["mlp-1"] == editor.settings.events.warm_rate
    assert again.module == "mlp-1"
    assert again.after is None
    assert zoo.births == {edit.module: 0.0}, "who is warmed again stays heard"


@pytest.mark.slow
def test_a_larger_scale_mutates_farther() -> None:
    def moved(scale: float) -> float:
        total = 0.0
        for seed in range(12):
            zoo = zoo_of()
            parent = next(one.genotype for one in zoo.structure.modules if one.id == "mlp-1")
            action = Action(operation="grow", modules=("mlp-1",), scale=scale)
            (edit,) = apply(editor_of(zoo, seed=seed), action)
            assert edit.after is not None
            old, new = (float(str(one.attributes["hidden_factor"])) for one in (parent, edit.after))
            total += abs(new / old - 1)
        return total

    assert moved(4.0) > 2 * moved(0.25)


def test_the_fitter_parent_comes_first_and_the_mix_is_the_actions() -> None:
    zoo = zoo_of()
    fitness = {"mlp-1": 0.1, "transformer-1": 0.9}
    editor = editor_of(zoo)
    (edit,) = editor.apply(ACTIONS[3], event=1, order=0, fitness=fitness)
    assert list(edit.before) == ["transformer-1", "mlp-1"]
    assert {one.parent for one in edit.tensors} >= {"transformer-1", "mlp-1"}, "both give weights"
    assert edit.after is not None
    genotype = with_lineage(archetype("transformer", WIDTH, feedforward_factor=4.0), "wide")
    wide = zoo.structure.modules[0].model_copy(update={"id": "wide", "genotype": genotype})
    children = []
    for mix in (0.05, 0.95):
        zoo = zoo_of()
        zoo.insert(wide)
        action = Action(operation="hybridise", modules=("transformer-1", "wide"), mix=mix)
        (edit,) = apply(editor_of(zoo, seed=6), action)
        assert edit.after is not None
        children.append(edit.after)
    assert children[0] != children[1]


def test_what_went_is_kept_after_the_others_have_learnt_from_it() -> None:
    zoo = zoo_of()
    editor = editor_of(zoo)
    asked: list[tuple[str, bool]] = []

    def leave(name: str) -> str:
        asked.append((name, name in zoo.live))
        return "they learnt"

    editor.leave = leave
    state = {name: one.clone() for name, one in zoo.pool.parts["lstm-1"].state_dict().items()}
    (edit,) = apply(editor, Action(operation="prune", modules=("lstm-1",)))
    assert asked == [("lstm-1", True)]
    assert edit.note == "they learnt"
    (kept,) = editor.bank.entries
    assert kept.digest is not None
    again = load(editor.blobs.get(kept.digest))
    assert all(torch.equal(again[name], one) for name, one in state.items())
    assert "lstm-1" not in zoo.live


def test_a_refused_birth_changes_nothing() -> None:
    zoo = zoo_of()
    editor = editor_of(zoo)
    editor.refuses = lambda child, gone: f"it is dear, instead of {gone}"
    before = answer(zoo)
    (edit,) = apply(editor, ACTIONS[0], replaces="lstm-1")
    assert edit.module is None
    assert edit.note == "refused: it is dear, instead of lstm-1"
    assert zoo.structure == zoo_of().structure
    assert not zoo.births
    assert torch.equal(answer(zoo), before)


# The file of a log


def test_what_is_written_is_read() -> None:
    start = start_zoo(WIDTH)[:2]
    gone = Action(operation="prune", modules=(start[0].id,))
    edit = Edit(event=1, action=gone, seed=2**64 - 1, module=start[0].id, before={start[0].id: start[0].genotype})
    log = Log(tuple(start), BirthSettings(inheritance="split", keep=0.5), (edit,))
    assert read_log(write_log(log)) == log


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff", "cannot be read"),
        (b"[]", "has the format 'None'"),
        (b'{"format": "evodevo.edits/2"}', "has the format 'evodevo.edits/2'"),
        (canonical.dumps({"format": FORMAT}).encode(), "cannot be read"),
        (canonical.dumps({"format": FORMAT, "start": [3], "birth": {}, "edits": []}).encode(), "cannot be read"),
        (canonical.dumps({"format": FORMAT, "start": [], "birth": {}, "edits": [{"event": 0}]}).encode(), "edit 1"),
    ],
)
def test_a_log_of_others(data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_log(data)


def test_one_that_is_too_large_is_refused() -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_log(write_log(Log((), BirthSettings(), ())), most_bytes=10)
