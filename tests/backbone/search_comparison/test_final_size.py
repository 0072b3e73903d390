"""Searches at several sizes, whose finds are trained and tested at one size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from evodevo.backbone.protocol import derived as protocol
from evodevo.backbone.protocol.record import TEST
from evodevo.backbone.search_comparison import derived
from evodevo.backbone.search_comparison.record import best_first, read_search_comparison
from evodevo.experiments.comparison import Spread
from evodevo.runs.archive import Run
from evodevo.runs.composed import stage_runs

if TYPE_CHECKING:
    from .conftest import Compared

pytestmark = pytest.mark.slow


def test_the_searches_are_followed_by_one_training_and_one_test(scales: Compared, scaled: Run) -> None:
    assert scales.stages == ["motif/0", "width/0", "random/0", "training", "test"]
    assert scaled.state == "finished"
    assert sum(event.type == TEST for event in scaled.events()) == 1
    assert list(stage_runs(scaled)) == scales.stages[:-1]


def test_smaller_networks_have_more_evaluations_for_equal_flops(scaled: Run) -> None:
    runs = stage_runs(scaled)
    counts = {stage: len(runs[stage].individuals()) for stage in ("motif/0", "width/0", "random/0")}
    assert counts["random/0"] == 4
    assert counts["motif/0"] > 4
    assert counts["width/0"] > 4
    spent = {arm.name: arm.searches[0].flops or 0.0 for arm in read_search_comparison(scaled).arms}
    run = runs["motif/0"]
    cost = [
        run.space.cost(one.genome, length=16, mode="train", convention="actual", vocabulary=256, tied=False)
        for one in run.individuals()
    ]
    assert spent["motif"] == pytest.approx(sum(each.flops / 16 * 128 for each in cost))


def test_finalists_are_the_best_below_the_baselines_at_the_final_size(scaled: Run) -> None:
    settings, record = scaled.settings, read_search_comparison(scaled)
    bound = min(one.parameters for one in record.networks if not one.arms)
    networks = {one.name: one for one in record.networks}
    found = 0
    for arm in record.arms:
        run = stage_runs(scaled)[f"{arm.name}/0"]
        ordered = sorted((one for one in run.individuals()), key=lambda one: one.scores["quality"] or 0.0)
        sizes = {
            one.id: protocol.cost(settings, derived.at_final_size(settings, one.genome))["parameters"]
            for one in ordered
        }
        assert list(arm.searches[0].finalists) == [one.id for one in ordered if sizes[one.id] < bound][:2]
        for identity, name in arm.searches[0].finalists.items():
            found += 1
            assert networks[name].parameters == sizes[identity]
            assert arm.name in networks[name].arms
    assert found
    # A motif of four is there twice.
    one = next(network for network in record.networks if network.arms == ("motif",))
    genome = scaled.space.parse(one.genome)
    assert len(genome) == 8
    assert len(scaled.space.motif(genome)) <= 4


def test_networks_are_trained_at_the_final_size_and_measured_on_the_test_split(scaled: Run) -> None:
    record, training = read_search_comparison(scaled), stage_runs(scaled)["training"]
    (event,) = [event for event in scaled.events() if event.type == TEST]
    assert {one.id for one in training.individuals()} == set(event.payload["results"])
    assert len({one.genome for one in record.networks}) == len(record.networks), "each network is trained once"
    for network in record.networks:
        assert network.test is not None
        assert [training.individual(name).fact["steps"] for name in network.trainings] == [3]
        assert network.test.mean == event.payload["results"][network.trainings[0]]["bits_per_byte"]
    assert [measure.name for measure in record.measures] == ["hypervolume_at_final_size", "chosen_at_final_size"]
    for arm in record.arms:
        ends = [one for one in record.networks if arm.name in one.arms and one.test and one.validation]
        if ends:
            chosen = min(ends, key=lambda one: one.validation.mean if one.validation else 0.0)
            assert chosen.test is not None
            assert arm.searches[0].values["chosen_at_final_size"] == chosen.test.mean
        assert arm.hits is not None
        assert arm.hits[1] == len(arm.searches[0].finalists)
    assert any("anecdote" in sentence for sentence in record.sentences)


def test_the_best_is_chosen_on_validation(scaled: Run) -> None:
    found = [one for one in read_search_comparison(scaled).networks if one.arms]
    best = min(found, key=lambda one: one.validation.mean if one.validation else 0.0)
    assert scaled.best().id == best.trainings[0]
    # On made-up numbers, since the best on validation is often the best on test, too.
    spread = Spread.of([1.0])
    low, high = replace(found[0], test=spread, validation=Spread.of([2.0])), replace(found[0], test=Spread.of([2.0]))
    assert best_first([low, replace(high, validation=spread), replace(low, test=None)]) == [
        replace(high, validation=spread),
        low,
    ]
