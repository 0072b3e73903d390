"""Layers of donors in one network: whose they are, where they begin, and that neither kills nor neighbours matter."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evodevo.errors import EvodevoError, NotFoundError, UsageError
from evodevo.experiments.comparison import compare_arms
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.report.tables import arms_table
from evodevo.experiments.runs import EXPERIMENT
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Trial
from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.procedures.checkpoints import DonorIsMadeError, pretrain_donor
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.base import Network
from evodevo.networks.saved import load_network
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.stacks.ensemble import EnsembleNetwork
from evodevo.networks.stacks.ensemble_model import Ensemble
from evodevo.networks.stacks.spec import EnsembleStructure, StackStructure
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.networks.stacks.stack_model import LayerStack
from evodevo.operators.layers.pretrained import PretrainedLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.operators.pretrained.embeddings import embedding_tables
from evodevo.operators.pretrained.layers import load_encoder, pretrained_block
from evodevo.runs.resolve import resolve
from evodevo.runs.train import experiment
from evodevo.search.problem import Outcome
from evodevo.settings import merge, validate
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.text.tokenizers import ByteTokenizer
from evodevo.testing.small_networks import problem as pointer_problem
from fixtures import evaluations
from fixtures.evaluations import Killed, Told

pytest.importorskip("transformers", reason="the extra hf is not installed")

DONORS = [{"width": 8, "layers": 2, "heads": 2}, {"width": 12, "layers": 3, "heads": 2}]
LAYERS = [[0, 0], [0, 1], [1, 0], [1, 2]]
SETTINGS: dict[str, Any] = {
    "task": "text_labels",
    "task_settings": {
        "vocabulary": 300,
        "length": 16,
        "topics": {"classes": 3, "samples": {"train": 120, "validation": 30, "test": 30}},
    },
    "training": {
        "budget": {"steps": 5},
        "batch_size": 8,
        "device": "cpu",
        "report_every": 1,
        "checkpoint_every": 2,
    },
    "options": {"pretrained": {"donors": DONORS, "pretraining": {"steps": 3, "batch": 4}}},
    "validation_samples": 20,
    "test_samples": 20,
    "train_samples": 40,
    "curve_points": 2,
    "curve_samples": 10,
    "trace_samples": 0,
}


def _place(width: int) -> TransformerLayer:
    return TransformerLayer(width=width, heads=2, feedforward=4 * width)


MIX = HModelNetwork(
    structure=HModelStructure(
        stream="paper",
        width=16,
        hidden=(_place(8),) * 2 + (_place(12),) * 2,
        iterations=2,
        input_blocks=0,
        output_blocks=0,
    )
)
STACK = StackStructure(width=16, layers=(TransformerLayer(heads=2),), input_blocks=0, output_blocks=0)
ALONE = StackNetwork(structure=STACK)
BOTH = EnsembleNetwork(structure=EnsembleStructure(members=(STACK, STACK)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where donors and blobs of these tests lie."""
    return tmp_path_factory.mktemp("pretrained")


def arm(network: NetworkSpec = MIX, **options: Any) -> Trial:
    given = options or {"layers": LAYERS}
    return Trial(name="mix", network=network, learning_rate=1e-2, procedure="pretrained", options=given)


def problem(folder: Path, arms: Any = (), **changes: Any) -> NetworkProblem:
    settings = validate(NetworkEvaluationSettings, merge(SETTINGS, changes), what="settings")
    return NetworkProblem(lambda one: one, settings, folder / "blobs", folder / "cache", arms)


@pytest.fixture(autouse=True)
def _nobody_looks_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evodevo.experiments.evaluate.look_inside", lambda *_: {})


def evaluate(folder: Path, one: Trial, *, resume: str | None = None, report: Any = None, **changes: Any) -> Outcome:
    return evaluations.evaluate(problem(folder, **changes), one, resume=resume, report=report)


@pytest.fixture(scope="module")
def whole(folder: Path) -> tuple[Outcome, Told]:
    """All layers learn; nothing interrupted it."""
    told = Told()
    return evaluate(folder, arm(), report=told.append), told


def network_of(folder: Path, outcome: Outcome) -> Network:
    return load_network(FolderPool(folder / "blobs"), outcome.blobs["weights"])[0]


def donor_of(outcome: Outcome, number: int) -> str:
    return str(outcome.extra["facts"]["donors"][str(number)]["path"])


