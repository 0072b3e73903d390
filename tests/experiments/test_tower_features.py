"""Features of frozen towers: as if the towers were live, computed once, made anew where anything changed."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from evodevo.errors import NotFoundError, StoreDamagedError, UsageError
from evodevo.experiments import tower_features as features
from evodevo.experiments.evaluate import prepare_features
from evodevo.experiments.measure import measure, places
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.tower_features import features_key, precompute
from evodevo.experiments.trials import Trial
from evodevo.module_zoo.baselines.ensemble import ModuleEnsembleNetwork
from evodevo.module_zoo.baselines.network import BaselineNetwork
from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.encoders.model import Senses
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
from evodevo.tasks.base import TASKS, OutputSpec, SampleTask
from evodevo.tasks.features import FeaturesTask
from evodevo.tasks.in_memory import InMemoryTask
from evodevo.tasks.inputs import InputSpec
from evodevo.training import checkpoints
from evodevo.training.precision import decide
from fixtures.evaluations import Told, evaluate

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

TEXT = InputSpec("text", "tokens", length=6, vocabulary=30)
IMAGE = InputSpec("image", "image", height=8, width=8, channels=1)
ANSWER = OutputSpec("answer", "class", 2, ("no", "yes"))
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
WORDS = ("red", "blue", "warm", "cold", "thing", "stone", "leaf")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def towers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Tests that change one take a copy."""
    transformers.utils.logging.disable_progress_bar()
    folder = tmp_path_factory.mktemp("towers")
    found = {"text": folder / "bert", "image": folder / "vit"}
    save_text(found["text"])
    torch.manual_seed(0)
    transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **SIZES)).save_pretrained(found["image"])
    yield found
    transformers.utils.logging.enable_progress_bar()


def save_text(folder: Path, seed: int = 0) -> None:
    torch.manual_seed(seed)
    config = transformers.BertConfig(vocab_size=100, max_position_embeddings=16, **SIZES)
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of two colours with texts; several rows have the same text, and one has none."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("data")
    with (folder / "posts.csv").open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(("path", "caption", "class"))
        for number in range(48):
            colour = (200, 30, 30) if number % 2 else (30, 30, 200)
            pixels = np.clip(np.array(colour) + rng.integers(-20, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")
            text = " ".join(rng.choice(WORDS, number % 3 + 1)) if number != 3 else ""
            writer.writerow((f"{number}.png", text, "red" if number % 2 else "blue"))
    return folder / "posts.csv"


def frozen(folder: Path, **changes: Any) -> ExtractorStructure:
    return ExtractorStructure(kind="hugging_face", path=str(folder), **changes)


def zoo(towers: dict[str, Path], kind: str = "module_zoo", **changes: Any) -> NetworkSpec:
    extractors = {name: frozen(folder, **changes) for name, folder in towers.items()}
    if kind == "baseline":
        return BaselineNetwork(structure=BaselineStructure(width=8, style="gated_unit", extractors=extractors))
    structure = ZooStructure(width=8, modules=start_zoo(8)[1:3], extractors=extractors)
    if kind == "module_ensemble":
        return ModuleEnsembleNetwork(structure=structure)
    return ModuleZooNetwork(structure=structure)


def given(data: Path, root: Path, changes: dict[str, Any] | None = None) -> NetworkProblem:
    values = {
        "objectives": ["error"],
        "task": "table",
        "task_settings": {"data": str(data), "image": "path", "text": "caption", "label": "class", "length": 6},
        "training": {"budget": {"steps": 3}, "batch_size": 16, "device": "cpu"},
        "curve_points": 1,
        "curve_samples": 16,
        "trace_samples": 0,
    }
    settings = validate(NetworkEvaluationSettings, merge(values, changes or {}), what="settings")
    return NetworkProblem(lambda arm: arm, settings, root / "blobs", root / "cache")


def arm(network: NetworkSpec) -> Trial:
    return Trial(name="arm", network=network, learning_rate=1e-2)


def pool(problem: NetworkProblem) -> FolderPool:
    assert problem._blobs is not None
    return FolderPool(problem._blobs)


def raw_task(problem: NetworkProblem) -> SampleTask:
    settings = validate(TASKS.get("table").settings_class, problem.settings.task_settings, what="settings of the task")
    return TASKS.get("table").open(settings, problem._cache_folder)


def nobody(*_: object) -> None:
    raise AssertionError("a tower was loaded")


@pytest.fixture(scope="module")
def trained(towers: dict[str, Path], data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Outcome]:
    """A zoo that was trained on features."""
    problem = given(data, tmp_path_factory.mktemp("trained"))
    return problem, evaluate(problem, arm(zoo(towers)))


PROBES = [{"name": "other text", "shuffle": ["text"]}, {"name": "shorter", "task": {"length": 5}}]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "probes"), [("module_zoo", PROBES), ("module_ensemble", []), ("baseline", [])])
def test_a_training_on_features_is_the_training_with_live_towers(
    kind: str, probes: list[dict[str, Any]], towers: dict[str, Path], data: Path, tmp_path: Path
) -> None:
    ways = [given(data, tmp_path, {"features": way, "probes": probes}) for way in ("cached", "live")]
    outcomes = [evaluate(problem, arm(zoo(towers, kind))) for problem in ways]
    cached, live = (outcome.extra for outcome in outcomes)
    for part in ("validation", "test"):
        assert cached[part]["loss"] == pytest.approx(live[part]["loss"], abs=1e-5)
    assert cached["train_loss"] == pytest.approx(live["train_loss"], abs=1e-5)
    assert list(cached["probes"]) == [probe["name"] for probe in probes]
    for probe in cached["probes"]:
        assert cached["probes"][probe]["loss"] == pytest.approx(live["probes"][probe]["loss"], abs=1e-5)
    assert outcomes[0].cost["parameters"] == outcomes[1].cost["parameters"]
    one, two = (load_network(pool(ways[0]), outcome.blobs["weights"])[0].state_dict() for outcome in outcomes)
    assert list(one) == list(two)
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, two[name], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_kept_network_has_its_towers_again(towers: dict[str, Path], trained: tuple[Any, Outcome]) -> None:
    problem, outcome = trained
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
def test_a_tower_that_changed_or_moved_is_one_clear_error(
    towers: dict[str, Path], trained: tuple[Any, Outcome]
) -> None:
    problem, outcome = trained
    moved = towers["text"].with_name("elsewhere")
    towers["text"].rename(moved)
    try:
        with pytest.raises(NotFoundError, match="bert"):
            load_network(pool(problem), outcome.blobs["weights"])
        save_text(towers["text"], seed=1)
        with pytest.raises(StoreDamagedError, match="another file"):
            load_network(pool(problem), outcome.blobs["weights"])
        shutil.rmtree(towers["text"])
    finally:
        moved.rename(towers["text"])
    with pytest.raises(StoreDamagedError, match="another file"):
        precompute(raw_task(problem), {"text": frozen(towers["text"], digest="0" * 64)}, problem._cache_folder)


