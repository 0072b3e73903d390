"""The counted step against what autograd saves, against the static FLOPs, and the roofline's arithmetic."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.protocol.devices import PROFILES, DeviceProfile, profile_of
from evodevo.backbone.protocol.roofline import CountedStep, calibrate, count_step
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UsageError
from evodevo.networks.build import build_network
from evodevo.operators.spec import Dimensions
from evodevo.tasks.text.language import windows_of
from evodevo.testing.networks import text_batch
from evodevo.training.settings import Budget, TrainingSettings

pytestmark = pytest.mark.slow

SPACE = BackboneSpace(BackboneSettings(depth=8, dimensions=Dimensions(width=64)))
ENDS = windows_of(97, 64)
SAMPLES, LENGTH = 2, 64


def counted(name: str, *, recompute: bool = False, precision: str = "float32", length: int = LENGTH) -> CountedStep:
    training = TrainingSettings(budget=Budget(steps=1), precision=precision)
    network = BackboneNetwork.of(SPACE, SPACE.named(name))
    return count_step(network, *ENDS, training, samples=SAMPLES, length=length, recompute=recompute)


def saved_by_autograd(name: str, precision: str) -> int:
    """Storages that the hooks of saved tensors see in a real forward pass, without the weights."""
    model = build_network(BackboneNetwork.of(SPACE, SPACE.named(name)), *ENDS, 0).train()
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(x: Tensor) -> Tensor:
        kept.setdefault(x.untyped_storage().data_ptr(), x)
        return x

    batch = text_batch(torch.randint(97, (SAMPLES, LENGTH + 1)))
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x), autocast:
        loss = model.loss(batch)
    assert loss.requires_grad
    return sum(x.untyped_storage().nbytes() for address, x in kept.items() if address not in weights)


@pytest.mark.parametrize("name", ["transformer++", "striped-mamba"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_saved_bytes_are_those_of_autograd(name: str, precision: str) -> None:
    assert counted(name, precision=precision).saved == pytest.approx(saved_by_autograd(name, precision), rel=0.15)


def test_recomputing_saves_memory_and_takes_time() -> None:
    plain, again = counted("transformer++"), counted("transformer++", recompute=True)
    assert again.saved < plain.saved / 2
    assert again.memory < plain.memory
    assert 1.15 < again.flops / plain.flops < 1.4, "a forward pass more of three"


def test_flops_are_the_static_ones() -> None:
    """Attention's backward pass computes scores again, and the static cost is three forward passes."""
    for name in ("transformer++", "striped-mamba"):
        stated = SPACE.cost(
            SPACE.named(name), length=LENGTH, batch=SAMPLES, mode="train", convention="actual", vocabulary=97
        )
        assert counted(name).flops == pytest.approx(stated.flops, rel=0.1), name


def test_time_is_the_longest_of_bytes_flops_and_launch() -> None:
    device = DeviceProfile("d", None, bandwidth=10.0, single=100.0, half=1000.0, launch=0.5)
    assert device.seconds(20, 100, half=False) == 2.0
    assert device.seconds(10, 300, half=False) == 3.0
    assert device.seconds(10, 300, half=True) == 1.0
    assert device.seconds(0, 0, half=True) == 0.5
    step = CountedStep({(20, 100, False): 3, (0, 0, True): 2}, 0, 100, 10)
    assert step.seconds(device) == 7.0
    assert step.update_seconds(device) == 28.0
    assert step.memory == 220


def test_published_devices_are_sensible() -> None:
    for row in PROFILES.values():
        assert row.half > row.single > row.bandwidth > 0, row.name
    assert profile_of("h100").seconds(0, 989e12, half=True) == 1.0
    with pytest.raises(UsageError, match="a100"):
        profile_of("a1000")


def test_calibration_measures_this_device() -> None:
    found = calibrate(torch.device("cpu"), torch.float32)
    assert 1e7 < found.bandwidth < 1e13
    assert 1e8 < found.single < 1e15
    assert found.launch > 0
