"""Every row of an ablation switches something: settings and, at equal seed, what the network answers.

Rows of networks that do not grow: two steps of training on six samples. Rows that grow: a short growth by the random
strategist, of which the history or the trained weights differ; ``BY_LAW`` names rows whose effect such a growth is too
short to show, each with the test of the law that shows it.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import procedure_options
from evodevo.experiments.trials import Variant, expand
from evodevo.growth.ablation import paper as ablation_paper
from evodevo.growth.ablation.recipe import BASE, SkippedRow, ablation, cell_of
from evodevo.growth.ablation.row import BLOCKS, AblationRow
from evodevo.growth.ablation.rows import ALL, ROWS, chosen_rows, row_called
from evodevo.growth.events import learning
from evodevo.growth.fitness import FitnessHistory, ModuleHistory
from evodevo.growth.growable import TaskSizes
from evodevo.growth.legality import EventState, rule
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.base import Strategist
from evodevo.growth.strategists.state import Legal, State
from evodevo.growth.strategists.transition import Decision
from evodevo.growth.zoo.bank import ModuleBank
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.module_zoo.cost import zoo_parameters
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import archetype, start_zoo
from evodevo.module_zoo.named import zoo_structure
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.networks.build import build_network
from evodevo.networks.saved import load_network
from evodevo.runs.resolve import resolve
from evodevo.settings import merge, validate
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.images.digits_questions import DigitsQuestionsSettings, DigitsQuestionsTask
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import CLASS, small_batch
from evodevo.testing.small_networks import problem

torch.set_num_threads(1)

IMAGE = InputSpec("image", "image", height=8, width=8, channels=1)
TEXT = InputSpec("text", "tokens", length=12, vocabulary=11)
FACTS = InputSpec("facts", "vector", size=3)
STATIC = [row for row in ROWS if row.base != "growing"]
GROWING = [row for row in ROWS if row.base == "growing"]
STEPS = 20
GROWTH: dict[str, Any] = {
    "events": {"count": 4, "first": 0.2, "last": 0.8, "warm": 0.1, "horizon": 0.1, "overhead": 10.0},
    "fitness": {"samples": 16},
    "prune": {"age": 0, "distil_steps": 2, "tolerance": 10.0, "least": 2},
    "replay": {"capacity": 16, "steps": 2},
}
SMALL: dict[str, Any] = {"width": 16, "statistics": {"rank": 2}, "extractor": {"blocks": 1}}


def names(row: AblationRow) -> str:
    return row.name


def resolved(**more: Any) -> ExperimentSettings:
    found = resolve("module_zoo.classifier", driver="ablate", overrides=merge({"zoo": SMALL}, more), baselines="none")
    assert isinstance(found, ExperimentSettings)
    return found


@functools.cache
def made() -> tuple[ExperimentSettings, tuple[SkippedRow, ...]]:
    return ablation(resolved(), ROWS, (IMAGE, TEXT))


@functools.cache
def made_short() -> ExperimentSettings:
    """As ``made``, for the short growths of the tests below."""
    evaluation = {"training": {"budget": {"steps": STEPS}}, "options": {"grow": GROWTH}}
    return ablation(resolved(evaluation=evaluation), GROWING, (IMAGE, TEXT))[0]


def arm_of(row: AblationRow, of: ExperimentSettings | None = None, *, name: str | None = None) -> Variant:
    wanted = (name or row.title, cell_of(row))
    (found,) = [one for one in (of or made()[0]).experiment.arms if (one.name, one.cell["block"]) == wanted]
    return found


def base_of(row: AblationRow, of: ExperimentSettings | None = None) -> Variant:
    return arm_of(row, of, name=BASE)


BY_LAW = {
    "full_dynamic": "the base itself",
    **{f"most_{count}": "test_a_zoo_grows_to_as_many_modules_as_the_row_says" for count in (7, 8, 10, 12)},
    "bank_off": "test_without_a_bank_nothing_is_kept",
}

# The table


def test_there_are_43_rows_of_table_3_in_its_four_blocks() -> None:
    counts = Counter(row.block for row in ROWS)
    assert [counts[block] for block in BLOCKS if block != "more"] == [11, 10, 10, 12]
    assert set(ablation_paper.PRINTED) == {row.name for row in ROWS if row.block != "more"}
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert len({(row.title, row.block) for row in ROWS}) == len(ROWS)


def test_the_rows_are_called_as_in_the_paper_and_in_its_order() -> None:
    """Against the paper's own text, where it is at hand."""
    paper = Path(__file__).parents[3].parent / "shared" / "papers" / "architect-thyself.txt"
    if not paper.exists():
        pytest.skip(f"{paper} is not here")
    lines = [line.split("\t") for line in paper.read_text().splitlines() if line.count("\t") == 8]
    printed = {line[1]: line for line in lines}
    ours = [row for row in ROWS if row.block != "more"]
    assert [row.title for row in ours] == [line[1] for line in lines if line[1] in {row.title for row in ours}]
    for row in ours:
        line, own = printed[row.title], ablation_paper.PRINTED[row.name]
        assert (float(line[2]), float(line[3]), float(line[4])) == (own.auc, own.accuracy, own.f1), row.title


