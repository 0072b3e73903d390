"""Modules enlarged at their place: they answer as before, their new units learn, and their numbers are found again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from evodevo.errors import DataError, UsageError
from evodevo.growth.edit_spec import Action, Edit
from evodevo.growth.edits import Editor, repeat, replay_log
from evodevo.growth.in_place.base import EDITS, InPlaceEdit
from evodevo.growth.in_place.spec import InPlaceSettings
from evodevo.growth.in_place.weights import Enlarged, answers_alike, enlarge
from evodevo.growth.report.data import modules_after
from evodevo.growth.report.text import done_words, edit_words
from evodevo.growth.spec import BirthSettings, GrowthSettings
from evodevo.growth.zoo.bank import ModuleBank
from evodevo.growth.zoo.birth import ModuleParent
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.growth.zoo.growing import GrowingZoo
from evodevo.growth.zoo.splice import splice
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.build import build_module
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.module_zoo.modules.zoo import PAPER, archetype, member, sample, with_lineage
from evodevo.operators.base import Operator
from evodevo.storage.blobs import MemoryPool
from evodevo.testing.networks import small_batch
from evodevo.training.surgery import Origins, carry_state
from fixtures.small_zoo import INPUTS, WIDTH, lively, small_zoo

torch.set_num_threads(1)
BATCH = small_batch(INPUTS, count=8)
UNITS = ("fresh", "twins")
RELATIVE = {torch.float32: 1e-6, torch.float64: 1e-12}


def module_of(genotype: ModuleGenotype, numbers: torch.dtype, seed: int = 0, size: float = 0.2) -> Operator:
    """A module whose weights have moved."""
    module = build_module(genotype, seed).to(numbers)
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_((size * torch.randn(parameter.shape, generator=source)).to(parameter))
    return module


def enlarged(
    operation: str, genotype: ModuleGenotype, module: Operator, seed: int = 1, **how: Any
) -> tuple[ModuleGenotype, Operator, Enlarged]:
    row, options = EDITS.get(operation)(), InPlaceSettings(**how)
    child = row.child(genotype, options)
    before = ModuleParent(genotype, dict(module.state_dict()), "a" * 64)
    made = enlarge(row, "it", before, child, options, seed)
    larger = build_module(child, 0).to(next(iter(made.state.values())).dtype)
    larger.load_state_dict(made.state)
    return child, larger, made


def admitted(operation: str, genotype: ModuleGenotype) -> bool:
    try:
        EDITS.get(operation)().child(genotype, InPlaceSettings())
    except UsageError:
        return False
    return True


def difference(before: Operator, after: Operator, numbers: torch.dtype, *, masked: bool = True) -> float:
    """Largest difference of an answer as a share of the largest answer; dropout from one seed."""
    x = torch.randn(5, 9, WIDTH, generator=torch.Generator().manual_seed(3)).to(numbers)
    mask = torch.arange(9) < torch.tensor([9, 4, 1, 7, 9]).unsqueeze(1) if masked else None
    answers = []
    for module in (before, after):
        torch.manual_seed(11)
        with torch.no_grad():
            answers.append(module(x, mask=mask).y)
    real = slice(None) if mask is None else mask
    return float((answers[1] - answers[0])[real].abs().max() / answers[0][real].abs().max())


@st.composite
def genotypes(draw: st.DrawFn) -> ModuleGenotype:
    """Members of all families, and hybrids of two of them."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    first = sample(draw(st.sampled_from(PAPER)), WIDTH, rng)
    if draw(st.booleans()):
        return first
    second = sample(draw(st.sampled_from(PAPER)), WIDTH, rng)
    parents = (ZooModule(id=name, genotype=with_lineage(one, name)) for name, one in (("a", first), ("b", second)))
    return splice(*parents, rng, BirthSettings(splice=draw(st.sampled_from(["replace", "insert"])))).child


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much])
@given(genotypes(), st.sampled_from(["widen", "deepen"]), st.sampled_from(UNITS), st.sampled_from(list(RELATIVE)))
def test_the_answer_stays(genotype: ModuleGenotype, operation: str, units: str, numbers: torch.dtype) -> None:
    """Any module that admits an edit answers as before, whatever its attributes, in evaluation."""
    if not admitted(operation, genotype):
        return
    module = module_of(genotype, numbers)
    _, larger, made = enlarged(operation, genotype, module, units=units)
    assert difference(module.eval(), larger.eval(), numbers) <= RELATIVE[numbers]
    before = ModuleParent(genotype, dict(module.state_dict()))
    assert answers_alike(before, larger.genotype, made.state, 0)  # type: ignore[arg-type]