def test_features_are_computed_once(
    towers: dict[str, Path], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, told = given(data, tmp_path), Told()
    prepare_features(problem.payload(arm(zoo(towers)), 5), told.append)
    ended = [(one["features"], one["done"]) for one in told if one["done"] == one["total"]]
    assert sorted(ended) == [("image", 48), ("text", 48)]
    monkeypatch.setattr(features, "TowerReader", nobody)
    evaluate(problem, arm(zoo(towers, "baseline")))


def test_samples_with_equal_texts_are_known_by_their_origin(trained: tuple[Any, Outcome], towers: Any) -> None:
    task = raw_task(trained[0])
    view = precompute(task, zoo(towers).towers(task.inputs), trained[0]._cache_folder)
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
def test_a_tower_that_learns_is_kept(towers: dict[str, Path], data: Path, tmp_path: Path) -> None:
    problem = given(data, tmp_path, {"training": {"budget": {"steps": 1}}})
    outcome = evaluate(problem, arm(zoo(towers, train="last")))
    network, _ = load_network(pool(problem), outcome.blobs["weights"])
    assert any(".core." in name for name in network.state_dict())


@pytest.mark.slow
def test_an_interrupted_training_goes_on_from_its_checkpoint(
    towers: dict[str, Path], data: Path, tmp_path: Path
) -> None:
    training = {"budget": {"steps": 4}, "checkpoint_every": 2, "report_every": 1}
    problem, told, again = given(data, tmp_path, {"training": training}), Told(), Told()
    whole = evaluate(problem, arm(zoo(towers)), report=told.append)
    resumed = evaluate(problem, arm(zoo(towers)), resume=told.checkpoints[0], report=again.append)
    assert not again.all_of("restarted")
    assert min(again.all_of("step")) > 2
    assert resumed.extra["test"]["loss"] == whole.extra["test"]["loss"]


# A task in memory, some of whose texts are empty or missing


def a_task(seed: int = 0) -> InMemoryTask:
    rng = np.random.default_rng(seed)

    def part(count: int) -> dict[str, NDArray[np.generic]]:
        return {
            "text": rng.integers(0, 30, (count, 6)),
            "text/mask": np.arange(6) < rng.integers(0, 7, count)[:, None],  # some are empty
            "text/present": np.arange(count) % 5 != 2,
            "image": rng.integers(0, 256, (count, 8, 8, 1), dtype=np.uint8),
            "answer/target": rng.integers(0, 2, count),
        }

    return InMemoryTask((TEXT, IMAGE), (ANSWER,), {"train": part(70), "test": part(9)})


def tensors(batch: Any) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.asarray(array)) for name, array in batch.items()}


