"""Rules of the published agents, row by row, and that ours differ where docs/spec/munet.md says so."""

from __future__ import annotations

from typing import get_args

import pytest

from evodevo.multitask.hyperparameters import Version
from evodevo.multitask.search.agent import CycleSettings
from evodevo.multitask.search.score import cost
from evodevo.multitask.search.supports import MultipathSettings
from evodevo.multitask.search.versions import Rules, multipath_rules, singlepath_rules
from evodevo.multitask.training.values import PathTrainingSettings
from evodevo.settings import validate

VERSIONS: tuple[Version, ...] = get_args(Version)
EVERY = {one: singlepath_rules(one) for one in VERSIONS}


@pytest.mark.parametrize("rules", [f(version) for f in (singlepath_rules, multipath_rules) for version in VERSIONS])
def test_rules_survive_storage(rules: Rules) -> None:
    assert validate(CycleSettings, rules.cycle.model_dump(mode="json"), what="rules") == rules.cycle
    validate(PathTrainingSettings, dict(rules.training), what="training")


def test_appendix_a() -> None:
    cycles = {name: one.cycle for name, one in EVERY.items()}
    rows = {
        name: (
            one.population.cap,
            one.population.prune,
            one.retained,
            one.child.components.blocks,
            one.child.components.grids,
            one.child.data,
            one.parents.fallback,
        )
        for name, one in cycles.items()
    }
    assert rows == {
        "paper": (5, "top", 1, "insert", "ancestor", "child", "uniform"),
        "v4b": (4, "stochastic", 4, "new", "parent", "generation", "uniform"),
    }
    assert {one.child.mutation.forced for one in cycles.values()} == {("clone:encoder_norm",)}


@pytest.mark.parametrize(("size", "batch"), [("l", 16), ("b", 256), ("ti3", 512)])
def test_budgets_of_the_table(size: str, batch: int) -> None:
    """docs/spec/munet.md#differences-between-versions: batch, samples between looks, looks, their samples, children."""
    rules = singlepath_rules("v4b", size)
    course = validate(PathTrainingSettings, dict(rules.training), what="training")
    found = (course.batch, course.most_between, course.validations, course.validation_cap, rules.cycle.samples)
    assert found == (batch, 300_000, 4, 10_000, 16)
    assert course.momentum_format == "bfloat16"


def test_costs() -> None:
    root = (1e6, 1e9)
    assert cost(1e6, 1e9, EVERY["paper"].cycle.score, root).factor == pytest.approx(0.98**2)
    assert cost(2.2e9, 3.8e12, EVERY["v4b"].cycle.score, root).factor == pytest.approx(0.99**2)


def test_a_multipath_agent_forces_nothing() -> None:
    for version in VERSIONS:
        child = multipath_rules(version).options.get("child", {})
        settings = validate(MultipathSettings, child, what="multipath")
        assert settings.mutation.forced == ()
