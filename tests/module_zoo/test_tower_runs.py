"""Runs with frozen towers: features are computed first and once, digests are recorded, raw samples are answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from evodevo.cli.live import features_words
from evodevo.errors import DataError, NotFoundError, StoreDamagedError
from evodevo.execution.serial import SerialExecutor
from evodevo.experiments import tower_features as features
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.runs import EXPERIMENT, prepare_features
from evodevo.module_zoo.baselines.network import BaselineNetwork
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.runs import MODULE_ZOO
from evodevo.operators.pretrained.files import weights_digest
from evodevo.runs.archive import Archive
from evodevo.runs.evolve import with_absolute_paths
from evodevo.runs.predict import Predictor
from evodevo.runs.resolve import resolve
from evodevo.runs.train import experiment

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")


@pytest.fixture
def tower(tmp_path: Path) -> Iterator[Path]:
    transformers.utils.logging.disable_progress_bar()
    folder = tmp_path / "vit"
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    torch.manual_seed(0)
    transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **sizes)).save_pretrained(folder)
    yield folder
    transformers.utils.logging.enable_progress_bar()


@pytest.fixture
def changes(tmp_path: Path, tower: Path) -> dict[str, Any]:
    """Images of two colours with texts, and two small networks that read the images with the tower."""
    lines = ["path,caption,class"]
    for number in range(60):
        colour, name = ((200, 30, number), "red") if number % 2 else ((30, number, 200), "blue")
        Image.new("RGB", (8, 8), colour).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,thing {number % 5},{name}")
    (tmp_path / "posts.csv").write_text("\n".join(lines))
    return {
        "image": "path",
        "text": "caption",
        "label": "class",
        "data": str(tmp_path / "posts.csv"),
        "zoo": {
            "width": 8,
            "modules": ["mlp"],
            "extractors": {"image": {"kind": "hugging_face", "path": str(tower)}},
            "extractor": {"blocks": 0},
        },
        "evaluation": {"training": {"budget": {"seconds": None, "steps": 4}, "batch_size": 8}, "curve_points": 2},
        "experiment": {"seeds": 2, "learning_rates": [0.01]},
        "execution": {"executor": "serial"},
    }


def resolved(changes: dict[str, Any], baselines: str = "none") -> ExperimentSettings:
    return resolve("module_zoo.classifier", driver="train", baselines=baselines, overrides=changes)


@pytest.mark.slow
def test_a_run_computes_features_once_and_its_network_reads_raw_samples(
    changes: dict[str, Any], tower: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[str, dict[str, Any]]] = []
    loaded: list[str] = []
    original = features.TowerReader

    def reader(*given: Any) -> Any:
        loaded.append(given[0].name)
        return original(*given)

    monkeypatch.setattr(features, "TowerReader", reader)
    run = experiment(
        "module_zoo.classifier",
        baselines="none",
        overrides=changes,
        store=tmp_path / "runs",
        cache_folder=tmp_path / "cache",
        listener=lambda kind, facts: heard.append((kind, facts)),
    )
    assert loaded == ["image"]
    told = [facts for kind, facts in heard if kind == "features"]
    assert told[-1] == {"features": "image", "done": 60, "total": 60}
    kinds = [kind for kind, _ in heard]
    assert kinds.index("features") < kinds.index("plan") < kinds.index("started")
    assert features_words(told[-1]) == "features of image: 60 of 60 samples"
    (plan,) = run.settings.experiment.arms
    assert plan.network.structure.extractors["image"].digest == weights_digest(str(tower))
    assert len(run.individuals()) == 2
    run.archive.close()
    with Archive(tmp_path / "runs") as archive:
        best = archive.runs()[0].individuals()[0]
        asked = Predictor(best, tmp_path / "cache").sample({"image": str(tmp_path / "1.png"), "text": "thing 1"})
        assert sum(asked.answers["label"].probabilities.values()) == pytest.approx(1)
        other = Predictor(best, tmp_path / "cache").sample({"image": str(tmp_path / "2.png"), "text": "thing 1"})
        assert asked.answers["label"].probabilities != other.answers["label"].probabilities
        tower.rename(tmp_path / "moved")
        with pytest.raises(NotFoundError, match="vit"):
            Predictor(best, tmp_path / "cache")


def test_paths_are_absolute_and_digests_are_recorded_and_checked(
    changes: dict[str, Any], tower: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tower.parent)
    changes["zoo"]["extractors"]["image"]["path"] = "vit"
    settings = with_absolute_paths(EXPERIMENT, resolved(changes, "quick"))
    kinds = set()
    for plan in settings.experiment.arms:
        assert isinstance(plan.network, ModuleZooNetwork | BaselineNetwork) or plan.network.kind == "module_ensemble"
        kinds.add(plan.network.kind)
        image = plan.network.structure.extractors["image"]
        assert (image.path, image.digest) == (str(tower), weights_digest("vit"))
    assert "baseline" in kinds
    assert with_absolute_paths(EXPERIMENT, settings) == settings
    changes["zoo"]["extractors"]["image"]["digest"] = "0" * 64
    with pytest.raises(StoreDamagedError, match="another file"):
        experiment("module_zoo.classifier", baselines="none", overrides=changes, store=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    extractors = {"image": {"kind": "hugging_face", "path": str(tower)}}
    search = resolve(
        "module_zoo.small", driver="evolve", overrides={"space": {"structure": {"extractors": extractors}}}
    )
    settled = with_absolute_paths(MODULE_ZOO, search)
    assert settled.space.structure.extractors["image"].digest == weights_digest(str(tower)), "a search settles them too"


def test_towers_are_asked_once_for_all_arms_that_share_them(
    changes: dict[str, Any], tower: Path, tmp_path: Path
) -> None:
    settings = resolved(changes, "quick")
    arms = settings.experiment.trainings()
    assert len(arms) > 2

    def problem(which: str) -> NetworkProblem:
        evaluation = settings.evaluation.model_copy(update={"features": which})
        return NetworkProblem(lambda arm: arm, evaluation, cache_folder=tmp_path / "cache")

    with SerialExecutor() as executor:
        assert prepare_features(arms, problem("live"), executor, 0) == 0
        assert not (tmp_path / "cache" / "features").exists()
        assert prepare_features(arms, problem("cached"), executor, 0) == 1
        assert len(list((tmp_path / "cache" / "features").glob("*/*"))) == 1
        tower.rename(tmp_path / "moved")
        with pytest.raises(DataError, match="cannot be computed"):
            prepare_features(arms, problem("cached"), executor, 0)