def test_titles_stay_since_rows_of_stored_runs_are_found_by_them() -> None:
    titles = "\n".join(sorted(f"{row.block}/{row.name}/{row.title}" for row in ROWS))
    assert hashlib.sha256(titles.encode()).hexdigest()[:16] == "d760794a36c845e4"


def test_rows_are_chosen_by_block_and_name() -> None:
    assert chosen_rows(ALL) == ROWS
    assert len(chosen_rows("table_3")) == 43
    assert [row.name for row in chosen_rows("fixed, most_6,identity_qkv")] == ["identity_qkv", "fixed", "most_6"]
    assert list(chosen_rows("A,D")) == [row for row in ROWS if row.block in "AD"]
    assert all(row_called(row.title, cell_of(row)) is row for row in ROWS)
    with pytest.raises(UsageError, match="synergy_off"):
        chosen_rows("sinergy_off")
    with pytest.raises(UsageError, match="needs rows"):
        chosen_rows("")


# Settings


@pytest.mark.slow
def test_every_row_has_an_arm_and_every_block_a_base() -> None:
    settings, left = made()
    assert [one.row.name for one in left] == []
    assert len(settings.experiment.arms) == len(ROWS) + 6  # A, B, C, D, more, more that grows
    assert settings.experiment.reference == BASE
    assert {plan.network.kind for plan in settings.experiment.arms} == {"module_zoo"}


@pytest.mark.parametrize("row", ROWS, ids=names)
def test_a_row_changes_the_resolved_settings(row: AblationRow) -> None:
    arm, base = arm_of(row), base_of(row)
    same = (arm.network, arm.options, arm.task) == (base.network, base.options, base.task)
    assert same == (row.name == "full_dynamic")  # which is the base of its block
    assert arm.procedure == base.procedure == ("grow" if row.base == "growing" else "train")
    validate(GrowthSettings, arm.options, what=row.name)


def test_the_bases_are_those_of_the_specification() -> None:
    nine = base_of(chosen_rows("same_config")[0]).network.structure
    fused = base_of(chosen_rows("text_off")[0]).network.structure
    growing = base_of(chosen_rows("fixed")[0])
    assert len(nine.modules) == 9
    assert (fused.fusion.relative_positions, fused.fusion.concat_query) == (True, True)
    assert growing.options == {}
    assert len(growing.network.structure.modules) == 6


