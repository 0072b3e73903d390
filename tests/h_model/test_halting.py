"""Samples that are sure leave the batch, and answer as if each had been alone (docs/spec/h_model.md#halting)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evodevo.h_model import halting
from evodevo.h_model.model import HModel
from evodevo.h_model.runners.choice import RunnerName
from evodevo.h_model.spec import HaltingStructure
from evodevo.networks.outputs import answer_losses
from evodevo.tasks.reasoning.pointer import PointerSettings, PointerTask
from evodevo.testing.networks import CLASS, NEXT, rows, small_batch, small_model
from evodevo.training.loop import train
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

RULES: list[dict[str, Any]] = [
    {"rule": "output_mass", "threshold": 0.7},
    {"rule": "act", "threshold": 0.7},
    {"rule": "ponder", "threshold": 0.7},
    {"rule": "kl", "threshold": 0.01},
]
NAMES = [rule["rule"] for rule in RULES]
RUNNERS: tuple[RunnerName, ...] = ("loop", "grouped")


def model_of(rule: dict[str, Any], *, causal: bool = False, **changes: Any) -> HModel:
    """Samples differ in when they are sure."""
    changes.setdefault("iterations", 6)
    outputs = (NEXT,) if causal else (CLASS,)
    model = small_model(outputs=outputs, halting=rule, causal=causal, lively=1.0, **changes).double()
    if model.unit is not None:
        with torch.no_grad():
            model.unit.linear.bias.fill_(-1.0)
            model.unit.linear.weight.normal_(generator=torch.Generator().manual_seed(2))
    for name, parameter in model.outputs.named_parameters():
        if name.endswith("head.weight"):
            parameter.data *= 50  # answers that move
    return model


def batch_of(*, causal: bool = False, count: int = 12, **options: Any) -> dict[str, Tensor]:
    return small_batch(outputs=(NEXT,) if causal else (CLASS,), count=count, **options)


def answer(model: HModel, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Logits, and iterations of each sample."""
    with torch.no_grad():
        (logits,) = model(batch).values()
    return logits, model.halting_counts


