"""Rules of the published agents: Appendix A of the specification, row by row, and that ours differ where it says so."""

from __future__ import annotations

import pytest

from evodevo.evolution.mu_agent import AgentRules, multipath_rules, singlepath_rules
from evodevo.evolution.mu_agent_score import cost
from evodevo.settings import validate
from evodevo.spaces.path_hyperparameters import Version

VERSIONS: tuple[Version, ...] = ("paper", "v4", "v4b", "v3")


@pytest.mark.parametrize("rules", [f(version) for f in (singlepath_rules, multipath_rules) for version in VERSIONS])
def test_rules_survive_storage(rules: AgentRules) -> None:
    assert validate(AgentRules, rules.model_dump(mode="json"), what="rules") == rules


def test_appendix_a() -> None:
    ours, v4, v4b, v3 = (singlepath_rules(version) for version in VERSIONS)
    assert [one.kept for one in (ours, v4, v4b, v3)] == ["above", "above", "above", "reaches"]
    assert [one.bar for one in (ours, v4, v4b, v3)] == ["agent", "agent", "agent", "task"]
    assert [one.population.ties for one in (ours, v4, v4b, v3)] == ["oldest", "oldest", "oldest", "recent"]
    assert [one.population.cap for one in (ours, v4, v4b, v3)] == [5, 5, 4, None]
    assert [one.population.prune for one in (ours, v4, v4b, v3)] == ["top", "top", "stochastic", "top"]
    assert [one.children.mutation.store for one in (ours, v4, v4b, v3)] == ["moved", "always", "moved", "always"]
    assert [one.children.components.blocks for one in (ours, v4, v4b, v3)] == ["insert", "ancestor", "new", "ancestor"]
    assert [one.children.components.grids for one in (ours, v4, v4b, v3)] == ["ancestor"] * 2 + ["parent", "ancestor"]
    assert [one.children.data for one in (ours, v4, v4b, v3)] == ["child"] + ["generation"] * 3
    assert [one.samples for one in (ours, v4, v4b, v3)] == [16, 16, 16, 32]
    assert [singlepath_rules("v3", size).population.cap for size in ("L", "t0", "B")] == [16, 7, None]
    assert {one.children.mutation.forced for one in (ours, v4, v4b, v3)} == {("clone:encoder_norm",)}


def test_costs() -> None:
    root = (1e6, 1e9)
    assert cost(1e6, 1e9, singlepath_rules().score, root).factor == pytest.approx(0.98**2)
    assert cost(2.2e9, 3.8e12, singlepath_rules("v4").score, root).factor == pytest.approx(0.99**2)
    assert cost(1e9, 1e12, singlepath_rules("v3").score, root).factor == 1
    for version in VERSIONS:
        assert cost(1e9, 1e12, multipath_rules(version).score, root).factor == 1


def test_a_multipath_agent_forces_nothing_and_draws_new_structures() -> None:
    for version in VERSIONS:
        rules = multipath_rules(version)
        assert rules.multipath.mutation.forced == ()
        assert rules.multipath.mutation.store == singlepath_rules(version).children.mutation.store
        assert rules.parents.fallback == "none"
