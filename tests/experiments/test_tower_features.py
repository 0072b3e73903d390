"""Trainings on features of frozen towers: as if the towers were live, computed once, and whole again afterwards."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from evodevo.errors import NotFoundError, StoreDamagedError
from evodevo.experiments import tower_features as features
from evodevo.experiments.evaluate import evaluate_network, prepare_features
from evodevo.experiments.measure import measure, places
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.tower_features import precompute
from evodevo.experiments.trials import Trial
from evodevo.module_zoo.baselines.ensemble import ModuleEnsembleNetwork
from evodevo.module_zoo.baselines.network import BaselineNetwork
from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.saved import load_network
from evodevo.networks.spec import NetworkEnvelope, NetworkSpec
from evodevo.networks.towers.files import settled
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.operators.pretrained.files import weights_digest
from evodevo.search.problem import Outcome
from evodevo.settings import merge, validate
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.base import TASKS, SampleTask
from evodevo.tasks.features import FeaturesTask
from evodevo.training import checkpoints
from evodevo.training.precision import decide

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
WORDS = ("red", "blue", "warm", "cold", "thing", "stone", "leaf")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def towers(tmp_path: Path) -> Iterator[dict[str, Path]]:
    transformers.utils.logging.disable_progress_bar()
    found = {"text": tmp_path / "bert", "image": tmp_path / "vit"}
    save_text(found["text"])
    torch.manual_seed(0)
    transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **SIZES)).save_pretrained(found["image"])
    yield found
    transformers.utils.logging.enable_progress_bar()


def save_text(folder: Path, seed: int = 0) -> None:
    torch.manual_seed(seed)
    config = transformers.BertConfig(vocab_size=100, max_position_embeddings=16, **SIZES)
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(folder)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Images of two colours with texts; several rows have the same text, and one has none."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data"
    folder.mkdir()
    with (folder / "posts.csv").open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(("path", "caption", "class"))
        for number in range(80):
            colour = (200, 30, 30) if number % 2 else (30, 30, 200)
            pixels = np.clip(np.array(colour) + rng.integers(-20, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")
            text = " ".join(rng.choice(WORDS, number % 3 + 1)) if number != 3 else ""
            writer.writerow((f"{number}.png", text, "red" if number % 2 else "blue"))
    return folder / "posts.csv"


def zoo(towers: dict[str, Path], kind: str = "module_zoo", **changes: Any) -> NetworkSpec:
    extractors = {
        name: ExtractorStructure(kind="hugging_face", path=str(folder), **changes) for name, folder in towers.items()
    }
    if kind == "baseline":
        return BaselineNetwork(structure=BaselineStructure(width=8, style="gated_unit", extractors=extractors))
    structure = ZooStructure(width=8, modules=start_zoo(8)[1:3], extractors=extractors)
    if kind == "module_ensemble":
        return ModuleEnsembleNetwork(structure=structure)
    return ModuleZooNetwork(structure=structure)


def given(data: Path, changes: dict[str, Any] | None = None) -> NetworkProblem:
    values = {
        "objectives": ["error"],
        "task": "table",
        "task_settings": {"data": str(data), "image": "path", "text": "caption", "label": "class", "length": 6},
        "training": {"budget": {"steps": 6}, "batch_size": 16, "device": "cpu"},
        "curve_points": 2,
        "curve_samples": 16,
        "probes": [{"name": "other text", "shuffle": ["text"]}, {"name": "shorter", "task": {"length": 5}}],
    }
    settings = validate(NetworkEvaluationSettings, merge(values, changes or {}), what="settings")
    root = data.parent.parent
    return NetworkProblem(lambda arm: arm, settings, root / "blobs", root / "cache")


def trained(problem: NetworkProblem, network: NetworkSpec) -> Outcome:
    arm = Trial(name="arm", network=network, learning_rate=1e-2)
    outcome = problem.read(evaluate_network(problem.payload(arm, 5), lambda message: None))
    assert outcome.reason is None, outcome.detail
    return outcome


def pool(problem: NetworkProblem) -> FolderPool:
    assert problem._blobs is not None
    return FolderPool(problem._blobs)


def raw_task(problem: NetworkProblem) -> SampleTask:
    settings = validate(TASKS.get("table").settings_class, problem.settings.task_settings, what="settings of the task")
    return TASKS.get("table").open(settings, problem._cache_folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["module_zoo", "module_ensemble", "baseline"])
def test_a_training_on_features_is_the_training_with_live_towers(
    kind: str, towers: dict[str, Path], data: Path
) -> None:
    outcomes = {way: trained(given(data, {"features": way}), zoo(towers, kind)) for way in ("cached", "live")}
    cached, live = outcomes["cached"].extra, outcomes["live"].extra
    for part in ("validation", "test"):
        assert cached[part]["loss"] == pytest.approx(live[part]["loss"], abs=1e-5)
    assert cached["train_loss"] == pytest.approx(live["train_loss"], abs=1e-5)
    for probe in ("other text", "shorter"):
        assert cached["probes"][probe]["loss"] == pytest.approx(live["probes"][probe]["loss"], abs=1e-5)
    assert outcomes["cached"].cost["parameters"] == outcomes["live"].cost["parameters"]
    one, two = (load_network(pool(given(data)), outcomes[way].blobs["weights"])[0] for way in outcomes)
    mine, other = one.state_dict(), two.state_dict()
    assert list(mine) == list(other)
    for name, tensor in mine.items():
        torch.testing.assert_close(tensor, other[name], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_kept_network_has_its_towers_again(towers: dict[str, Path], data: Path) -> None:
    problem = given(data)
    outcome = trained(problem, zoo(towers))
    kept = checkpoints.load(pool(problem), outcome.blobs["weights"])
    assert not [name for part in kept.manifest.parts.values() for name in part.tensors if "core" in name]
    structure = validate(NetworkEnvelope, kept.manifest.genome or {}, what="network").network.structure
    assert isinstance(structure, ZooStructure)
    assert {name: one.digest for name, one in structure.extractors.items()} == {
        name: weights_digest(str(folder)) for name, folder in towers.items()
    }
    network, about = load_network(pool(problem), outcome.blobs["weights"])
    assert [one["modality"] for one in about["inputs"]] == ["image", "tokens"]
    task = raw_task(problem)
    found = measure(network, task, "test", places(task, "test", None), batch_size=4, precision=decide("cpu"))
    assert found.loss == pytest.approx(outcome.extra["test"]["loss"], abs=1e-5)


@pytest.mark.slow
def test_a_tower_that_changed_or_moved_is_one_clear_error(towers: dict[str, Path], data: Path) -> None:
    problem = given(data)
    outcome = trained(problem, zoo(towers))
    save_text(towers["text"], seed=1)
    with pytest.raises(StoreDamagedError, match="another file"):
        load_network(pool(problem), outcome.blobs["weights"])
    with pytest.raises(StoreDamagedError, match="another file"):
        precompute(
            raw_task(problem),
            {"text": ExtractorStructure(kind="hugging_face", path=str(towers["text"]), digest="0" * 64)},
            data.parent,
        )
    towers["text"].rename(data.parent / "elsewhere")
    with pytest.raises(NotFoundError, match="bert"):
        load_network(pool(problem), outcome.blobs["weights"])


@pytest.mark.slow
def test_features_are_computed_once(towers: dict[str, Path], data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, told = given(data), list[dict[str, Any]]()
    arm = Trial(name="arm", network=zoo(towers), learning_rate=1e-2)
    prepare_features(problem.payload(arm, 5), told.append)
    assert {(one["features"], one["done"], one["total"]) for one in told if one["done"] == one["total"]} == {
        ("image", 80, 80),
        ("text", 80, 80),
    }

    def nobody(*_: object) -> None:
        raise AssertionError("a tower was loaded")

    monkeypatch.setattr(features, "TowerReader", nobody)
    for kind in ("module_zoo", "baseline"):
        trained(problem, zoo(towers, kind))


def test_samples_with_equal_texts_are_known_by_their_origin(towers: dict[str, Path], data: Path) -> None:
    problem = given(data)
    task = raw_task(problem)
    view = precompute(task, zoo(towers).towers(task.inputs), data.parent)
    assert isinstance(view, FeaturesTask)
    chosen = np.arange(task.count("train"))
    raw, batch = task.fetch("train", chosen), view.fetch("train", chosen)
    for name in ("text", "image"):
        flat = raw[name].reshape(len(chosen), -1)
        same = (flat[:, None] == flat[None]).all(-1)
        origin = batch[f"{name}/origin"]
        assert np.array_equal(origin[:, None] == origin[None], same)
    assert len(set(batch["text/origin"].tolist())) < len(chosen)


def test_towers_are_settled(towers: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(towers["text"].parent)
    structure = ZooStructure(
        extractors={"text": ExtractorStructure(kind="hugging_face", path="bert")},
        extractor=ExtractorStructure(kind="hugging_face", path="vit", train="last"),
    )
    found = settled(structure)
    assert found.extractors["text"].path == str(towers["text"])
    assert found.extractors["text"].digest == weights_digest("bert")
    assert found.extractor.digest == weights_digest("vit")
    assert settled(found) == found
    plain = BaselineNetwork()
    assert plain.settled() == plain
    wrong = ExtractorStructure(kind="hugging_face", path="bert", digest="0" * 64)
    with pytest.raises(StoreDamagedError):
        settled(structure.model_copy(update={"extractor": wrong}))


@pytest.mark.slow
def test_a_tower_that_learns_is_kept(towers: dict[str, Path], data: Path) -> None:
    problem = given(data, {"probes": []})
    outcome = trained(problem, zoo(towers, train="last"))
    network, _ = load_network(pool(problem), outcome.blobs["weights"])
    assert any(".core." in name for name in network.state_dict())


@pytest.mark.slow
def test_an_interrupted_training_goes_on_from_its_checkpoint(towers: dict[str, Path], data: Path) -> None:
    problem = given(data, {"training": {"checkpoint_every": 3, "report_every": 1}, "probes": []})
    arm, told = Trial(name="arm", network=zoo(towers), learning_rate=1e-2), list[dict[str, Any]]()
    whole = problem.read(evaluate_network(problem.payload(arm, 5), told.append))
    middle = next(str(one["checkpoint"]) for one in told if "checkpoint" in one)
    told.clear()
    again = problem.read(evaluate_network(problem.payload(arm, 5, middle), told.append))
    assert not [one for one in told if "restarted" in one]
    assert min(one["step"] for one in told if "step" in one) > 3
    assert again.extra["test"]["loss"] == whole.extra["test"]["loss"]
