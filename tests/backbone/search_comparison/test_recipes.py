"""The recipes that compare searches: the paper's numbers, equal budgets, random search beside everything."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.backbone.search_comparison import derived
from evodevo.backbone.search_comparison.settings import SearchComparisonSettings
from evodevo.backbone.search_settings import EvolveSettings
from evodevo.runs.resolve import resolve

SIZES = ("quick", "full", "paper")


def settings_of(name: str, size: str, **overrides: Any) -> SearchComparisonSettings:
    settings = resolve(f"backbone.{name}", size=size, overrides=overrides)
    assert isinstance(settings, SearchComparisonSettings)
    return settings


def searches_of(settings: SearchComparisonSettings) -> dict[str, EvolveSettings]:
    return {arm.name: derived.search(settings, arm, 0, 256) for arm in derived.arms(settings)}


@pytest.mark.parametrize("size", SIZES)
def test_algorithms_are_compared_under_equal_evaluations(size: str) -> None:
    settings = settings_of("algorithms", size)
    searches = searches_of(settings)
    assert [one.study.algorithm for one in searches.values()] == ["nsga2", "genetic", "firefly", "surrogate", "random"]
    wanted = settings.study.population * settings.study.generations
    for one in searches.values():
        assert one.space == settings.space
        assert one.evaluation == settings.evaluation
        assert one.study.population == settings.study.population
        assert wanted <= derived.evaluations(one) < wanted + settings.study.population
    assert settings.search_comparison.seeds >= (2 if size == "quick" else 3)


def test_the_papers_comparison_of_algorithms() -> None:
    """STAR, section 5.1: 16 genomes, 8 LIVs, width 768, 8 iterations, quality and parameters."""
    settings = settings_of("algorithms", "paper")
    assert (settings.space.depth, settings.space.dimensions.width, settings.space.operators) == (8, 768, "paper")
    assert (settings.study.population, settings.study.generations) == (16, 8)
    assert settings.evaluation.objectives == ("quality", "parameters")
    assert settings.evaluation.training.budget.tokens == 5000 * 262_144


@pytest.mark.parametrize("size", ["full", "paper"])
def test_the_papers_grid_of_variation(size: str) -> None:
    """STAR, A.4: populations of 16 for 8 iterations and of 32 for 4; 10 % or 20 %; 1 or 2 points; width 64."""
    settings = settings_of("variation", size)
    searches = searches_of(settings)
    grid = {
        (one.study.population, one.study.generations, one.space.mutation_probability, one.space.crossover_points)
        for name, one in searches.items()
        if name != "random"
    }
    assert grid == {(n, 128 // n, p, k) for n in (16, 32) for p in (0.1, 0.2) for k in (1, 2)}
    assert len(searches) == 9
    assert {derived.evaluations(one) for one in searches.values()} == {128}
    assert settings.space.dimensions.width == 64
    assert settings.space.depth == (24 if size == "paper" else 8)


def test_quick_halves_both_populations() -> None:
    searches = searches_of(settings_of("variation", "quick"))
    assert {(one.study.population, one.study.generations) for one in searches.values()} == {(8, 4), (16, 2)}


def test_the_papers_scales() -> None:
    """STAR, section 5.1 and Fig. 5.1: 8 LIVs at 768, 24 at 256, 24 at 768; 16 genomes, 12 iterations; 8 selected."""
    settings = settings_of("scales", "paper")
    sizes = {
        name: (one.space.depth, one.space.dimensions.width, one.study.population, one.study.generations)
        for name, one in searches_of(settings).items()
    }
    assert sizes == {
        "motif": (8, 768, 16, 12),
        "width": (24, 256, 16, 12),
        "full": (24, 768, 16, 12),
        "random": (24, 768, 16, 12),
    }
    final = settings.search_comparison.final
    assert final is not None
    assert (final.finalists, final.limit, final.tokens) == (8, "parameters", 20_000 * 262_144)


@pytest.mark.parametrize("size", ["quick", "full"])
def test_scales_have_equal_flops(size: str) -> None:
    settings = settings_of("scales", size)
    searches = searches_of(settings)
    spent = {name: derived.evaluations(one) * derived.mean_flops(one, 256) for name, one in searches.items()}
    for name, flops in spent.items():
        # To whole generations.
        generation = searches[name].study.population * derived.mean_flops(searches[name], 256)
        assert -0.5 * generation / 8 <= flops - spent["full"] < generation, name
    assert searches["motif"].study.generations > searches["full"].study.generations
    assert searches["full"].study.generations == settings.study.generations


def test_another_algorithm_has_no_settings_of_the_first() -> None:
    settings = settings_of("algorithms", "quick", study={"algorithm_settings": {"tournament_size": 3}})
    searches = searches_of(settings)
    assert searches["random"].study.algorithm_settings == {}
