"""The rules of an agent that extends a multitask system: open this file first.

An agent's generation, in order: parents (``mu_agent_parents``), their children's values and rates (``mu_agent_child``,
``mu_agent_mutation``), components (``mu_agent_components``) and supports (``mu_agent_supports``, ``mu_agent_sampler``);
then, with their accuracies, scores (``mu_agent_score``) and who lives on (``mu_agent_population``). All are functions
of values and of a generator: the driver keeps the record, and the same record gives the same children.

Source: specification ``munet.md`` Part 2 and Appendix A; µNet (2205.10937), µ2Net (2205.12755), µ2Net+ (2209.07326),
µ4Net (2302.02721).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evodevo.evolution.mu_agent_child import ChildSettings
from evodevo.evolution.mu_agent_components import ComponentSettings
from evodevo.evolution.mu_agent_mutation import MutationSettings
from evodevo.evolution.mu_agent_parents import ParentSettings
from evodevo.evolution.mu_agent_population import PopulationSettings
from evodevo.evolution.mu_agent_score import NO_COST, ScoreSettings
from evodevo.evolution.mu_agent_supports import MultipathSettings
from evodevo.settings import Settings
from evodevo.spaces.path_hyperparameters import Version


class AgentRules(Settings):
    """How an agent searches; the defaults are the paper's singlepath agent, as this house builds it."""

    parents: ParentSettings = Field(default=ParentSettings(), description="whose children")
    children: ChildSettings = Field(default=ChildSettings(), description="how a singlepath child is made")
    multipath: MultipathSettings = Field(default=MultipathSettings(), description="how a multipath child is made")
    population: PopulationSettings = Field(default=PopulationSettings(), description="who lives on")
    score: ScoreSettings = Field(default=ScoreSettings(), description="what size and work cost")
    kept: Literal["above", "reaches"] = Field(
        default="above", description="weights are kept where the score exceeds the bar, or (µ2Net, µ3Net) reaches it"
    )
    bar: Literal["agent", "task"] = Field(
        default="agent", description="whose parent sets a bar: a path of the same agent, or (before µ4Net) task"
    )
    samples: int = Field(default=16, ge=1, description="children of a cycle")


def singlepath_rules(version: Version = "paper", size: str = "ti3") -> AgentRules:
    """The rules of a singlepath agent.

    Args:
        version: whose. "paper" is our default: the paper's where it speaks; rates are stored when they move, an added
            layer changes no answer at first, each child has data values of its own, and the root is the base of costs.
        size: of its paths; only µ3Net's rules depend on it.
    """
    if version == "paper":
        return AgentRules()
    code = ScoreSettings(scale=0.99, base_parameters=2.2e9, base_flops=3.8e12)
    if version == "v4b":
        return AgentRules(
            children=ChildSettings(components=ComponentSettings(grids="parent", blocks="new"), data="generation"),
            population=PopulationSettings(cap=4, prune="stochastic"),
            score=code,
        )
    children = ChildSettings(
        mutation=MutationSettings(store="always"), components=ComponentSettings(blocks="ancestor"), data="generation"
    )
    if version == "v4":
        return AgentRules(children=children, score=code)
    name = size.lower()
    scores = {"l": code, "t0": ScoreSettings(scale=0.99, base_parameters=1e6, base_flops=1e6)}
    return AgentRules(
        parents=ParentSettings(counted="own"),
        children=children,
        population=PopulationSettings(cap={"l": 16, "t0": 7}.get(name), ties="recent"),
        score=scores.get(name, ScoreSettings(scale=1.0)),
        kept="reaches",
        bar="task",
        samples=16 if name in scores else 32,
    )


def multipath_rules(version: Version = "paper") -> AgentRules:
    """The rules of a multipath agent: no cost, no forced action, a new structure where no parent is accepted.

    Args:
        version: whose; µ3Net has no such agent, and its rules of populations are used.
    """
    rules = singlepath_rules(version, "l")
    mutation = rules.children.mutation.model_copy(update={"forced": ()})
    return rules.model_copy(
        update={
            "parents": rules.parents.model_copy(update={"fallback": "none"}),
            "multipath": MultipathSettings(mutation=mutation),
            "score": NO_COST,
        }
    )
