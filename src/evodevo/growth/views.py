"""Inputs of strategist and reward, computed from a probe (eqs. 19, 65; docs/spec/architect_thyself.md#strategists)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from evodevo.growth.fitness import FitnessHistory, complementarity, diversity, novelty
from evodevo.growth.growable import Growable
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.rewards import RewardState
from evodevo.growth.strategists.state import VALUES, ModuleState, State
from evodevo.module_zoo.modules.cost import genotype_parameters, genotype_work
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.vector import LENGTH, genotype_vector


def state_of(
    structure: Growable,
    probe: ModuleProbe,
    history: FitnessHistory,
    *,
    most: int,
    ages: Mapping[str, int],
    warming: Collection[str],
    candidates: Collection[str],
    values: Sequence[float],
    progress: float,
) -> State:
    """The state S_t, with modules in the order of the probe.

    Args:
        structure: Modules of the network.
        probe, history: Probe and history of this event.
        most: Largest number of modules, N_max.
        ages: Events since its birth, by id.
        warming: Ids of newborns whose birth factor still rises.
        candidates: Ids of the modules that the prune rule proposes.
        values: Metric at all events so far, this one included.
        progress: Share of the budget that is used up, 0 to 1.
    """
    live = {module.id: module for module in structure.live}

    def of(name: str) -> ModuleState:
        genotype, past = live[name].genotype, history.modules[name]
        dropouts = [float(getattr(node, "dropout", 0.0)) for node in genotype.graph.nodes]
        return ModuleState(
            id=name,
            archetype=genotype.archetype,
            vector=genotype_vector(genotype),
            parameters=genotype_parameters(genotype),
            # At a fixed length, so that what was learnt in one task applies to another.
            flops=float(genotype_work(genotype, LENGTH).total),
            age=ages[name],
            usage=past.usage,
            impact=past.impact,
            contribution=past.contribution,
            fitness=past.fitness,
            spread=past.spread,
            redundancy=past.redundancy,
            dropout=max(dropouts, default=0.0),
            warming=name in warming,
            candidate=name in candidates,
        )

    return State(
        modules=tuple(of(module_id) for module_id in probe.ids),
        most=most,
        budget=max(0.0, 1.0 - progress),
        progress=min(1.0, progress),
        values=tuple(values[-VALUES:]),
        diversity=diversity(probe),
        complementarity=tuple(
            tuple(map(float, row)) for row in complementarity(probe, history.fitness).values.tolist()
        ),
    )


def reward_state_of(probe: ModuleProbe, history: FitnessHistory, cost: float, parameters: float = 0.0) -> RewardState:
    """Metric, loss and costs of a network; FLOPs and parameters are multiples of those at the start."""
    return RewardState(
        value=probe.accuracy,
        loss=probe.loss,
        cost=cost,
        novelty=novelty(history),
        diversity=diversity(probe),
        entropy=probe.entropy,
        parameters=parameters,
    )


def ages_of(modules: Sequence[ZooModule], event: int) -> dict[str, int]:
    """Number of events from its birth to the given one, by id."""
    return {module.id: event - module.birth_event for module in modules}