ADMIT = {
    "widen": PAPER,
    "deepen": ("transformer", "resnet1d"),
}


@pytest.mark.parametrize("family", [*PAPER, "operator"])
@pytest.mark.parametrize("operation", ["widen", "deepen"])
def test_each_family_admits_an_edit_or_says_why(family: str, operation: str) -> None:
    genotype = archetype(family, WIDTH)
    if family not in ADMIT[operation]:
        with pytest.raises(UsageError, match=r"no (width|depth) to enlarge: "):
            EDITS.get(operation)().child(genotype, InPlaceSettings())
        return
    for numbers, most in RELATIVE.items():
        for units in UNITS:
            module = module_of(genotype, numbers)
            child, larger, _ = enlarged(operation, genotype, module, units=units)
            assert child == member(family, WIDTH, child.attributes).model_copy(update={"graph": child.graph})
            assert sum(one.numel() for one in larger.parameters()) > sum(one.numel() for one in module.parameters())
            assert difference(module.eval(), larger.eval(), numbers) <= most
            # In training where no dropout is drawn for what has other sizes now.
            if family not in ("resnet1d", "cnn") or operation == "deepen":
                assert difference(module.train(), larger.train(), numbers) <= most


@pytest.mark.parametrize("family", ["resnet1d", "cnn"])
def test_convolutions_answer_alike_in_training_without_dropout(family: str) -> None:
    genotype = archetype(family, WIDTH, dropout=0.0)
    module = module_of(genotype, torch.float64)
    _, larger, _ = enlarged("widen", genotype, module, units="twins")
    assert difference(module.train(), larger.train(), torch.float64) <= 1e-12


