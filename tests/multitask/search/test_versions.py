"""Rules of the published agents, row by row, and that ours differ where docs/spec/munet.md says so."""

from __future__ import annotations

import pytest

from evodevo.multitask.hyperparameters import Version
from evodevo.multitask.search.agent import CycleSettings
from evodevo.multitask.search.score import cost
from evodevo.multitask.search.supports import MultipathSettings
from evodevo.multitask.search.versions import Rules, multipath_rules, singlepath_rules
from evodevo.multitask.training.values import PathTrainingSettings
from evodevo.settings import validate

VERSIONS: tuple[Version, ...] = ("paper", "v4", "v4b", "v3", "v2", "v1")
EVERY = {one: singlepath_rules(one) for one in VERSIONS}


@pytest.mark.parametrize("rules", [f(version) for f in (singlepath_rules, multipath_rules) for version in VERSIONS])
def test_rules_survive_storage(rules: Rules) -> None:
    assert validate(CycleSettings, rules.cycle.model_dump(mode="json"), what="rules") == rules.cycle
    validate(PathTrainingSettings, dict(rules.training), what="training")


def test_appendix_a() -> None:
    cycles = {name: one.cycle for name, one in EVERY.items()}

    def row(*values: object) -> dict[str, object]:
        return dict(zip(VERSIONS, values, strict=True))

    keep = {name: one.training.get("keep", "above") for name, one in EVERY.items()}
    assert keep == row("above", "above", "above", "reaches", "reaches", "above")
    ties = {name: one.population.ties for name, one in cycles.items()}
    assert ties == row("oldest", "oldest", "oldest", "recent", "recent", "oldest")
    assert {name: one.population.cap for name, one in cycles.items()} == row(5, 5, 4, None, None, None)
    pruned = {name: one.population.prune for name, one in cycles.items()}
    assert pruned == row("top", "top", "stochastic", "top", "top", "top")
    assert {name: one.retained for name, one in cycles.items()} == row(1, 1, 4, 1, 1, 1)
    store = {name: one.child.mutation.store for name, one in cycles.items()}
    assert store == row("moved", "always", "moved", "always", "moved", "moved")
    table = {name: one.child.mutation.table for name, one in cycles.items()}
    assert table == row(*["per_action"] * 4, "global", "global")
    blocks = {name: one.child.components.blocks for name, one in cycles.items()}
    assert blocks == row("insert", "ancestor", "new", *["ancestor"] * 3)
    grids = {name: one.child.components.grids for name, one in cycles.items()}
    assert grids == row("ancestor", "ancestor", "parent", *["ancestor"] * 3)
    assert {name: one.child.data for name, one in cycles.items()} == row("child", *["generation"] * 5)
    fallback = {name: one.parents.fallback for name, one in cycles.items()}
    assert fallback == row(*["uniform"] * 4, "rotating", "untried")
    assert {one.child.mutation.forced for one in cycles.values()} == {("clone:encoder_norm",)}


def test_budgets_of_the_table() -> None:
    """docs/spec/munet.md#differences-between-versions: batch, samples between looks, looks, their samples, children."""
    wanted = {
        ("v3", "ti3"): (512, 51_200, 4, 5_120, 32, None),
        ("v3", "b"): (128, 51_200, 4, 5_120, 32, None),
        ("v3", "t0"): (512, 51_200, 2, 5_120, 16, 7),
        ("v3", "l"): (16, 100_000, 8, 10_000, 16, 16),
        ("v4", "l"): (16, 300_000, 4, 10_000, 16, 5),
        ("v4", "b"): (256, 300_000, 4, 10_000, 16, 5),
        ("v4", "ti3"): (512, 300_000, 4, 10_000, 16, 5),
        ("v1", "ti3"): (512, 51_200, 5, 5_120, 64, None),
        ("v1", "b"): (256, 51_200, 30, 2_560, 64, None),
        ("v2", "l"): (64, 128_116, 4, 10_000, 128, None),
    }
    for (version, size), row in wanted.items():
        rules = singlepath_rules(version, size)  # type: ignore[arg-type]
        course = validate(PathTrainingSettings, dict(rules.training), what="training")
        found = (course.batch, course.most_between, course.validations, course.validation_cap)
        assert (*found, rules.cycle.samples, rules.cycle.population.cap) == row, (version, size)


def test_costs() -> None:
    root = (1e6, 1e9)
    assert cost(1e6, 1e9, EVERY["paper"].cycle.score, root).factor == pytest.approx(0.98**2)
    assert cost(2.2e9, 3.8e12, EVERY["v4"].cycle.score, root).factor == pytest.approx(0.99**2)
    for version in ("v3", "v2", "v1"):
        assert cost(1e9, 1e12, EVERY[version].cycle.score, root).factor == 1
    assert cost(1e6, 1e6, singlepath_rules("v3", "t0").cycle.score, root).factor == pytest.approx(0.99**2)


def test_a_multipath_agent_forces_nothing() -> None:
    for version in VERSIONS:
        child = multipath_rules(version).options.get("child", {})
        settings = validate(MultipathSettings, child, what="multipath")
        assert settings.mutation.forced == ()
        assert settings.mutation.store == EVERY[version].cycle.child.mutation.store