def test_a_zoo_that_is_larger_than_a_row_allows_begins_with_its_first_modules() -> None:
    settings, _ = ablation(resolved(zoo={"modules": "table_3"}), chosen_rows("most_6,random_modules"), (IMAGE, TEXT))
    base, six, random = (plan.network.structure.modules for plan in settings.experiment.arms)
    assert six == base[:6]
    assert len(random) == len(base) == 9
    assert {one.genotype for one in random} != {one.genotype for one in base}


def test_events_come_at_the_rate_that_the_row_says() -> None:
    rows = {one.name: one for one in chosen_rows("conservative,aggressive")}
    counts = {name: arm_of(row).options["events"]["count"] for name, row in rows.items()}
    assert counts == {"conservative": 5, "aggressive": 24}
    settings, _ = ablation(
        resolved(evaluation={"options": {"grow": {"events": {"count": 2}}}}), list(rows.values()), (IMAGE, TEXT)
    )
    assert [plan.options["events"]["count"] for plan in settings.experiment.arms[1:]] == [1, 6]


@pytest.mark.slow
def test_what_a_task_does_not_have_is_left_out_with_the_reason() -> None:
    settings, left = ablation(resolved(), ROWS, (TEXT,))
    reasons = {one.row.name: one.why for one in left}
    assert reasons["image_raw"] == "the task has no image"
    assert {"text_off", "image_off", "query_text"} <= set(reasons)
    assert "text_attention_off" not in reasons
    assert sum(reason in text for text in settings.experiment.caveats for reason in ["(image_raw)"]) == 1
    pointer = resolved(evaluation={"task": "pointer", "task_settings": {}})
    _, left = ablation(pointer, chosen_rows("text_raw,text_off"), (IMAGE, TEXT))
    assert "has no tokenizer" in {one.row.name: one.why for one in left}["text_raw"]
    with pytest.raises(UsageError, match="no image"):
        ablation(resolved(), chosen_rows("image_off"), (FACTS,))


# Networks that do not grow


def learned(plan: Variant) -> Tensor:
    """Answers after two steps of training at equal seed."""
    network = build_network(plan.network, (IMAGE, TEXT), (CLASS,), 0)
    assert isinstance(network, ModuleZoo)
    optimizer = torch.optim.AdamW([one for one in network.parameters() if one.requires_grad], 1e-2)
    network.train().set_progress(0.1)
    for step in range(2):
        torch.manual_seed(step)
        optimizer.zero_grad()
        network.loss(small_batch((IMAGE, TEXT), (CLASS,), count=6, padded=True, seed=step)).backward()
        optimizer.step()
        network.observe()
    with torch.no_grad():
        answers: Tensor = network.eval()(small_batch((IMAGE, TEXT), (), count=6, padded=True, seed=9))["answer"]
    return answers


@functools.cache
def learned_base(name: str) -> Tensor:
    return learned(base_of(chosen_rows(name)[0]))


@pytest.mark.parametrize("row", [row for row in STATIC if not row.task], ids=names)
def test_a_row_changes_what_is_answered_at_equal_seed(row: AblationRow) -> None:
    base = learned_base("same_config" if row.base == "nine" else "text_off")
    assert not torch.allclose(learned(arm_of(row)), base, rtol=1e-5, atol=1e-6)


def test_the_same_arm_answers_the_same() -> None:
    """Otherwise the test above would show nothing."""
    assert torch.equal(learned(base_of(chosen_rows("text_off")[0])), learned_base("text_off"))