def test_a_network_on_features_is_the_network_on_the_tower(towers: dict[str, Path], tmp_path: Path) -> None:
    task = a_task()
    extractors = {"text": frozen(towers["text"]), "image": frozen(towers["image"])}
    view = precompute(task, extractors, tmp_path)
    structure = ZooStructure(width=8, extractors=extractors)
    live = Senses(structure, structure.statistics, task.inputs).eval()
    read = Senses(structure, structure.statistics, view.inputs).eval()
    assert live.sides == read.sides
    report = read.load_state_dict(live.state_dict(), strict=False)
    assert not report.missing_keys
    assert all(".core." in name for name in report.unexpected_keys)
    for split in task.splits:
        places = np.arange(task.count(split))[::-1].copy()
        with torch.no_grad():
            pairs = zip(live(tensors(task.fetch(split, places))), read(tensors(view.fetch(split, places))), strict=True)
            for one, two in pairs:
                torch.testing.assert_close(one.vector, two.vector, rtol=0, atol=1e-5)
                masks = [
                    torch.ones(s.tokens.shape[:2], dtype=torch.bool) if s.mask is None else s.mask for s in (one, two)
                ]
                assert torch.equal(*masks)
                torch.testing.assert_close(one.tokens[masks[0]], two.tokens[masks[1]], rtol=0, atol=1e-5)


def test_a_sample_that_lacks_the_input_has_no_features(towers: dict[str, Path]) -> None:
    task = a_task()
    (spec,) = (spec for spec in task.inputs if spec.name == "image")
    reader = features.TowerReader(spec, frozen(towers["image"]), torch.device("cpu"))
    batch = {**task.fetch("train", np.arange(3)), "image/present": np.array([True, False, True])}
    first, lacking, last = reader.read(batch)
    assert lacking.shape == (0, first.shape[1])
    assert len(first) == len(last) > 0


def test_a_second_call_reads_the_cache(
    towers: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int]] = []
    task, extractors = a_task(), {"text": frozen(towers["text"])}
    first = precompute(task, extractors, tmp_path, progress=lambda *facts: told.append(facts))
    assert told == [("text", 64, 79), ("text", 70, 79), ("text", 79, 79)]

    with monkeypatch.context() as patch:
        patch.setattr(features, "TowerReader", nobody)
        again = precompute(a_task(), extractors, tmp_path)
        with pytest.raises(AssertionError, match="loaded"):
            precompute(a_task(seed=1), extractors, tmp_path)
    assert again.digest == first.digest
    places = np.arange(70)
    np.testing.assert_array_equal(again.fetch("train", places)["text"], first.fetch("train", places)["text"])


def test_a_damaged_file_is_made_anew(towers: dict[str, Path], tmp_path: Path) -> None:
    task, extractors = a_task(), {"image": frozen(towers["image"])}
    before = precompute(task, extractors, tmp_path).fetch("train", np.arange(70))["image"]
    (place,) = tmp_path.glob("features/*/*/train.values")
    place.write_bytes(place.read_bytes()[:-4] + b"\0\0\0\1")
    after = precompute(task, extractors, tmp_path).fetch("train", np.arange(70))["image"]
    np.testing.assert_array_equal(before, after)


def test_the_key_is_of_everything_that_decides(towers: dict[str, Path], tmp_path: Path) -> None:
    task, structure = a_task(), frozen(towers["text"])
    other = tmp_path / "other"
    save_text(other, seed=1)
    keys = [
        features_key(task, TEXT, structure),
        features_key(task, TEXT, frozen(towers["text"], positions=False)),
        features_key(task, TEXT, frozen(other)),
        features_key(a_task(seed=1), TEXT, structure),
    ]
    (other / "tokenizer.json").write_text("{}", encoding="utf-8")
    keys.append(features_key(task, TEXT, frozen(other)))
    assert len(set(keys)) == len(keys)
    copied = shutil.copytree(towers["text"], tmp_path / "elsewhere")
    assert features_key(task, TEXT, frozen(copied)) == keys[0]


def test_what_learns_is_not_prepared(towers: dict[str, Path], tmp_path: Path) -> None:
    task = a_task()
    extractors = {"text": frozen(towers["text"], train="last"), "image": ExtractorStructure()}
    assert precompute(task, extractors, tmp_path) is task
    view = precompute(task, extractors | {"image": frozen(towers["image"])}, tmp_path)
    assert isinstance(view, FeaturesTask)
    assert [spec.modality for spec in view.inputs] == ["tokens", "features"]
    with pytest.raises(UsageError, match="'image'"):
        precompute(task, {"imagge": frozen(towers["image"])}, tmp_path)