@pytest.mark.parametrize(
    ("operation", "genotype", "words"),
    [
        ("widen", archetype("mlp", WIDTH, hidden_factor=4.0), "hidden factor 4.0 is the most that mlp has"),
        ("widen", archetype("squeeze_excite", WIDTH, reduction=2), "reduction 2 is the most that squeeze_excite has"),
        ("deepen", archetype("transformer", WIDTH, depth=4), "depth 4 is the most that transformer has"),
        ("deepen", archetype("transformer", WIDTH, form="paper"), "'paper' has no residual"),
    ],
)
def test_what_is_at_its_most_says_so(operation: str, genotype: ModuleGenotype, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        EDITS.get(operation)().child(genotype, InPlaceSettings())


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("family", ["mlp", "lstm", "resnet1d"])
def test_after_fifty_steps_twins_have_parted(family: str, units: str) -> None:
    """What reads the input, of an old unit and of the new one beside it; and new units have come to be heard."""
    genotype = archetype(family, WIDTH, dropout=0.0)
    module = module_of(genotype, torch.float32, size=0.0)
    _, larger, _ = enlarged("widen", genotype, module, units=units)
    state = dict(larger.named_parameters())
    (reads,) = (
        name
        for name in state
        if name.endswith(("inner.weight", "lstm.weight_ih_l0", "block1/first.convolution.weight"))
    )
    (heard,) = (
        name for name in state if name.endswith(("outer.weight", "out.weight", "block1/second.convolution.weight"))
    )
    half = state[heard].shape[1] // (4 if family == "lstm" else 2)  # two ways

    def apart() -> float:
        weights = state[reads].detach().flatten(1)
        return float((weights[half : 2 * half] - weights[:half]).norm() / weights[:half].norm())

    assert (apart() == 0.0) == (units == "twins")
    first = state[heard].detach().clone()
    optimizer = torch.optim.AdamW(larger.parameters(), lr=1e-3)
    teacher = module_of(genotype, torch.float32, seed=5).eval()
    for step in range(50):
        x = torch.randn(8, 6, WIDTH, generator=torch.Generator().manual_seed(step))
        with torch.no_grad():
            wanted = teacher(x).y
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(larger.train()(x).y, wanted).backward()
        optimizer.step()
    assert apart() > 1e-3
    new = state[heard].detach()[:, half : 2 * half]
    assert (new - first[:, half : 2 * half]).abs().max() > 1e-3
    assert new.abs().max() > 1e-3


def zoo_of(**changes: Any) -> ModuleZoo:
    return lively(small_zoo(count=6, **changes), 0.2, seed=1)


def editor_of(zoo: ModuleZoo, moved: Any = lambda _: None, **how: Any) -> Editor:
    growing = GrowthSettings(in_place=InPlaceSettings(**how), allow=("widen", "deepen", "prune", "grow"))
    return Editor(
        GrowingZoo(zoo, GrowableZoo, moved), growing, 3, MemoryPool(), lambda *_: None, lambda _: "", ModuleBank(10)
    )


def apply(editor: Editor, operation: str, name: str, event: int = 1, order: int = 0) -> Edit:
    action = Action(operation=operation, modules=(name,))
    (edit,) = editor.apply(action, event=event, order=order, fitness=dict.fromkeys(editor.zoo.live, 0.0))
    return edit


@torch.no_grad()
def answer(zoo: ModuleZoo) -> Tensor:
    return torch.cat(list(zoo(BATCH).values()), 1)


@pytest.mark.parametrize("keys", ["output", "genotype", "predictor"])
@pytest.mark.parametrize("numbers", list(RELATIVE))
def test_a_zoo_answers_as_before_and_knows_its_modules_by_their_ids(keys: str, numbers: torch.dtype) -> None:
    """Gates are computed in single precision, whatever that of the network."""
    batch = {name: value.to(numbers) if value.is_floating_point() else value for name, value in BATCH.items()}
    for units in UNITS:
        zoo = zoo_of(router={"keys": keys, "top_k": 4}).to(numbers)
        zoo.statistics.probed({name: 0.1 * place for place, name in enumerate(zoo.live)})
        with torch.no_grad():
            before = torch.cat(list(zoo(batch).values()), 1)
        ids, own = zoo.live, {name: value.clone() for name, value in zoo.statistics.state_dict().items()}
        edits = [apply(editor_of(zoo, units=units), "widen", name) for name in ("mlp-1", "lstm-1", "cnn-1")]
        edits.append(apply(editor_of(zoo), "deepen", "transformer-1"))
        assert [edit.note for edit in edits if edit.module is None] == []
        assert zoo.live == ids
        assert all(torch.equal(value, own[name]) for name, value in zoo.statistics.state_dict().items())
        with torch.no_grad():
            after = torch.cat(list(zoo(batch).values()), 1)
        assert float((after - before).abs().max()) <= 1e-6 * float(before.abs().max())
        assert [module.seed for module in zoo.structure.modules] == list(range(6))
        assert next(zoo.pool.parts["mlp-1"].parameters()).dtype == numbers


@pytest.mark.parametrize("units", UNITS)
def test_moments_go_to_their_places_and_new_ones_are_zero(units: str) -> None:
    """An independent way: every number of the moments carries its own address, and is looked for in the weights."""
    zoo = zoo_of()
    carried: list[Origins] = []
    before = {name: parameter.detach().clone() for name, parameter in zoo.named_parameters()}
    count = 0
    state: dict[str, dict[str, Tensor]] = {}
    for name, value in before.items():
        state[name] = {"exp_avg": torch.arange(count + 1, count + 1 + value.numel()).double().view(value.shape)}
        count += value.numel()
    weight_at = torch.cat([value.flatten() for value in before.values()])
    for operation, module in (("widen", "lstm-1"), ("widen", "cnn-1"), ("deepen", "resnet1d-1")):
        apply(editor_of(zoo, carried.append, units=units), operation, module)
        shapes = {name: values["exp_avg"].shape for name, values in state.items()}
        state = carry_state(state, shapes, carried[-1])
    after = dict(zoo.named_parameters())
    places = torch.cat([values["exp_avg"].flatten() for values in state.values()])
    assert sorted(places[places > 0].tolist()) == list(range(1, count + 1)), "each old moment is in one place"
    for name, values in state.items():
        assert values["exp_avg"].shape == after[name].shape
        old = values["exp_avg"] > 0
        found = weight_at[(values["exp_avg"][old] - 1).long()]
        if units == "fresh" or not any(part in name for part in ("projection", "out.", "hh")):
            assert torch.equal(after[name].detach()[old], found), name
    assert not any("block3" in name for name in state), "a new block has no moments yet"


def test_the_log_rebuilds_the_weights_of_each_edit_bit_for_bit_or_says_what_is_wrong() -> None:
    zoo, start = zoo_of(), zoo_of().structure.modules
    editor = editor_of(zoo, units="twins")
    edits = [apply(editor, "widen", "mlp-1"), apply(editor, "deepen", "transformer-1", 2)]
    edits += [apply(editor, "grow", "mlp-1", 3), apply(editor, "widen", "transformer-1", 4)]
    edits = [Edit.model_validate_json(edit.model_dump_json()) for edit in edits]
    assert [edit.enlarged for edit in edits] == [True, True, False, True]
    replayed = replay_log(start, edits, editor.blobs.get, editor.settings.birth)
    assert replayed.modules == zoo.structure.modules
    live = {name: zoo.pool.parts[name].state_dict() for name in ("mlp-1", "transformer-1")}
    for name, key in (("mlp-1", (1, 0)), ("transformer-1", (4, 0))):
        assert live[name].keys() == replayed.enlarged[key].keys()
        assert all(torch.equal(value, replayed.enlarged[key][tensor]) for tensor, value in live[name].items())
    other = zoo_of()
    repeat(other, edits)
    assert other.structure == zoo.structure
    for change in (
        {"seed": edits[0].seed + 1},
        {"in_place": InPlaceSettings(units="fresh")},
        {"in_place": InPlaceSettings(units="twins", noise=0.2)},
        {"weights": "0" * 64},
        {"weights": None},
        {"after": archetype("mlp", WIDTH, hidden_factor=3.0)},
        {"module": "lstm-1"},
    ):
        with pytest.raises(DataError):
            replay_log(start, [edits[0].model_copy(update=change), *edits[1:]], editor.blobs.get, BirthSettings())


def test_a_record_of_it_can_be_read_drawn_and_told() -> None:
    zoo = zoo_of()
    editor = editor_of(zoo)
    edits = [
        apply(editor, "widen", "mlp-1"),
        apply(editor, "deepen", "mlp-1", 1, 1),
        apply(editor, "prune", "lstm-1", 2),
    ]
    edits.append(apply(editor, "widen", "mlp-1", 3))
    assert modules_after(zoo_of().structure.modules, edits) == zoo.structure.modules
    assert edit_words(edits[0]) == "mlp-1 widened: 1,072 to 2,128 parameters"
    assert edit_words(edits[1]).startswith("deepen mlp-1: refused: ")
    assert edits[1].module is None
    assert done_words("of a package that is gone") == "of a package that is gone"


def test_what_does_not_admit_an_edit_is_refused_and_stays() -> None:
    zoo = zoo_of()
    editor = editor_of(zoo)
    edit = apply(editor, "deepen", "mlp-1")
    assert edit.module is None
    assert "refused: mlp has no depth to enlarge: its blocks have no residual" in edit.note
    editor.refuses = lambda child, gone: f"{gone} would be dear"
    assert apply(editor, "widen", "mlp-1").note == "refused: mlp-1 would be dear"
    assert zoo.structure == zoo_of().structure


class LargerKernel(InPlaceEdit):
    """What a package would write."""

    name, done, letter = "enlarge_kernel", "given larger kernels", "K"
    step: ClassVar[int] = 2

    def child(self, genotype: ModuleGenotype, settings: InPlaceSettings) -> ModuleGenotype:
        kernel = genotype.attributes.get("kernel")
        if not isinstance(kernel, int):
            raise UsageError(f"{genotype.archetype} has no kernel")
        return archetype(genotype.archetype, WIDTH, **{**genotype.attributes, "kernel": kernel + self.step})


class OtherActivation(LargerKernel):
    """A row that does not keep what it promises."""

    name = "other_activation"

    def child(self, genotype: ModuleGenotype, settings: InPlaceSettings) -> ModuleGenotype:
        return archetype(genotype.archetype, WIDTH, **{**genotype.attributes, "activation": "relu"})


@pytest.fixture
def _foreign() -> Iterator[None]:
    EDITS.add("enlarge_kernel", LargerKernel)
    EDITS.add("other_activation", OtherActivation)
    yield
    del EDITS._rows["enlarge_kernel"]
    del EDITS._rows["other_activation"]


@pytest.mark.usefixtures("_foreign")
def test_a_row_of_a_package_is_as_good_as_ours() -> None:
    zoo = zoo_of()
    before = answer(zoo)
    editor = editor_of(zoo)
    assert GrowthSettings(allow=("prune", "enlarge_kernel")).opened == ("enlarge_kernel",)
    edit = apply(editor, "enlarge_kernel", "resnet1d-1")
    assert edit.after is not None
    assert edit.after.attributes["kernel"] == 5
    torch.testing.assert_close(answer(zoo), before, rtol=0, atol=1e-6)
    (made,) = replay_log(zoo_of().structure.modules, [edit], editor.blobs.get, BirthSettings()).enlarged.values()
    assert all(torch.equal(made[name], value) for name, value in zoo.pool.parts["resnet1d-1"].state_dict().items())
    # One that would be heard is refused, and changes nothing.
    refused = apply(editor, "other_activation", "mlp-1")
    assert refused.note == "refused: the module would answer otherwise than before"
    torch.testing.assert_close(answer(zoo), before, rtol=0, atol=1e-6)


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no operation 'wden'"):
        GrowthSettings(allow=("wden",))
