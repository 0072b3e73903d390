"""What a strategist and a reward are told about a zoo (eqs. 19, 65; docs/spec/architect_thyself.md#strategists)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from evodevo.growth.fitness import History, complementarity, diversity, novelty
from evodevo.growth.h_model.pool import PoolStructure
from evodevo.growth.probes import Probe
from evodevo.growth.rewards import Standing
from evodevo.growth.strategists.state import VALUES, ModuleState, State
from evodevo.module_zoo.modules.cost import genotype_parameters, genotype_work
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.module_zoo.modules.vector import LENGTH, genotype_vector


def state_of(
    structure: PoolStructure,
    probe: Probe,
    history: History,
    *,
    most: int,
    ages: Mapping[str, int],
    warming: Collection[str],
    candidates: Collection[str],
    values: Sequence[float],
    progress: float,
) -> State:
    """S_t, with modules in the order of the probe.

    Args:
        structure: of the zoo.
        probe, history: of this event.
        most: N_max.
        ages: id -> events that it has lived.
        warming: ids of newborns whose birth factor still rises.
        candidates: whom the prune rule wants gone.
        values: of the metric at all events so far, this one included.
        progress: share of the budget that is used up.
    """
    live = {module.id: module for module in structure.live}

    def of(one: str) -> ModuleState:
        genotype, past = live[one].genotype, history.modules[one]
        return ModuleState(
            id=one,
            archetype=genotype.archetype,
            vector=genotype_vector(genotype),
            parameters=genotype_parameters(genotype),
            # At a fixed length, so that what was learnt in one task can be read in another.
            flops=float(genotype_work(genotype, LENGTH).total),
            age=ages[one],
            usage=past.usage,
            impact=past.impact,
            contribution=past.contribution,
            fitness=past.fitness,
            spread=past.spread,
            redundancy=past.redundancy,
            dropout=_dropout(genotype),
            warming=one in warming,
            candidate=one in candidates,
        )

    return State(
        modules=tuple(of(one) for one in probe.ids),
        most=most,
        budget=max(0.0, 1.0 - progress),
        progress=min(1.0, progress),
        values=tuple(values[-VALUES:]),
        diversity=diversity(probe),
        complementarity=tuple(
            tuple(map(float, row)) for row in complementarity(probe, history.fitness).values.tolist()
        ),
    )


def standing_of(probe: Probe, history: History, cost: float, parameters: float = 0.0) -> Standing:
    """How a zoo stands; its FLOPs and its parameters are factors of what they were at the start."""
    return Standing(
        value=probe.accuracy,
        loss=probe.loss,
        cost=cost,
        novelty=novelty(history),
        diversity=diversity(probe),
        entropy=probe.entropy,
        parameters=parameters,
    )


def ages_of(modules: Sequence[ZooModule], event: int) -> dict[str, int]:
    """Id -> events that it has lived when that event comes."""
    return {module.id: event - module.birth_event for module in modules}


def _dropout(genotype: ModuleGenotype) -> float:
    """Of the units of a module, where its graph says; else of its attributes."""
    shares = [float(getattr(node, "dropout", 0.0)) for node in genotype.graph.nodes]
    return max(shares, default=0.0)
