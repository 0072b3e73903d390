"""A multipath child: the frozen paths that it reads, and the parts that it keeps of its parent's router and connectors.

Source: docs/spec/munet.md#multipath-children; µ4Net, section 2.2. Supports are kept by their place; one more path is
drawn, or the last is dropped, when ``num_paths`` moves. A place that changed hands begins with a new connector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from evodevo.errors import NotFoundError, UsageError
from evodevo.multitask.genome import Path, SubPath, Value
from evodevo.multitask.hyperparameters import MU, NUM_PATHS, Hyperparameters
from evodevo.multitask.paths.multipath_spec import ROUTER, connector
from evodevo.multitask.search.child import SharedData, mutate_values
from evodevo.multitask.search.components import ComponentPlan, ComponentSettings, Place, plan_components
from evodevo.multitask.search.mutation import Move, MutationDecision, MutationSettings, Mutator, matches
from evodevo.multitask.search.sampler import Evidence, SamplerSettings, agent_weights, draw
from evodevo.settings import Settings

if TYPE_CHECKING:
    import numpy as np

_NOTHING_KNOWN = Evidence()


class SupportSettings(Settings):
    """The draw of supports."""

    sampler: SamplerSettings = Field(default=SamplerSettings(), description="uniform, or informed")
    first: str | None = Field(
        default=None, description="agent whose path is always the first support (an ablation); None = drawn as others"
    )
    exclude: tuple[str, ...] = Field(
        default=("*~1k",), description="agents that are no supports; patterns with * for any text"
    )


class MultipathSettings(Settings):
    """The settings of multipath children."""

    mutation: MutationSettings = Field(
        default=MutationSettings(forced=()), description="actions and their rates; none is forced"
    )
    supports: SupportSettings = Field(default=SupportSettings(), description="draw of supports")


@dataclass(frozen=True)
class SupportChoice:
    """A support and the choice of it.

    Attributes:
        number: its place, from 1; the main path is at 0.
        path: the support.
        how: "kept" from the parent, "drawn", or "forced" by settings.
        candidates: number of paths that it was drawn from; 0 where it was kept.
        probability: probability of this one in that draw; None where it was kept.
    """

    number: int
    path: SubPath
    how: Literal["kept", "drawn", "forced"]
    candidates: int = 0
    probability: float | None = None


@dataclass(frozen=True)
class MultipathPlan:
    """The plan of a multipath child.

    Attributes:
        parent: id of the multipath path that it began with; None = it was drawn anew.
        main: the path it improves, with its head.
        supports: supports in the order of their places.
        hparams, mu, components, decisions, moves: as those of ``ChildPlan``.
    """

    parent: str | None
    main: SubPath
    supports: tuple[SupportChoice, ...]
    hparams: dict[str, Value]
    mu: dict[str, float]
    components: tuple[ComponentPlan, ...]
    decisions: tuple[MutationDecision, ...]
    moves: tuple[Move, ...]

    @property
    def paths(self) -> tuple[SubPath, ...]:
        """The main path and its supports."""
        return (self.main, *(support.path for support in self.supports))

    @property
    def own(self) -> bool:
        """Whether its parent is a path of the agent, so that its score is the child's bar."""
        return self.parent is not None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return (
            asdict(self)
            | {"main": self.main.model_dump(mode="json")}
            | {
                "supports": [
                    asdict(support) | {"path": support.path.model_dump(mode="json")} for support in self.supports
                ]
            }
        )


def draw_main(paths: Sequence[SubPath], rng: np.random.Generator) -> SubPath:
    """The main path of a child, drawn anew for each: a path improved in the meantime is picked up.

    Args:
        paths: paths of the task's singlepath agent.
        rng: draws one number.

    Raises:
        UsageError: there is none.
    """
    if not paths:
        raise UsageError("a multipath agent improves a singlepath agent's path; run one on its task first.")
    ordered = sorted(paths, key=lambda path: (path.agent, path.number))
    return ordered[draw([path.agent for path in ordered], None, rng)[0]]


