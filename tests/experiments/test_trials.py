"""Trainings as plain data: they travel, labels are not part of them, and nothing is searched."""

from __future__ import annotations

import numpy as np
import pytest

from evodevo.errors import GenomeError, UsageError
from evodevo.experiments.trials import FixedTrials, Trial, Variant, expand
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.stacks.stack import StackNetwork

SPACE = FixedTrials()
ARM = Trial(name="H-Model", role="h_model", network=HModelNetwork(), cell={"alpha": 0.3}, learning_rate=1e-3, seed=2)


def test_text_and_envelope_round_trip() -> None:
    assert SPACE.parse(SPACE.print(ARM)) == ARM
    assert SPACE.from_json(SPACE.to_json(ARM)) == ARM
    assert SPACE.title(ARM) == "H-Model, alpha 0.3, lr 0.001, seed 2"
    assert SPACE.join(SPACE.segments(ARM)) == ARM
    assert len({ARM, SPACE.parse(SPACE.print(ARM))}) == 1
    structure = HModelStructure(stream="paper", iterations=7, alpha=0.3, causal=True)
    arm = ARM.model_copy(update={"network": HModelNetwork(structure=structure)})
    assert SPACE.from_json(SPACE.to_json(arm)).network.structure == structure


def test_labels_are_no_part_of_a_training_and_all_else_is() -> None:
    labels = {"name": "other", "role": "control", "cell": {}, "parent": "0123"}
    assert SPACE.hash(ARM.model_copy(update=labels)) == SPACE.hash(ARM)
    changes = {
        "network": StackNetwork(),
        "learning_rate": 2e-3,
        "seed": 3,
        "task": {"nodes": 5},
        "training": {"batch_size": 2},
        "procedure": "extend",
        "options": {"layers": 2},
    }
    hashes = {SPACE.hash(ARM.model_copy(update={name: value})) for name, value in changes.items()}
    assert len(hashes | {SPACE.hash(ARM)}) == len(changes) + 1


def test_all_arms_come_before_the_second_seed() -> None:
    plans = [
        Variant(name="a", network=HModelNetwork()),
        Variant(name="b", network=StackNetwork(), learning_rates=(0.5,), cell={"T": 2.0}),
    ]
    found = [arm.title for arm in expand(plans, (0.1, 0.2), 2)]
    one = ["a, lr 0.1, seed {}", "a, lr 0.2, seed {}", "b, T 2, lr 0.5, seed {}"]
    assert found == [title.format(seed) for seed in (0, 1) for title in one]


def test_nothing_is_drawn_and_what_is_no_training_is_refused() -> None:
    rng = np.random.default_rng(0)
    for draw in (lambda: SPACE.sample(rng), lambda: SPACE.mutate(ARM, rng), lambda: SPACE.crossover(ARM, ARM, rng)):
        with pytest.raises(UsageError, match="given by its recipe"):
            draw()
    assert SPACE.repair(ARM, rng) is ARM
    for text in ("", "[]", "{}", "nonsense", '{"name": "x"}'):
        with pytest.raises(GenomeError):
            SPACE.parse(text)
