"""Searches of zoos and experiments with zoos: words, drawings, reports; what cannot be done says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run as command
from evodevo.errors import ExitCode
from evodevo.experiments.comparison import compare_arms
from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.growth.report.zoos import router_shares, zoo_pictures
from evodevo.module_zoo.baselines.network import BaselineNetwork
from evodevo.module_zoo.baselines.spec import BaselineStructure, FusionStyle
from evodevo.module_zoo.draw import (
    baseline_words,
    ensemble_words,
    module_drawing,
    routing_drawings,
    zoo_drawing,
    zoo_words,
)
from evodevo.module_zoo.modules.families import family_of
from evodevo.module_zoo.modules.zoo import archetype, start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import FusionStructure, ZooRouterStructure, ZooStructure
from evodevo.networks.mixtures.spec import MixtureStyle
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.runs.archive import Archive, Run
from evodevo.runs.evolve import evolve
from evodevo.runs.recipe import RECIPES, Recipe, by_size
from evodevo.runs.train import experiment
from evodevo.testing.small_networks import SETTINGS, settings
from module_zoo.modules.graphs import graph, hybrid_of, node
from report.charts.drawn import words_of

WIDTH = 16
SMALL: dict[str, Any] = {
    "space": {"modules_range": [1, 3], "structure": {"width": WIDTH, "extractor": {"blocks": 0}}},
    "evaluation": {**SETTINGS, "seconds": None},
    "study": {"population": 2, "generations": 2, "confirmations": 0},
    "execution": {"executor": "serial"},
}
BARE = ExtractorStructure(blocks=0)
ZOO = ZooStructure(
    width=WIDTH,
    extractor=BARE,
    modules=start_zoo(WIDTH)[:3],
    router=ZooRouterStructure(keys="predictor", top_k=1),
)


# Searches


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("zoos") / "runs"
    evolve("module_zoo.small", overrides=SMALL, store=folder).archive.close()
    with Archive(folder) as archive:
        yield archive.runs()[0]


@pytest.mark.slow
def test_nsga2_evolves_zoos_and_keeps_what_routers_did(run: Run) -> None:
    individuals = run.individuals()
    assert (run.state, len(individuals)) == ("finished", 4)
    assert individuals[0].operation == "initial"
    assert [goal.name for goal in run.goals] == ["error", "network_parameters", "executed_flops"]
    assert run.front()
    for one in individuals:
        routing = one.fact["routing"]
        assert set(routing["ids"]) == {module.id for module in run.space.structure(one.genome).modules}
        assert sum(routing["weights"]) == pytest.approx(1, abs=1e-3)
        assert one.fact["inside"]["modules run"] == routing["run"]
    assert "<main>" in run.slice.report(run)


def test_an_individual_is_shown_drawn_loaded_trained_again_and_not_traced(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = run.individuals()[0]
    where = ["--store", str(run.archive.store.folder)]
    assert command(["show", one.id, "--svg", str(tmp_path / "zoo.svg"), *where]) == ExitCode.SUCCESS
    said = capsys.readouterr().out
    assert one.text in said
    assert f"A zoo of width {WIDTH}" in said
    drawn = words_of((tmp_path / "zoo.svg").read_text())
    assert one.id in drawn
    assert "effective modules per sample" in drawn
    assert " %" in drawn
    network = one.load()
    assert network.structure == run.space.structure(one.genome)
    assert command(["trace", one.id, *where]) == ExitCode.USAGE
    assert "is a zoo of modules" in capsys.readouterr().err
    budget = {"tokens": None, "steps": 2, "seconds": None}
    values = run.slice.retraining(run.settings, one, budget, 2)
    assert values["evaluation"]["training"]["budget"] == budget
    assert run.space.parse(one.text) == one.genome


# Experiments


def made(size: Any) -> ExperimentSettings:
    opponent = BaselineNetwork(structure=BaselineStructure(width=WIDTH, extractor=BARE, hidden=8))
    arms = (Variant(name="zoo", network=ModuleZooNetwork(structure=ZOO)), Variant(name="mlp", network=opponent))
    return ExperimentSettings(experiment=Comparison(title="tiny zoos", arms=arms), evaluation=settings())


@pytest.mark.slow
def test_the_report_shows_zoos_and_every_arm_has_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "module_zoo.testing"
    monkeypatch.setitem(RECIPES._rows, name, Recipe(name, "for tests", ("train",), by_size(made)))
    compared = experiment(name, overrides={"execution": {"executor": "serial"}}, store=tmp_path / "runs")
    table = compare_arms(compared)
    shares, pictures = router_shares(table), zoo_pictures(table)
    assert list(shares.columns[4:]) == [module.id for module in ZOO.modules]
    ((name, *numbers),) = shares.rows
    assert name == "zoo"
    assert float(numbers[2]) == 2, "a predictor with K = 1 runs two"
    assert sum(map(float, numbers[3:])) == pytest.approx(100, abs=0.2)
    assert list(pictures) == ["zoo"]
    drawn = [words_of(picture.svg) for picture in pictures["zoo"]]
    assert "modules, side by side" in drawn[0]
    assert any("mean router weight by" in text for text in drawn)
    assert [p.folded for p in pictures["zoo"] if p.folded] == [f"The graph of {one.id}" for one in ZOO.modules]
    page = compared.slice.report(compared)
    assert 'id="zoos"' in page
    assert "The graph of" in page
    for one in compared.individuals():
        words = compared.slice.words(one)
        assert len(words) >= 3
        if one.genome.name == "zoo":
            assert one.id in words_of(compared.slice.drawing(one))


# Words and drawings


def test_words_say_what_is_not_as_usual_and_every_style_of_opponent_has_some() -> None:
    structure = ZOO.model_copy(
        update={
            "disabled": (ZOO.modules[0].id,),
            "fusion": FusionStructure(kind="gmu", gate="half", heads=2),
            "router": ZooRouterStructure(kind="mean"),
            "extractors": {"image": ExtractorStructure(kind="hugging_face", path="/models/clip", train="last", last=2)},
        }
    )
    words = " ".join(zoo_words(structure))
    assert f"switched off: {ZOO.modules[0].id}" in words
    assert f"{ZOO.modules[0].id}:" not in words
    assert "gmu: a gated multimodal unit, heads 2, gate half" in words
    assert "all modules count alike" in words
    assert "image by clip (last 2 layers trained); other inputs by 0 blocks of our own" in words
    assert "2 networks" in " ".join(ensemble_words(structure))
    drawn = words_of(zoo_drawing(structure, title="mine"))
    assert "off" in drawn.split()
    assert ModuleZooNetwork(structure=structure).describe() == zoo_words(structure)
    assert "Answers" not in words
    other = structure.model_copy(update={"pool": "positions", "readout": 12})
    assert zoo_words(other)[-1] == "Answers: outputs of modules pooled by positions, 12 hidden units before the heads."
    styles = (*FusionStyle.__args__, *MixtureStyle.__args__)
    said = {style: baseline_words(BaselineStructure(style=style, layers=7, experts=5)) for style in styles}
    assert len({" ".join(words) for words in said.values()}) == len(styles)
    assert "one of 5 experts" in said["switch"][0]


def test_graphs_are_drawn_with_their_nodes() -> None:
    drawn = words_of(module_drawing(archetype("transformer", WIDTH, depth=2), title="t", subtitle="s"))
    assert drawn.split().count("attention") == 3, "twice, and in the legend"
    for module in start_zoo(WIDTH):
        assert f"width {WIDTH}" in words_of(module_drawing(module.genotype, title=module.id))
    back = node("p", "projection", width=WIDTH, lineage="cnn-1/p")
    hybrid = hybrid_of(graph("in>g in>p g>s p>s s>out", back, g="gate", s="sum"), WIDTH)
    assert "from cnn-1/p" in module_drawing(hybrid, title="h")
    assert family_of(hybrid) == "memoryless"


def test_routing_is_drawn_per_fact_and_calls_only_where_some_are_saved() -> None:
    table = {"values": ["no", "yes"], "counts": [3, 2], "weights": [[0.5, 0.5], [0.5, 0.5]]}
    dense = {**table, "executed": [[1.0, 1.0], [1.0, 1.0]]}
    sparse = {**table, "executed": [[1.0, 0.5], [1.0, 1.0]]}
    drawn = routing_drawings({"ids": ["a", "b"], "by": {"dense": dense, "sparse": sparse}})
    assert "a module is run on" not in words_of(drawn["dense"])
    assert "a module is run on" in words_of(drawn["sparse"])
    assert routing_drawings({}) == {}
