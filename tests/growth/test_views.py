"""What a strategist and a reward are told is what was measured (65; docs/spec/architect_thyself.md#strategists)."""

from __future__ import annotations

import numpy as np
import pytest

from evodevo.growth.fitness import FitnessHistory, assess, complementarity, diversity, novelty, relative_costs
from evodevo.growth.pairwise import Pairs
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.spec import FitnessSettings
from evodevo.growth.views import ages_of, reward_state_of, state_of
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.module_zoo.modules.vector import genotype_vector
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.spec import ZooStructure

WIDTH = 16
MODULES = tuple(one.model_copy(update={"birth_event": number}) for number, one in enumerate(start_zoo(WIDTH)[:4]))
STRUCTURE = GrowableZoo.of(ZooStructure(width=WIDTH, modules=MODULES))
IDS = tuple(one.id for one in MODULES)


def probe() -> ModuleProbe:
    rng = np.random.default_rng(0)
    numbers = rng.random((3, len(IDS)))
    return ModuleProbe(
        ids=IDS,
        samples=8,
        loss=0.9,
        accuracy=0.625,
        dense_loss=0.8,
        uniform_loss=1.0,
        entropy=0.7,
        usage=dict(zip(IDS, numbers[0].tolist(), strict=True)),
        impact=dict(zip(IDS, (numbers[1] - 0.5).tolist(), strict=True)),
        advantage=dict(zip(IDS, numbers[2].tolist(), strict=True)),
        alone={one: rng.random(8) < 0.5 for one in IDS},
        genotype_distance=Pairs.of_each(IDS, lambda a, b: 0.3 + 0.1 * len(a) / len(b + a)),
        output_distance=Pairs.of_each(IDS, lambda a, b: 0.4),
    )


def test_every_number_of_a_state_is_the_modules_own() -> None:
    seen = probe()
    costs = relative_costs({one.id: float(genotype_parameters(one.genotype)) for one in MODULES})
    history = assess(assess(FitnessHistory(), seen, costs, FitnessSettings()), seen, costs, FitnessSettings())
    ages = ages_of(MODULES, 7)
    assert ages == {one: 7 - number for number, one in enumerate(IDS)}
    values = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    state = state_of(
        STRUCTURE,
        seen,
        history,
        most=9,
        ages=ages,
        warming=(IDS[1],),
        candidates=(IDS[2],),
        values=values,
        progress=0.3,
    )
    assert [one.id for one in state.modules] == list(IDS)
    for one, module in zip(state.modules, MODULES, strict=True):
        past = history.modules[one.id]
        assert one.vector == genotype_vector(module.genotype)
        assert one.parameters == genotype_parameters(module.genotype)
        assert one.archetype == module.genotype.archetype
        for name in ("usage", "impact", "contribution", "fitness", "spread", "redundancy"):
            assert getattr(one, name) == getattr(past, name), name
        assert len({past.usage, past.impact, past.contribution, past.fitness, past.redundancy}) == 5
        assert one.age == ages[one.id]
        assert (one.warming, one.candidate) == (one.id == IDS[1], one.id == IDS[2])
        assert one.dropout == pytest.approx(0.1 if module.genotype.attributes.get("dropout") else 0.0)
    assert state.budget == pytest.approx(0.7)
    assert (state.progress, state.most) == (0.3, 9)
    assert state.values == values[1:]
    assert state.diversity == diversity(seen)
    np.testing.assert_allclose(state.complementarity, complementarity(seen, history.fitness).values)
    larger = max(MODULES, key=lambda one: genotype_parameters(one.genotype)).id
    assert state.modules[state.place(larger)].flops > 0


def test_a_reward_state_is_of_the_zoo_as_it_answers() -> None:
    seen = probe()
    history = assess(FitnessHistory(), seen, dict.fromkeys(IDS, 1.0), FitnessSettings())
    found = reward_state_of(seen, history, 1.25, 1.5)
    assert found.parameters == 1.5
    assert (found.value, found.loss, found.cost, found.entropy) == (0.625, 0.9, 1.25, 0.7)
    assert found.novelty == novelty(history)
    assert found.diversity == diversity(seen)