def alone_until_its_step(model: HModel, sample: dict[str, Tensor], last: int) -> Tensor:
    """The logits of one sample after so many iterations, with no rule and no other sample near it."""
    core, rule = model.core, model.structure.halting
    with torch.no_grad():
        messages = model.inputs(sample)
        flow = core.begin(messages.values, messages.masks, model.iterations)
        states, chances = [], []
        for _ in range(last):
            flow = core.iterate(flow)
            states.append(core.answer(flow))
            if model.unit is not None:
                chances.append(model.unit(states[-1], flow.y_masks))
        y = states[-1]
        if rule.rule == "act":
            weights, _ = halting.act_weights(chances, rule.threshold)
            y = torch.stack([state * weights[0, 0, t].to(state.dtype) for t, state in enumerate(states)]).sum(0)
        (logits,) = model.outputs(y, flow.y_masks, messages.places).values()
    return logits  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("rule", "padded", "runner"),
    [(rule, place % 2 == 0, RUNNERS[place // 2]) for place, rule in enumerate(RULES)]
    + [(RULES[0], False, "grouped"), (RULES[1], True, "grouped"), (RULES[3], False, "loop")],
    ids=str,
)
def test_a_batch_that_shrinks_answers_as_samples_alone(rule: dict[str, Any], padded: bool, runner: RunnerName) -> None:
    model, batch = model_of(rule), batch_of(padded=padded, count=8)
    model.runner = runner
    logits, counts = answer(model, batch)
    executed = model.core.runner.rows
    assert len(set(counts.tolist())) > 1, "a test of samples that all stop together shows nothing"
    assert executed == [int(counts.sum())] * 3, "who has left is not computed"
    trace = model.trace(batch)
    assert trace.steps.tolist() == counts.tolist()
    for place in range(len(logits)):
        sample = rows(batch, slice(place, place + 1))
        count = int(counts[place])
        assert trace.called[place, :count].all()
        assert not trace.called[place, count:].any()
        assert trace.connections[place, : count - 1].any((1, 2)).all()
        assert not trace.connections[place, count:].any()
        own, own_count = answer(model, sample)
        assert own_count.tolist() == [counts[place]]
        torch.testing.assert_close(logits[place : place + 1], own, rtol=1e-9, atol=1e-9)
        reference = alone_until_its_step(model, sample, count)
        torch.testing.assert_close(logits[place : place + 1], reference, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_positions_of_a_causal_model_decide_for_themselves(rule: dict[str, Any]) -> None:
    model, batch = model_of(rule, causal=True), batch_of(causal=True, padded=True, count=6)
    logits, counts = answer(model, batch)
    assert int(counts.min()) < 6, "nobody left"
    for place in range(len(logits)):
        length = int(batch["text/mask"][place].sum())
        whole, own_count = answer(model, rows(batch, slice(place, place + 1)))
        bare, bare_count = answer(model, {"text": batch["text"][place : place + 1, :length]})
        assert own_count.tolist() == bare_count.tolist() == [counts[place]], "padding keeps nobody thinking"
        torch.testing.assert_close(logits[place, :length], whole[0, :length], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(whole[:, :length], bare, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("division", ["t", "t_plus_1", "learned", "last"])
def test_who_has_left_is_divided_by_its_own_steps(division: str) -> None:
    model, batch = model_of(RULES[0], output_division=division), batch_of()
    logits, counts = answer(model, batch)
    assert len(set(counts.tolist())) > 1
    for place, count in enumerate(counts.tolist()):
        reference = alone_until_its_step(model, rows(batch, slice(place, place + 1)), count)
        torch.testing.assert_close(logits[place : place + 1], reference, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_halting_and_skipping_go_together(rule: dict[str, Any]) -> None:
    model, batch = model_of(rule, inference={"mode": "target_topm", "m": 1}), batch_of()
    answers = []
    for runner in RUNNERS:
        model.runner = runner
        logits, counts = answer(model, batch)
        answers.append(logits)
        assert sum(model.core.runner.rows) == int(counts.sum())
    torch.testing.assert_close(*answers, rtol=1e-9, atol=1e-9)


def test_a_threshold_out_of_reach_halts_nobody() -> None:
    _, counts = answer(model_of({"rule": "output_mass", "threshold": 1 - 1e-9}), batch_of())
    assert counts.tolist() == [6] * 12
    model = model_of({"rule": "output_mass", "threshold": 0.5}, iterations=0)
    _, counts = answer(model, batch_of(count=2))
    assert counts.tolist() == [0, 0]


# The arithmetic of halting


def chances_of(seed: int, steps: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return list(torch.rand(steps, 3, 2, generator=generator, dtype=torch.float64).clamp(0.02, 0.98))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 8), threshold=st.floats(0.05, 0.99))
def test_act_is_what_a_loop_makes_of_it(seed: int, steps: int, threshold: float) -> None:
    """Graves 2016, equations 5 to 9, sample by sample."""
    chances = chances_of(seed, steps)
    weights, cost = halting.act_weights(chances, threshold)
    for sample in range(3):
        for place in range(2):
            total, expected, price = 0.0, [0.0] * steps, 0.0
            for t in range(steps):
                chance = float(chances[t][sample, place])
                if total + chance >= threshold or t == steps - 1:
                    expected[t] = 1 - total
                    price = t + 1 + expected[t]
                    break
                expected[t] = chance
                total += chance
            assert weights[sample, place].tolist() == pytest.approx(expected)
            assert float(cost[sample, place]) == pytest.approx(price)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 8), prior=st.floats(0.05, 0.95))
def test_shares_and_priors_are_distributions(seed: int, steps: int, prior: float) -> None:
    shares = halting.shares(chances_of(seed, steps))
    torch.testing.assert_close(shares.sum(-1), torch.ones(3, 2, dtype=torch.float64))
    assert (shares >= 0).all()
    geometric = halting.geometric_prior(prior, steps, shares)
    assert float(geometric.sum()) == pytest.approx(1)
    assert float(halting.divergence(geometric.expand(3, 2, -1), geometric)) == pytest.approx(0, abs=1e-12)
    assert float(halting.divergence(shares, geometric)) >= -1e-12


def test_the_trained_loss_is_the_one_expected_under_the_shares() -> None:
    model, batch = model_of(RULES[0], iterations=3).train(), batch_of(count=4)
    messages = model.inputs(batch)
    flow = model.core.begin(messages.values, messages.masks, 3)
    losses, left, expected = [], torch.ones(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    assert model.unit is not None
    for t in range(3):
        flow = model.core.iterate(flow)
        y = model.core.answer(flow)
        logits = model.outputs(y, flow.y_masks, messages.places)["answer"]
        losses.append(answer_losses(CLASS, logits, batch["answer/target"]))
        chance = model.unit(y, flow.y_masks)[:, 0] if t < 2 else torch.ones(4, dtype=torch.float64)
        expected = expected + left * chance * losses[-1]
        left = left * (1 - chance)
    torch.testing.assert_close(model.loss(batch), expected.mean())


# What it is for


@pytest.mark.slow
def test_easy_samples_think_less_and_answers_stay() -> None:
    """Walks of 0 to 2 hops: fewer iterations than T on average, at most one point of accuracy lost."""
    task = PointerTask(PointerSettings(nodes=4, hops_min=0, hops_max=2))
    model = small_model(
        task.inputs,
        task.outputs,
        lively=0.0,
        width=32,
        hidden=[{"kind": "transformer", "heads": 4}] * 2,
        iterations=3,
        output_blocks=0,
        halting={"rule": "output_mass", "threshold": 0.3},
    )
    settings_ = TrainingSettings(
        budget=Budget(steps=350),
        optimizer=OptimizerSettings(learning_rate=3e-3, weight_decay=0.01),
        batch_size=32,
        device="cpu",
    )
    train(model, settings_, batch_at=lambda step: task.batch("train", 0, step, 32), tokens_per_step=32, seed=0)
    batch = {name: torch.from_numpy(array) for name, array in task.fetch("test", np.arange(1000)).items()}
    target = batch["answer/target"]
    model.eval()
    logits, counts = answer(model, batch)
    halted = float((logits.argmax(-1) == target).double().mean())
    model.structure = model.structure.model_copy(update={"halting": HaltingStructure()})
    logits, _ = answer(model, batch)
    whole = float((logits.argmax(-1) == target).double().mean())
    hops = torch.from_numpy(task.groups("test", np.arange(1000))["hops"])
    assert whole > 0.8, "a model that has learned nothing loses nothing"
    assert halted > whole - 0.01
    assert counts.double().mean() < 2.8
    assert counts[hops == 0].double().mean() < counts[hops == 2].double().mean()
