"""The recipes of protocols: the paper's numbers, and what every size promises."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.backbone.protocol import derived
from evodevo.backbone.protocol.plan import works_of
from evodevo.backbone.protocol.settings import ProtocolSettings
from evodevo.errors import UsageError
from evodevo.runs.resolve import resolve

NAMES = ("backbone.quality", "backbone.size", "backbone.cache")


def settings_of(name: str, size: str = "quick", **overrides: Any) -> ProtocolSettings:
    settings = resolve(name, size=size, overrides=overrides)
    assert isinstance(settings, ProtocolSettings)
    return settings


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", ["quick", "full", "paper"])
def test_every_size_tunes_all_and_trains_finalists_for_long(name: str, size: str) -> None:
    settings = settings_of(name, size)
    stages, tokens = settings.protocol, settings.evaluation.training.budget.tokens or 0
    assert len(stages.learning_rates) >= 3
    assert stages.finalists == 8
    assert stages.seeds == 3
    assert stages.best == (8 if size == "paper" else 3)
    assert stages.final_tokens >= (4 if size == "paper" else 10) * tokens
    assert set(derived.baselines(settings)) == {"transformer++", "striped-mamba"}
    assert settings.evaluation.cost_length == 4096
    assert stages.limit == ("cache_bytes" if name == "backbone.cache" else "parameters")
    for random in (False, True):
        assert derived.search(settings, 1e-3, random=random).study.generations == settings.study.generations


def test_the_paper_is_the_papers() -> None:
    """STAR, section 5 and Tables A.1, A.2."""
    settings = settings_of("backbone.size", "paper")
    training = settings.evaluation.training
    optimizer = training.optimizer
    assert (settings.space.depth, settings.space.dimensions.width) == (24, 768)
    step = training.batch_size * settings.evaluation.language.context_length
    assert step == 262_144
    assert training.budget.tokens == 5000 * step
    assert settings.protocol.final_tokens == 20_000 * step
    assert (settings.study.population, settings.study.generations, settings.study.algorithm) == (16, 18, "nsga2")
    assert (optimizer.learning_rate, optimizer.weight_decay, optimizer.clip) == (8e-4, 0.1, 1.0)  # type: ignore[union-attr]
    assert (optimizer.beta1, optimizer.beta2, optimizer.warmup) == (0.9, 0.95, 0.1)  # type: ignore[union-attr]
    assert settings.protocol.final_warmup == 1500 / 20_000
    assert settings.protocol.search_rate == "given"
    assert settings.evaluation.convention == "star"


def test_full_is_the_papers_search_on_small_networks() -> None:
    works = {work.stage: work for work in works_of(settings_of("backbone.cache", "full"))}
    # Four of sixteen go on from a quarter of their budget.
    assert works["random"].tokens == 204_800 * 7 // 16
    counted = {stage: work.trainings for stage, work in works.items()}
    assert counted == {"baselines": 8, "search": 290, "random": 288, "tuning": 36, "training": 23, "test": 23}


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"study": {"algorithm": "random"}}, "choose another"),
        ({"evaluation": {"objectives": ["cache", "quality"]}}, "first objective"),
        ({"evaluation": {"training": {"budget": {"tokens": None, "steps": 9}}}}, "at equal tokens"),
        ({"protocol": {"final_tokens": 3}}, "less than one batch"),
        ({"protocol": {"learning_rates": [0.1, 0.1, 0.2]}}, "occurs twice"),
        ({"evaluation": {"training": {"parts": 3}}}, "no 3 equal parts"),
    ],
)
def test_what_cannot_be_is_refused(overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        settings_of("backbone.cache", **overrides)


def test_a_size_that_a_recipe_does_not_have_is_named() -> None:
    with pytest.raises(UsageError, match="quick or full"):
        resolve("backbone.demo", size="paper", overrides={})
