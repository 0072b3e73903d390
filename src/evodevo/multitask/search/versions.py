"""Rules of the published agents, as settings (docs/spec/munet.md#differences-between-versions).

"paper" is our default: the paper's where it speaks; rates are stored when they move, an added layer changes no answer
at first, each child has data values of its own, and the root is the base of costs. Not repeated of the others: momentum
that children inherit (µ2Net, µ3Net), roots whose locks do not count and tasks that offer nothing to others (µNet,
µ2Net), and budgets in sampled paths or rounds of tasks instead of cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evodevo.multitask.hyperparameters import Version
from evodevo.multitask.search.agent import CycleSettings
from evodevo.multitask.search.child import ChildSettings
from evodevo.multitask.search.components import ComponentSettings
from evodevo.multitask.search.mutation import MutationSettings
from evodevo.multitask.search.parents import ParentSettings
from evodevo.multitask.search.population import PopulationSettings
from evodevo.multitask.search.score import ScoreSettings

_CODE = ScoreSettings(scale=0.99, base_parameters=2.2e9, base_flops=3.8e12)
_FREE = ScoreSettings(scale=1.0)


@dataclass(frozen=True)
class Rules:
    """How an agent of a version works.

    Attributes:
        cycle: of its cycles.
        training: of its children, where it differs from our defaults (``training.path_values``).
        options: of its class, likewise.
    """

    cycle: CycleSettings = field(default_factory=CycleSettings)
    training: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def singlepath_rules(version: Version = "paper", size: str = "ti3") -> Rules:
    """The rules of a singlepath agent.

    Args:
        version: whose.
        size: of its paths.
    """
    if version == "paper":
        return Rules()
    name = size.lower()
    return Rules(_cycle(version, name), _training(version, name))


def multipath_rules(version: Version = "paper") -> Rules:
    """The rules of a multipath agent: no forced action; cost and parents are those of its class.

    Args:
        version: whose; before µ4Net there was no such agent, and the rules of large singlepath ones are used.
    """
    single = singlepath_rules(version, "l")
    mutation = single.cycle.child.mutation.model_copy(update={"forced": ()})
    options = {} if version == "paper" else {"child": {"mutation": mutation.model_dump(mode="json")}}
    return Rules(single.cycle, single.training, options)


def _cycle(version: Version, size: str) -> CycleSettings:
    if version == "v4b":
        child = ChildSettings(components=ComponentSettings(grids="parent", blocks="new"), data="generation")
        return CycleSettings(
            child=child, population=PopulationSettings(cap=4, prune="stochastic"), score=_CODE, retained=4
        )
    mutation = MutationSettings(store="always") if version in ("v3", "v4") else MutationSettings(table="global")
    child = ChildSettings(mutation=mutation, components=ComponentSettings(blocks="ancestor"), data="generation")
    if version == "v4":
        return CycleSettings(child=child, score=_CODE)
    if version == "v3":
        scores = {"l": _CODE, "t0": ScoreSettings(scale=0.99, base_parameters=1e6, base_flops=1e6)}
        return CycleSettings(
            parents=ParentSettings(counted="own"),
            child=child,
            population=PopulationSettings(cap={"l": 16, "t0": 7}.get(size), ties="recent"),
            score=scores.get(size, _FREE),
            samples=16 if size in scores else 32,
        )
    first = version == "v1"
    return CycleSettings(
        parents=ParentSettings(fallback="untried" if first else "rotating", counted="own"),
        child=child,
        population=PopulationSettings(cap=None, ties="oldest" if first else "recent"),
        score=_FREE,
        samples=64 if first else 128,
    )


def _training(version: Version, size: str) -> dict[str, Any]:
    """Samples of a step, and how often a child is looked at; µ2Net and µ3Net keep the last of equal weights."""
    keep = {"keep": "reaches"} if version in ("v2", "v3") else {}
    published = {"momentum_format": "bfloat16", **keep}
    large = size == "l"
    if version in ("v4", "v4b"):
        return {**published, "batch": {"l": 16, "b": 256}.get(size, 512)}
    if version == "v3":
        course = {"batch": 16, "most_between": 100_000, "validations": 8} if large else {"most_between": 51_200}
        cap = {} if large else {"batch": 128 if size == "b" else 512, "validation_cap": 5_120}
        return {**published, **course, **cap, **({"validations": 2} if size == "t0" else {})}
    if version == "v2":
        return {**published, "batch": 64, "most_between": 128_116}
    decathlon = size in ("b", "l")
    batch = 256 if decathlon else 512
    return {
        **published,
        "batch": batch,
        "most_between": 51_200,
        "validations": 30 if decathlon else 5,
        "validation_cap": 10 * batch,
    }