@pytest.mark.slow
def test_texts_in_bytes_are_the_same_questions_in_other_numbers() -> None:
    (row,) = [row for row in ROWS if row.task]
    assert row.name == "text_raw"
    words, raw = (
        DigitsQuestionsTask.open(validate(DigitsQuestionsSettings, task, what="task")) for task in ({}, dict(row.task))
    )
    places = torch.arange(50).numpy()
    before, after = (task.fetch("test", places) for task in (words, raw))
    assert (before["answer/target"] == after["answer/target"]).all()
    assert (before["image"] == after["image"]).all()
    assert [words.show("test", one) for one in range(50)] == [raw.show("test", one) for one in range(50)]
    for place in range(50):
        ids = after["text"][place][after["text/mask"][place]]
        assert bytes(int(one) - 2 for one in ids).decode() == raw.show("test", place)["text"]
    networks = [build_network(arm_of(row).network, task.inputs, task.outputs, 0).eval() for task in (words, raw)]
    answers = []
    for network, batch in zip(networks, (before, after), strict=True):
        with torch.no_grad():
            answers.append(network({name: torch.from_numpy(one) for name, one in batch.items()})["answer"])
    assert not torch.allclose(*answers)
    assert words.key != raw.key


@pytest.mark.parametrize(("without", "left"), [("text", "image"), ("image", "text")])
def test_a_side_that_is_not_read_costs_nothing_and_tells_nothing(without: str, left: str) -> None:
    structure = zoo_structure(merge(SMALL, {"without": [without]}))
    network = build_network(ModuleZooNetwork(structure=structure), (IMAGE, TEXT), (CLASS,), 0).eval()
    counted = sum(one.numel() for one in network.parameters())
    assert counted == sum(zoo_parameters(structure, (IMAGE, TEXT), (CLASS,)).values())
    batch = small_batch((IMAGE, TEXT), (), count=4, seed=1)
    other = {**batch, **{key: one for key, one in small_batch((IMAGE, TEXT), (), count=4, seed=2).items()
                         if key.startswith(without)}}  # fmt: skip
    with torch.no_grad():
        assert torch.equal(network(batch)["answer"], network(other)["answer"])
    assert not torch.equal(batch[without], other[without])
    assert torch.equal(batch[left], other[left])


def test_pixels_that_are_not_normalised_reach_the_patches_as_they_are() -> None:
    plain, raw = (
        build_network(
            ModuleZooNetwork(structure=zoo_structure(merge(SMALL, {"extractor": {"normalise": one}}))),
            (IMAGE, TEXT),
            (CLASS,),
            0,
        )
        for one in (True, False)
    )
    pixels = small_batch((IMAGE,), (), count=2)["image"]
    patches = [network.senses.extractors["image"]._patches(pixels) for network in (plain, raw)]  # type: ignore[union-attr]
    assert patches[1].min() >= 0
    assert patches[1].max() > 1
    assert torch.allclose(patches[0], patches[1] / 127.5 - 1)


# Networks that grow


class Differs(BaseException):
    """A growth has gone another way than the one that it is compared with: the rest of it shows nothing more."""


Heard = list[dict[str, Any]]


def grown(plan: Variant, folder: Path, strategist: str = "random", unlike: Heard | None = None) -> tuple[Heard, Any]:
    """What was reported of a short growth, losses, events and rewards; then its facts and the trained weights.

    Raises:
        Differs: it reported another loss, event or reward than ``unlike``.
    """
    given = problem(
        {
            "training": {"budget": {"steps": STEPS}},
            "options": {"grow": {**GROWTH, "strategist": strategist}},
            "curve_points": 2,
        },
        folder,
    )
    (arm,) = expand([plan], [1e-2], 1)
    validate(GrowthSettings, procedure_options(given.settings, arm), what=plan.name)
    heard: Heard = []

    def hear(message: dict[str, Any]) -> None:
        if "loss" in message or "event" in message:
            heard.append(
                {name: value for name, value in message.items() if name in ("step", "loss", "growth", "event")}
            )
            if unlike is not None and heard != unlike[: len(heard)]:
                raise Differs

    outcome = given.read(evaluate_network(given.payload(arm, 5, None), hear))
    assert outcome.reason is None, outcome.detail
    growth = {name: value for name, value in outcome.extra["growth"].items() if name not in ("overhead", "strategist")}
    network, _ = load_network(FolderPool(folder), outcome.blobs["weights"])
    weights = {name: one.numpy().tobytes() for name, one in network.state_dict().items()}
    return heard, {"growth": growth, "weights": weights}


