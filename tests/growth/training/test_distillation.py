"""A student comes to answer as its teacher (docs/spec/h_model.md#adding-and-removing-layers)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.growth.training.distillation import DistillationLoss, DistillationSettings, distil, divergence
from evodevo.h_model.extension import usage
from evodevo.networks.build import build_network
from evodevo.networks.stacks.spec import StackStructure
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.testing.networks import CLASS, LABELS, NEXT, TEXT, small_batch, small_model
from evodevo.training.settings import OptimizerSettings

FAST = OptimizerSettings(learning_rate=0.02, weight_decay=0.0)


def test_the_divergence_is_pytorchs() -> None:
    torch.manual_seed(0)
    student, teacher = torch.randn(5, 3), torch.randn(5, 3)
    expected = F.kl_div(
        (student / 2).log_softmax(-1), (teacher / 2).log_softmax(-1), log_target=True, reduction="batchmean"
    )
    torch.testing.assert_close(divergence(CLASS, student, teacher, 2.0), expected * 4)
    student, teacher = torch.randn(5, 2), torch.randn(5, 2)
    bernoulli = torch.distributions.Bernoulli
    both = torch.distributions.kl_divergence(bernoulli(logits=teacher), bernoulli(logits=student))
    torch.testing.assert_close(divergence(LABELS, student, teacher, 1.0), both.sum(-1).mean())
    assert divergence(CLASS, teacher, teacher, 3.0) == pytest.approx(0.0, abs=1e-6)


def test_padding_teaches_nothing() -> None:
    torch.manual_seed(0)
    student, teacher = torch.randn(2, 4, 11), torch.randn(2, 4, 11)
    real = torch.tensor([[True, True, False, False], [True, False, False, False]])
    expected = torch.stack([divergence(NEXT, student[r], teacher[r], 1.0) for r in [real]]).mean()
    torch.testing.assert_close(divergence(NEXT, student, teacher, 1.0, real), expected)


def data(step: int) -> dict[str, Any]:
    batch = small_batch((TEXT,), (CLASS, LABELS), count=16, seed=step)
    return {name: tensor.numpy() for name, tensor in batch.items()}


def held_out() -> dict[str, Tensor]:
    return small_batch((TEXT,), (CLASS, LABELS), count=64, seed=10_000)


@pytest.mark.slow
def test_removing_the_least_used_layer_is_made_good() -> None:
    teacher = small_model((TEXT,), (CLASS, LABELS), lively=0.2)
    with torch.no_grad():
        for name in ("answer", "tags"):
            teacher.get_parameter(f"outputs.layers.{name}.head.weight").mul_(50)
    student = copy.deepcopy(teacher)
    place = usage(student, [held_out()]).least()
    student.remove_node(place)
    loss = DistillationLoss(teacher)
    kept = {name: one.clone() for name, one in teacher.state_dict().items()}
    with torch.no_grad():
        before = loss(student.eval(), held_out())
    result = distil(teacher, student, data, 80, batch_size=16, seed=0, optimizer=FAST)
    with torch.no_grad():
        after = loss(student.eval(), held_out())
    assert result.state == "finished"
    assert after < 0.5 * before
    assert all(torch.equal(one, kept[name]) for name, one in teacher.state_dict().items())


@pytest.mark.slow
def test_a_network_of_another_kind_learns_too() -> None:
    teacher = small_model((TEXT,), (CLASS, LABELS))
    spec = StackNetwork(structure=StackStructure(width=8, layers=()))
    student = build_network(spec, teacher.input_specs, teacher.output_specs, seed=1)
    settings = DistillationSettings(representation=1.0, task=0.1)
    loss = DistillationLoss(teacher, settings)
    with torch.no_grad():
        before = loss(student.eval(), held_out())
    distil(teacher, student, data, 25, batch_size=16, seed=0, settings=settings, optimizer=FAST)
    with torch.no_grad():
        assert loss(student.eval(), held_out()) < before


def test_only_answers_need_no_targets() -> None:
    teacher, student = small_model(), small_model(seed=1)
    batch = {"text": small_batch()["text"]}
    DistillationLoss(teacher)(student, batch).backward()  # type: ignore[no-untyped-call]
    assert all(one.grad is None for one in teacher.parameters())
    assert any(one.grad is not None for one in student.parameters())


def test_who_cannot_teach() -> None:
    with pytest.raises(UsageError, match="nothing is distilled"):
        DistillationLoss(small_model(), DistillationSettings(answers=0.0))
    teacher, student = small_model(), small_model((TEXT,), (LABELS,))
    with pytest.raises(UsageError, match="does not answer 'tags'; it answers answer"):
        DistillationLoss(teacher)(student, small_batch())
    wide = small_model(width=16)
    with pytest.raises(UsageError, match="8 wide, the teacher's 16"):
        DistillationLoss(wide, DistillationSettings(representation=1.0))(small_model(), small_batch())
