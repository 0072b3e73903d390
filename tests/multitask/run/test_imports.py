"""Networks of real runs become parts of a system: an H-Model, a zoo that grew, a language model that a search found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evodevo.errors import NotFoundError, UsageError
from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Variant
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.multitask.paths.network.kind import NETWORK
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.run.imports import import_individual
from evodevo.multitask.system import System
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.runs.archive import Archive
from evodevo.runs.evolve import begin
from evodevo.runs.recipe import ExecutionSettings
from evodevo.settings import validate
from evodevo.storage import Store
from evodevo.tasks.images.images import ImagesSettings, ImagesTask
from fixtures.imports import H_MODEL

ZOO = ZooStructure(
    width=16,
    extractor=ExtractorStructure(blocks=0),
    modules=start_zoo(16)[:3],
    router=ZooRouterStructure(keys="predictor", top_k=1),
)
GROWTH = {
    "strategist": "random",
    "events": {"count": 2, "first": 0.2, "last": 0.8, "warm": 0.2, "horizon": 0.15, "looks": 0},
    "fitness": {"samples": 16},
    "prune": {"age": 0, "tolerance": 10.0, "least": 2, "distil_steps": 2},
    "replay": {"capacity": 16, "steps": 1},
}
EVALUATION: dict[str, Any] = {
    "task": "images",
    "task_settings": {"architecture": 0.1},
    "training": {"budget": {"steps": 14}, "batch_size": 8, "device": "cpu", "optimizer": {"learning_rate": 0.01}},
    "validation_samples": 16,
    "test_samples": 16,
    "curve_points": 1,
    "curve_samples": 16,
}
TINY: dict[str, Any] = {
    "cycle": {"samples": 2, "generation_size": 2},
    "training": {"validations": 2, "most_between": 200, "device": "cpu"},
    "root": {"structure": {"width": 16, "heads": 2, "hidden": 32}},
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def trained(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run: an H-Model, and a zoo that grew, on images of digits."""
    arms = (
        Variant(name="h_model", network=H_MODEL),
        Variant(name="grown", network=ModuleZooNetwork(structure=ZOO), procedure="grow", options=GROWTH),
    )
    settings = ExperimentSettings(
        experiment=Comparison(arms=arms),
        evaluation=validate(NetworkEvaluationSettings, EVALUATION, what="settings"),
        execution=ExecutionSettings(executor="serial"),
    )
    store = tmp_path_factory.mktemp("trained") / "runs"
    begin("train", "module_zoo.own", settings, store=store, listener=None, on_start=None, cache_folder=None)
    return store


@pytest.fixture
def home(cache: Path, tmp_path: Path) -> Path:
    """A store with a system that nothing has run in."""
    create_system("zoo", kind="VitTiny", overrides=TINY, store=tmp_path / "runs")
    return tmp_path / "runs"


@pytest.mark.slow
def test_a_language_model_of_a_search_is_its_best_or_the_one_that_is_named(home: Path, small: Any) -> None:
    made = import_individual("zoo", "best", small.run, source=small.store, store=home)
    with Archive(small.store) as archive:
        front = archive.run(small.run).front()
        other = next(one for one in archive.run(small.run).individuals() if one.weights() != front[0].weights())
    assert (made.agent.name, made.individual, made.modalities) == ("Import~best", front[0].id, ("tokens:bytes",))
    origin = made.agent.settings["options"]["origin"]
    assert (origin["run"], origin["recipe"], origin["genome"]) == (small.run, "backbone.demo", front[0].row.genome_hash)
    named = import_individual("zoo", "other", individual=other.id[:8], source=small.store, store=home)
    assert named.individual == other.id
    for error, says, words, source in (
        (UsageError, "choose the network", ("zoo", "one"), None),
        (NotFoundError, "no run yet", ("zoo", "one", "last"), None),
        (NotFoundError, "nothing is called", ("zoo", "one", "nix"), small.store),
        (NotFoundError, "lion", ("lion", "one", small.run), small.store),
    ):
        with pytest.raises(error, match=says):
            import_individual(*words, source=source, store=home)
    with pytest.raises(UsageError, match="name of an import"):
        add_task("zoo", "best", source="text_labels", store=home)
    with Store.open(home) as store:
        assert store.check(deep=True).ok
        system = System.open(store, "zoo")
        assert set(system.view().offers) == {"Import~best", "Import~other"}
        assert len(system.agents()) == 3


@pytest.mark.slow
def test_what_grew_and_what_thinks_answer_in_a_system_as_they_did(trained: Path, home: Path) -> None:
    raw = ImagesTask.open(ImagesSettings()).fetch("test", np.arange(12))
    image = {"image": torch.from_numpy(raw["image"])}
    with Archive(trained) as archive:
        for one in archive.run("last").individuals():
            made = import_individual("zoo", one.genome.name, individual=one.id, source=trained, store=home)
            assert made.modalities == ("image",)
            with Store.open(home) as store, torch.no_grad():
                digests = {part.role: part.digest for part in made.path.components}
                part = NETWORK.freeze(made.path.path, digests, store.blobs, False)
                assert torch.equal(part.path({str(part.path.reads): image}), one.load().represent(image).pooled)
        grown = next(one for one in archive.run("last").individuals() if one.genome.name == "grown")
        modules = {one.id for one in grown.load().structure.modules}
    with Store.open(home) as store:
        known = System.open(store, "zoo").view().offers["Import~grown"]
    stored = {one["id"] for one in known.path.structure["genome"]["network"]["structure"]["modules"]}
    assert stored == modules, "with those that were born, and without those that went"