@pytest.mark.slow
def test_frozen_layers_are_the_donors_and_what_is_around_them_learns(folder: Path, whole: tuple[Outcome, Told]) -> None:
    outcome, (tuned, _) = evaluate(folder, arm(layers=LAYERS, train="none")), whole
    network = network_of(folder, outcome)
    assert isinstance(network, HModel)
    for layer, (donor, index) in zip(network.core.layers, LAYERS, strict=True):
        theirs = pretrained_block(donor_of(outcome, donor), index, train="none", digest=None).layer.state_dict()
        mine = layer.get_submodule("operator.layer").state_dict()
        assert theirs.keys() == mine.keys()
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    fresh = sum(one.numel() for one in network.parameters() if one.requires_grad)
    assert outcome.cost["parameters"] == fresh < tuned.cost["parameters"]
    assert outcome.extra["train"]["samples"] == 40
    assert len(outcome.series["train_loss"]) == 5
    changed = network_of(folder, tuned).state_dict()["core.layers.0.operator.layer.output.dense.weight"]
    assert not torch.equal(changed, network.state_dict()["core.layers.0.operator.layer.output.dense.weight"])


@pytest.mark.slow
def test_adapters_begin_where_the_layers_expect_them(whole: tuple[Outcome, Told]) -> None:
    """What least squares explain is kept with the facts."""
    fits = whole[0].extra["facts"]["adapters"]
    assert [fit[0] for fit in fits] == [0, 1, 2, 3]
    # The first donor has fewer channels than the messages: they hold all of it, and nothing is lost.
    assert all(value > 0.999 for fit in fits[:2] for value in fit[1:])
    assert all(0 < value <= 1 for fit in fits for value in fit[1:])


@pytest.mark.slow
def test_shuffled_layers_are_the_same_in_other_places(folder: Path) -> None:
    outcome = evaluate(folder, arm(layers=LAYERS, shuffled=True, train="none"))
    network = network_of(folder, outcome)
    assert isinstance(network, HModel)
    places = [(layer.path, layer.index) for layer in network.structure.hidden if isinstance(layer, PretrainedLayer)]
    given = [(donor_of(outcome, donor), index) for donor, index in LAYERS]
    assert sorted(places) == sorted(given)
    assert all(one != other for one, other in zip(places, given, strict=True))
    assert [path for path, _ in places] == [path for path, _ in given]


def test_a_donor_alone_is_all_of_its_layers_in_order(folder: Path) -> None:
    """With its embeddings and before training it gives nearly what Hugging Face gives."""
    outcome = evaluate(folder, arm(ALONE, whole=[1], embeddings="donor"), training={"budget": {"steps": 1}})
    network = network_of(folder, outcome)
    assert isinstance(network, LayerStack)
    assert network.structure.width == 12
    assert [layer.index for layer in network.structure.layers if isinstance(layer, PretrainedLayer)] == [0, 1, 2]
    path = donor_of(outcome, 1)
    tokens, positions = embedding_tables(path, 300, 16)
    model, _ = load_encoder(Path(path), "bert")
    ids = torch.arange(32).reshape(2, 16)
    with torch.no_grad():
        states = model(ids, output_hidden_states=True).hidden_states
        near, without = (float((x - states[0]).square().mean()) for x in (tokens[ids] + positions, tokens[ids]))
        assert near < 0.1 * float(states[0].var())
        assert near < without
        exact = tokens[ids[:, 8:9]] - states[0][:, 8:9]
        assert exact.abs().max() < 1e-5, "the middle position is exact"
    # One step at the warm-up's rate moves no embedding far.
    kept = network.state_dict()["inputs.layers.text.embedding.weight"]
    assert float((kept - tokens).abs().max()) < 0.2


@pytest.mark.slow
def test_an_ensemble_is_the_mean_and_its_members_learn_alone(folder: Path) -> None:
    outcome = evaluate(folder, arm(BOTH, whole=[0, 1]))
    network = network_of(folder, outcome)
    assert isinstance(network, Ensemble)
    members = [member for member in network.members if isinstance(member, LayerStack)]
    assert [member.structure.width for member in members] == [8, 12]
    task = problem(folder).task
    arrays = task.batch("train", 0, 0, 4)
    batch = {name: torch.from_numpy(np.asarray(one)) for name, one in arrays.items()}
    mean = sum(member(batch)["label"] for member in members) / 2
    assert torch.allclose(network(batch)["label"], mean)
    network.loss(batch).backward()  # type: ignore[no-untyped-call]
    together = [p.grad.clone() for p in members[1].parameters() if p.grad is not None]
    network.zero_grad()
    members[1].loss(batch).backward()  # type: ignore[no-untyped-call]
    alone = [p.grad for p in members[1].parameters() if p.grad is not None]
    assert all(torch.allclose(2 * one, other, atol=1e-6) for one, other in zip(together, alone, strict=True))
    assert network.represent(batch).pooled.shape == (4, 20)


