"""Memory against time: the same gradients to the bit, fewer bytes alive, and the automatic choice between the two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.backbone.model import Backbone
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UsageError
from evodevo.operators.base import Operator
from evodevo.operators.spec import Dimensions
from evodevo.testing.networks import small_backbone, text_batch
from evodevo.training.economy import BYTES_PER_PARAMETER, economise, training_bytes
from evodevo.training.live_bytes import LiveBytes
from evodevo.training.loop import train
from evodevo.training.precision import Precision
from evodevo.training.settings import Budget, TrainingSettings

CPU = Precision(torch.device("cpu"), None)
SPACE = BackboneSpace(BackboneSettings(depth=6, dimensions=Dimensions(width=32, head_size=8)))
SHARED = "11113 91111 11113 52111 52121 91111"
"""Two attentions and two recurrences that share features and featurizers, two gated units."""
LENGTH = 64


class Noisy(Operator):
    """A block whose operator drops channels at random."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, x: Tensor, **options: Any) -> Any:
        output = self.inside(x, **options)
        output.y = F.dropout(output.y, 0.3, self.training)
        return output

    def initial_state(self, *arguments: Any) -> dict[str, Any]:
        raise NotImplementedError


def backbone(genome: str = SHARED, *, noisy: bool = False) -> Backbone:
    model = small_backbone(SPACE, SPACE.parse(genome), 37, 0)
    if noisy:
        model.blocks = nn.ModuleList(Noisy(block) for block in model.blocks)
    return model.train()


def batch(samples: int = 2) -> Any:
    return text_batch(torch.randint(37, (samples, LENGTH + 1), generator=torch.Generator().manual_seed(1)))


def gradients(model: Backbone) -> dict[str, Tensor]:
    torch.manual_seed(7)
    model.zero_grad()
    model.loss(batch()).backward()  # type: ignore[no-untyped-call]
    torch.rand(1)
    return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


@pytest.mark.parametrize("noisy", [False, True])
def test_recomputed_gradients_are_the_same_bits_also_with_sharing_and_dropout(noisy: bool) -> None:
    model = backbone(noisy=noisy)
    plain = gradients(model)
    after = torch.get_rng_state()
    model.checkpointing = True
    again = gradients(model)
    assert plain.keys() == again.keys() == dict(model.named_parameters()).keys()
    assert all(torch.equal(plain[name], again[name]) for name in plain)
    assert torch.equal(torch.get_rng_state(), after), "recomputation does not move the generator"


def held(model: Backbone, samples: int = 2) -> int:
    """Bytes that the graph holds after a forward pass."""
    given = batch(samples)
    model.loss(given)  # tables of positions are made once and stay
    with LiveBytes() as counted:
        loss = model.loss(given)
        count = counted.now()
    del loss
    return count


def test_the_bytes_between_forward_and_backward() -> None:
    model = backbone("11111 91111 11112 91112 11113 91113")
    plain = held(model)
    assert held(model, 6) - held(model, 4) == held(model, 4) - plain > 0.9 * plain, "activations alone are counted"
    model.checkpointing = True
    with_blocks = held(model)
    # Of each block its input stays, (B, T, D) in float32; around them embedding, norm and loss.
    inputs = 6 * 2 * LENGTH * 32 * 4
    model.blocks = nn.ModuleList()
    model.wiring.plans, model.wiring._needs = (), []
    ends = held(model)
    assert inputs <= with_blocks - ends <= 1.1 * inputs
    assert plain - ends > 6 * inputs


def test_each_byte_alive_is_counted_once() -> None:
    given = torch.ones(100)
    with LiveBytes() as counted:
        a = given + 1  # 400 bytes
        b = a.view(10, 10)[:5]
        c = a * 2
        assert counted.now() == 800
        del a, c
        assert counted.now() == 400, "a view holds its storage"
        given.add_(1)
        assert counted.now() == 400, "what was there before is not counted"
        del b
    assert (counted.now(), counted.peak) == (0, 800)


def settings(**others: Any) -> TrainingSettings:
    return TrainingSettings(budget=Budget(steps=2), batch_size=4, device="cpu", **others)


def trained(model: Backbone, **others: Any) -> dict[str, Tensor]:
    memory = others.pop("memory_bytes", None)
    train(
        model,
        settings(**others),
        batch_at=lambda step: {name: value.numpy() for name, value in batch(4).items()},
        tokens_per_step=4 * LENGTH,
        seed=1,
        memory_bytes=memory,
    )
    return model.state_dict()


def test_settings_turn_it_on_and_a_training_is_the_same_to_the_bit() -> None:
    plain = trained(backbone())
    model = backbone()
    found = trained(model, checkpointing="blocks")
    assert model.checkpointing
    assert all(torch.equal(plain[name], found[name]) for name in plain)
    chunked = trained(model := backbone(), loss_tokens=50)
    assert model.loss_tokens == 50
    for name in plain:
        torch.testing.assert_close(plain[name], chunked[name], rtol=1e-4, atol=1e-5)
    assert any(not torch.equal(plain[name], chunked[name]) for name in plain), "another order of sums"


def test_automatic_is_where_the_memory_would_not_do() -> None:
    model = backbone()
    one = batch(1)
    model.loss(one)
    needed = training_bytes(model, 4, lambda: one, model.loss, CPU)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert needed == BYTES_PER_PARAMETER * count + 4 * held(model, 1)
    before = torch.get_rng_state()
    for available, wanted in ((needed, True), (2 * needed, False)):
        trained(model := backbone(), checkpointing="auto", memory_bytes=available)
        assert model.checkpointing is wanted
    # The limit is for all replicas together, each of which has its part of the samples.
    two = settings(checkpointing="auto", replicas=2).model_copy(update={"batch_size": 8})
    for available, wanted in ((2 * needed, True), (4 * needed, False)):
        model = backbone()
        economise(model, two, lambda: one, model.loss, CPU, available)
        assert model.checkpointing is wanted
    # Half of the samples at a time take half of the activations.
    trained(model := backbone(), checkpointing="auto", memory_bytes=needed, parts=4)
    assert not model.checkpointing
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_without_such_a_thing_says_so(tiny: Callable[..., nn.Module], batch_at: Any) -> None:
    for name, value in {"checkpointing": "blocks", "loss_tokens": 16}.items():
        with pytest.raises(UsageError, match=f"training.{name}={value} is for backbones, and a Tiny"):
            train(tiny(), settings(**{name: value}), batch_at=batch_at, tokens_per_step=24, seed=1)
    train(tiny(), settings(checkpointing="auto", loss_tokens="all"), batch_at=batch_at, tokens_per_step=24, seed=1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_recomputed_gradients_are_near_on_cuda() -> None:
    """Sums there may have another order each time."""
    model = backbone().cuda()
    given = {name: value.cuda() for name, value in batch().items()}
    plain = torch.autograd.grad(model.loss(given), list(model.parameters()))
    model.checkpointing = True
    for one, other in zip(plain, torch.autograd.grad(model.loss(given), list(model.parameters())), strict=True):
        torch.testing.assert_close(one, other)