OTHER_BASE = {"strategist_random": "ppo", **{row.name: "heuristic" for row in GROWING if row.name.startswith("prune_")}}
"""Rows that do nothing to the random strategist: by whom row and base grow then."""


@functools.cache
def grown_base(folder: Path, strategist: str) -> tuple[Heard, Any]:
    return grown(base_of(GROWING[0], made_short()), folder / strategist, strategist)


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in GROWING if row.name not in BY_LAW], ids=names)
def test_a_row_changes_how_the_zoo_grows_at_equal_seed(
    row: AblationRow, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    strategist = OTHER_BASE.get(row.name, "random")
    heard, base = grown_base(tmp_path_factory.getbasetemp() / "bases", strategist)
    try:
        _, found = grown(arm_of(row, made_short()), tmp_path, strategist, unlike=heard)
    except Differs:
        return
    assert found != base


@pytest.mark.slow
def test_a_growth_repeats_the_reports_that_rows_are_compared_by(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    heard, base = grown_base(tmp_path_factory.getbasetemp() / "bases", "random")
    assert len(heard) > STEPS
    again, found = grown(base_of(GROWING[0], made_short()), tmp_path, unlike=heard)
    assert again == heard
    assert found == base


class Grower(Strategist):
    """Has somebody born whenever that is legal."""

    name = "grower"

    def _choose(self, state: State, legal: Legal, rng: Any) -> Decision:
        births = legal.targets("grow") if legal.births else ()
        return Decision(legal=legal, action=births[0] if births else legal.targets("noop")[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["most_7", "full_dynamic"])
def test_a_zoo_grows_to_as_many_modules_as_the_row_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for row in GROWING:
        if row.name.startswith("most_"):
            assert arm_of(row).options["birth"]["most"] == int(row.name.removeprefix("most_"))

    def create_grower(name: str, **given: Any) -> Strategist:
        return Grower(given["settings"], actions=given["actions"], seed=given["seed"])

    monkeypatch.setattr(learning, "create", create_grower)
    plan = arm_of(chosen_rows(name)[0], made_short())
    many = {"events": {"count": 5, "first": 0.1, "last": 0.9, "warm": 0.05, "horizon": 0.05}}
    found = grown(plan.model_copy(update={"options": merge(plan.options, many)}), tmp_path)[1]["growth"]
    wanted = 9 if name == "full_dynamic" else 7
    assert len(found["modules"]) == wanted
    assert max(len(one["modules"]) for one in found["timeline"]) <= wanted


def test_without_a_bank_nothing_is_kept() -> None:
    """The law of ``bank_off``; that a newborn of equal genotype starts from the bank: tests/growth/test_edits.py."""
    (row,) = chosen_rows("bank_off")
    for options, kept in ((arm_of(row).options, 0), (base_of(row).options, 1)):
        bank = ModuleBank(validate(GrowthSettings, options, what="grow").prune.bank)
        bank.keep("gone", archetype("mlp", 16), {})
        assert len(bank.entries) == kept


def test_where_nobody_may_go_a_full_zoo_has_no_births() -> None:
    """The law of ``no_pruning``: no module gives its place to a newborn either."""
    (row,) = chosen_rows("no_pruning")
    modules = start_zoo(16)
    facts = {one.id: ModuleHistory(fitness=0.0, impact=-1.0) for one in modules}
    for options, births in ((arm_of(row).options, 0), (base_of(row).options, 1)):
        settings = validate(GrowthSettings, merge(options, {"birth": {"most": 6}}), what="grow")
        situation = EventState(
            structure=GrowableZoo.of(zoo_structure(SMALL)),
            task=TaskSizes((IMAGE, TEXT), (CLASS,), batch=4),
            history=FitnessHistory(modules=facts),
        )
        assert rule(situation, settings).legal.births == births