@pytest.mark.slow
def test_a_training_killed_while_it_pretrains_or_at_a_checkpoint_goes_on_to_the_same_network(
    folder: Path, tmp_path: Path, whole: tuple[Outcome, Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("evodevo.h_model.procedures.checkpoints._save", killed)
        with pytest.raises(Killed):
            evaluate(tmp_path, arm())
    assert not list((tmp_path / "cache" / "donors").glob("[!.]*")), "nothing of a pretraining is kept"
    wanted, told = whole
    elsewhere = Told()
    for where, checkpoint in ((tmp_path, None), (folder, told.checkpoints[1])):
        resumed = evaluate(where, arm(), resume=checkpoint, report=elsewhere.append)
        assert resumed.scores == wanted.scores
        mine, theirs = network_of(where, resumed).state_dict(), network_of(folder, wanted).state_dict()
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
        if checkpoint:
            assert resumed.extra["facts"] == wanted.extra["facts"]
    # A donor that was cleared away is made again: a checkpoint that names it costs its work, not the evaluation.
    (tmp_path / "cache" / "donors").rename(tmp_path / "elsewhere")
    again = evaluate(tmp_path, arm(), resume=elsewhere.checkpoints[0], report=elsewhere.append)
    assert again.scores == wanted.scores
    assert elsewhere.all_of("restarted")


MATS = ["the cat sat on the mat. " * 50]
SMALL: dict[str, Any] = {"width": 8, "layers": 1, "heads": 2, "seed": 0, "length": 16}


def make_donor(folder: Path, counted: Any) -> None:
    steps: list[int] = []
    pretrain_donor(MATS, ByteTokenizer(), folder=folder, steps=8, report=lambda step, loss: steps.append(step), **SMALL)
    counted.put(len(steps))


def test_two_workers_that_want_one_donor_make_it_once(tmp_path: Path) -> None:
    processes = multiprocessing.get_context("fork")
    counted = processes.Queue()
    both = [processes.Process(target=make_donor, args=(tmp_path, counted)) for _ in range(2)]
    for process in both:
        process.start()
    steps = [counted.get(timeout=120) for _ in both]
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert sorted(steps) == [0, 8]


def test_who_does_not_wait_is_told_that_a_donor_is_made(tmp_path: Path) -> None:
    tried: list[str] = []

    def meanwhile(step: int, loss: float) -> None:
        with pytest.raises(DonorIsMadeError):
            pretrain_donor(MATS, ByteTokenizer(), folder=tmp_path, steps=2, wait=False, **SMALL)
        tried.append("refused")

    pretrain_donor(MATS, ByteTokenizer(), folder=tmp_path, steps=2, report=meanwhile, **SMALL)
    assert tried == ["refused"] * 2


@pytest.mark.slow
def test_paths_stand_for_donors_where_they_share_the_tokens(
    folder: Path, tmp_path: Path, whole: tuple[Outcome, Told]
) -> None:
    made, _ = whole
    paths = [donor_of(made, number) for number in (0, 1)]
    again = evaluate(folder, arm(layers=LAYERS, paths=paths))
    assert again.scores == made.scores
    mine, theirs = (network_of(folder, one).state_dict() for one in (again, made))
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    # Another tokenizer: its states say nothing about these tokens.
    foreign = pretrain_donor(MATS, ByteTokenizer(), folder=tmp_path, steps=1, **{**SMALL, "layers": 2})
    strange: dict[str, Any] = {"paths": [str(foreign), paths[1]], "layers": LAYERS}
    with pytest.raises(UsageError, match=r"other token ids.*tokenizer\.json.*orthogonal"):
        evaluate(folder, arm(**strange))
    with pytest.raises(UsageError, match="other token ids"):
        evaluate(folder, arm(ALONE, paths=[str(foreign)], whole=[0], embeddings="donor"))
    assert evaluate(folder, arm(**strange, adapters="orthogonal")).extra["facts"].keys() == {"donors"}


def test_what_cannot_be_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for one, words in (
        (arm(layers=[[0, 0]]), "1 layers of donors are named; the network has 4"),
        (arm(layers=[[0, 0], [0, 2], [1, 0], [1, 2]]), "layer 2 of donor 0 does not exist; it has layers 0 to 1"),
        (arm(layers=[[0, 0], [0, 1], [2, 0], [1, 2]]), "donor 2 does not exist; there are 2"),
        (arm(layers=LAYERS, whole=[0]), "either layers"),
        (arm(layers=LAYERS, embeddings="donor"), "they go with whole"),
        (arm(whole=[0]), "an H-Model takes single layers"),
        (arm(ALONE, whole=[0, 1]), "one stack takes one whole donor"),
        (arm(BOTH, whole=[0]), "an ensemble of 2 stacks"),
        (arm(BOTH, layers=LAYERS), "an ensemble of 2 stacks"),
        (arm(ALONE, whole=[0], shuffled=True), "shuffled goes with layers"),
        (arm(layers=LAYERS, donors=[]), "no donor"),
        (arm(layers=LAYERS, donors=[{"width": 9, "layers": 2, "heads": 2}] * 2), "2 attention heads do not divide"),
        (arm(layers=LAYERS, adaptors="orthogonal"), "did you mean 'adapters'"),
        (arm(layers=LAYERS, paths=[str(tmp_path / "nowhere")] * 2), "nothing is downloaded"),
        (arm(layers=LAYERS, paths=[str(tmp_path / "empty")] * 2), r"config\.json is not a configuration"),
    ):
        with pytest.raises(EvodevoError, match=words) as caught:
            problem(tmp_path, [one])
        assert isinstance(caught.value, NotFoundError) == (words == "nothing is downloaded"), words
    assert not (tmp_path / "cache" / "donors").exists()


def test_a_task_without_texts_is_told_so_and_options_decide_a_score(folder: Path) -> None:
    given = pointer_problem({"options": SETTINGS["options"]}, folder / "blobs", cache_folder=folder / "cache")
    with pytest.raises(UsageError, match=r"'pointer' has no texts.*text_labels"):
        evaluations.evaluate(given, arm())
    other = problem(folder, options={"pretrained": {"pretraining": {"steps": 4}}})
    assert problem(folder).fidelity != other.fidelity, "options are part of what decides a score"


# The recipe as a run: donors shared by its arms, training accuracy in its tables


RECIPE = "h_model.pretrained"
FOUR = [{"width": 8, "layers": 4, "heads": 4}, {"width": 16, "layers": 3, "heads": 4}]
CHOSEN = ("H-Model, mixed", "donors, answers averaged", "H-Model, fresh")


def overrides(**options: Any) -> dict[str, Any]:
    """The recipe's own arms, some of them, on few texts and for a moment."""
    settings = resolve(RECIPE, driver="train", overrides={})
    assert isinstance(settings, ExperimentSettings)
    arms = [plan.model_dump(mode="json") for plan in settings.experiment.arms if plan.name in CHOSEN]
    assert len(arms) == len(CHOSEN)
    samples = {"train": 80, "validation": 20, "test": 20}
    return {
        "experiment": {"arms": arms},
        "execution": {"executor": "serial"},
        "evaluation": {
            "training": {"budget": {"steps": 1}, "batch_size": 4, "device": "cpu"},
            "task_settings": {
                "vocabulary": 300,
                "length": 12,
                "most_cut": 1,
                "topics": {"classes": 2, "samples": samples},
            },
            "options": {"pretrained": {"donors": FOUR, "pretraining": {"steps": 2, "batch": 4}, **options}},
            "train_samples": 16,
            "validation_samples": 12,
            "test_samples": 12,
            "curve_points": 1,
            "curve_samples": 8,
            "trace_samples": 0,
        },
    }


@pytest.mark.slow
def test_arms_share_donors_and_tables_show_what_was_memorised(tmp_path: Path) -> None:
    run = experiment(RECIPE, overrides=overrides(), store=tmp_path / "runs", cache_folder=tmp_path / "cache")
    with run.archive:
        table = compare_arms(run)
        assert {row.name for row in table.rows} == set(CHOSEN)
        assert not [words for row in table.rows for words in row.missing]
        used = {facts["donors"][number]["path"] for facts in table.facts.values() for number in facts.get("donors", {})}
        made = {str(one) for one in (tmp_path / "cache" / "donors").glob("[!.]*")}
        assert used == made
        assert len(made) == 2
        assert all(row.train is not None and 0 <= row.train.mean <= 1 for row in table.rows)
        assert table.baselines["test"].keys() == {"majority", "tf-idf"}
        arms = arms_table(table)
        assert "train %" in arms.columns
        assert all(len(row) == len(arms.columns) for row in arms.rows)
        assert "Printed in" in (page := run.slice.report(run))
        assert "Table 3" in page


def test_paths_are_found_from_any_folder_and_wrong_ones_leave_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = resolve(RECIPE, driver="train", overrides=overrides(paths=["mine", "somebody/some-model"]))
    found = merge(settings.model_dump(mode="json"), EXPERIMENT.paths(settings))
    paths = found["evaluation"]["options"]["pretrained"]["paths"]
    assert paths == [str(tmp_path / "mine"), "somebody/some-model"]
    with pytest.raises(NotFoundError, match="no folder 'nowhere'"):
        experiment(RECIPE, overrides=overrides(paths=["nowhere"] * 2), store=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
