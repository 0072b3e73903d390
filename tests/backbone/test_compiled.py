"""Blocks are compiled once for each class and shape, whatever network they are in, and compute the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.backbone import compiled
from evodevo.backbone.compiled import BlockCompiler
from evodevo.backbone.model import Backbone
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UsageError
from evodevo.operators.spec import Dimensions
from evodevo.testing.networks import small_backbone, text_batch
from evodevo.training.loop import train
from evodevo.training.settings import Budget, TrainingSettings

SPACE = BackboneSpace(BackboneSettings(depth=4, dimensions=Dimensions(width=32, head_size=8)))
SHARING, PLAIN = "11113 91111 11113 91112", "11111 91111 11112 91112"
"""The second of two attentions borrows keys and values; two attentions that share nothing."""


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> BlockCompiler:
    """The compiler of this process, new."""
    fresh = BlockCompiler("eager")
    monkeypatch.setattr(compiled, "_COMPILERS", {"eager": fresh})
    return fresh


def backbone(genome: str, seed: int = 0) -> Backbone:
    return small_backbone(SPACE, SPACE.parse(genome), 37, seed).train()


def batch(length: int = 12) -> Any:
    return text_batch(torch.randint(37, (2, length + 1), generator=torch.Generator().manual_seed(1)))


def gradients(model: Backbone, length: int = 12) -> list[Tensor]:
    loss = model.loss(batch(length))
    return [loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))]


def compare(model: Backbone, length: int = 12) -> None:
    """Compiled and plain."""
    plain = gradients(model, length)
    model.compiled = "eager"
    for one, other in zip(plain, gradients(model, length), strict=True):
        torch.testing.assert_close(one, other)


def test_the_second_network_of_the_same_classes_compiles_nothing(eager: BlockCompiler) -> None:
    compare(backbone(PLAIN))
    assert eager.compilations == 2, "two classes in four blocks"
    compare(backbone("91111 11111 91112 11112", seed=3))
    assert eager.compilations == 2, "another genome of these, with other weights"
    compare(backbone(SHARING))
    assert eager.compilations == 3, "what lends is the same code as what keeps; the borrower is new"


def test_another_shape_is_compiled_and_a_known_one_is_not(eager: BlockCompiler) -> None:
    for length, wanted in ((12, 2), (7, 4), (12, 4), (7, 4)):
        compare(backbone(PLAIN), length)
        assert eager.compilations == wanted


def test_it_goes_with_recomputation_and_without_gradients_nothing_is_compiled(eager: BlockCompiler) -> None:
    model = backbone(SHARING)
    model.checkpointing = True
    compare(model)
    count = eager.compilations
    with torch.no_grad():
        model.next_logits(batch()["text"])
    assert eager.compilations == count
    assert model.continue_text(batch()["text"], 2).shape == (2, 2)


@pytest.mark.slow
def test_many_classes_are_not_too_many(eager: BlockCompiler) -> None:
    """Dynamo keeps at most eight graphs for one code object."""
    for name in range(1, 9):
        model = backbone(f"{name}1111 {name}1112 91111 91112")
        model.compiled = "eager"
        gradients(model)
    count = eager.compilations
    assert count == 9
    again = backbone("91111 11111 81111 71111")
    again.compiled = "eager"
    gradients(again)
    assert eager.compilations == count


def test_the_setting_turns_it_on(eager: BlockCompiler) -> None:
    def trained(**others: Any) -> dict[str, Tensor]:
        model = backbone(PLAIN)
        settings = TrainingSettings(budget=Budget(steps=2), batch_size=2, device="cpu", **others)
        given = {name: value.numpy() for name, value in batch().items()}
        train(model, settings, batch_at=lambda step: given, tokens_per_step=24, seed=1)
        return model.state_dict()

    plain = trained()
    assert eager.compilations == 0
    found = trained(compile="eager")
    assert eager.compilations == 2
    for name, value in plain.items():
        torch.testing.assert_close(found[name], value)


def test_other_networks_have_no_such_thing() -> None:
    settings = TrainingSettings(budget=Budget(steps=2), batch_size=2, device="cpu", compile="inductor")
    with pytest.raises(UsageError, match="compile=inductor is for backbones"):
        train(torch.nn.Linear(2, 2), settings, batch_at=lambda step: batch(), tokens_per_step=24, seed=1)