def choose_supports(
    kept: Sequence[SubPath],
    count: int,
    main: SubPath,
    pool: Sequence[SubPath],
    rng: np.random.Generator,
    settings: SupportSettings,
    evidence: Evidence = _NOTHING_KNOWN,
) -> tuple[SupportChoice, ...]:
    """The supports of a child, of distinct agents and never of the main one.

    Args:
        kept: the parent's supports by place; those beyond ``count`` are dropped.
        count: number of supports.
        main: the main path.
        pool: published paths that can read the task's samples; their order does not matter.
        rng: draws one number for each path that is not kept.
        settings: settings of supports.
        evidence: evidence for an informed draw.

    Returns:
        ``count`` of them, or fewer where no agent is left to draw from.

    Raises:
        NotFoundError: the forced first support's agent has no path in the pool.
    """
    choices: list[SupportChoice] = []
    candidates = sorted({(path.agent, path.number): path for path in pool}.items())
    for number in range(1, count + 1):
        taken = {
            main.agent,
            *(choice.path.agent for choice in choices),
            *(choice.agent for choice in kept[number:count]),
        }
        forced = settings.first if number == 1 else None
        old = kept[number - 1] if number <= len(kept) else None
        if old is not None and old.agent not in taken and forced in (None, old.agent):
            choices.append(SupportChoice(number, old, "kept"))
            continue
        if forced is not None:
            rest = [path for _, path in candidates if path.agent == forced and path.agent != main.agent]
            if not rest:
                raise NotFoundError(f"the first support is to be a path of {forced!r}; no such path is in sight.")
        else:
            rest = [
                path for _, path in candidates if path.agent not in taken and not matches(path.agent, settings.exclude)
            ]
        if not rest:
            break
        names = [path.agent for path in rest]
        index, probability = draw(names, agent_weights(names, settings.sampler, evidence), rng)
        choices.append(
            SupportChoice(number, rest[index], "drawn" if forced is None else "forced", len(rest), probability)
        )
    return tuple(choices)


def plan_multipath_child(
    parent: Path | None,
    places: Sequence[Place],
    *,
    main: SubPath,
    pool: Sequence[SubPath],
    needs: Callable[[tuple[SubPath, ...]], Sequence[Place]],
    space: Hyperparameters,
    settings: MultipathSettings,
    rng: np.random.Generator,
    best: Path | None = None,
    shared: SharedData | None = None,
    evidence: Evidence = _NOTHING_KNOWN,
) -> MultipathPlan:
    """Plan a multipath child.

    Args:
        parent: a path of the agent, or None: a new structure with the best own path's values.
        places: the parent's router and connectors; none for a new structure.
        main: the main path (``draw_main``).
        pool: paths that may be supports.
        needs: router and connectors for these paths, the main one first.
        space: the tuned hyperparameters.
        settings: settings of multipath children.
        rng: generator of this child.
        best: the agent's best path; only a new structure takes its values, defaults where there is none.
        shared: data values of the generation; None = the child has its own.
        evidence: evidence for informed draws of supports.

    Raises:
        NotFoundError: see ``choose_supports``.
        UsageError: a value in no list, or no published path to be a support.
    """
    source = best if parent is None else parent
    rates = {} if source is None else source.mu
    known = {key: float(space.rates.values[space.rates.index(rate)]) for key, rate in rates.items()}
    mutator = Mutator({MU: space.default_mu()[MU]} | known, space.rates, rng, settings.mutation)
    values = mutate_values(space, {} if source is None else source.hparams, mutator, shared)
    kept = () if parent is None else parent.paths[1:]
    supports = choose_supports(kept, int(values[NUM_PATHS]) - 1, main, pool, rng, settings.supports, evidence)
    if not supports:
        raise UsageError("a multipath path needs a support: a path of another agent. The system has none in sight.")
    fresh = {connector(support.number) for support in supports if support.how != "kept"}
    if tuple(support.path for support in supports) != kept:
        fresh.add(ROUTER)  # with any change of supports, the shares begin anew (µ4Net, section 2.2.2)
    components = plan_components(
        needs((main, *(support.path for support in supports))),
        places,
        own=parent is not None,
        locked=lambda _: False,  # no other agent trains through a router or connector: they are always copied
        mutator=mutator,
        settings=ComponentSettings(),
        fresh=frozenset(fresh),
    )
    return MultipathPlan(
        None if parent is None else parent.id,
        main,
        supports,
        values,
        mutator.mu,
        components,
        tuple(mutator.decisions),
        tuple(mutator.moves),
    )
