"""A network put together from stored parts, and what it reads of samples that were made for others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from evodevo.errors import DataError, UsageError
from evodevo.multitask.paths.network.input import read_samples, sized
from evodevo.multitask.paths.network.model import Loose, NetworkPath, part_of
from evodevo.multitask.paths.network.spec import HEAD, NORM, NetworkInput
from fixtures.imports import small_structure

IMAGE = NetworkInput(name="image", modality="image", height=8, width=8, channels=1)
TEXT = NetworkInput(name="text", modality="tokens", length=4, vocabulary=256, tokenizer="bytes")


def nothing() -> list[torch.Tensor]:
    raise AssertionError("nobody asked for images")


def test_a_new_head_holds_every_class_equally_likely_and_its_seed_decides_the_rest() -> None:
    structure = small_structure().changed(classes=5)
    model, again = NetworkPath(structure, seed=1), NetworkPath(structure, seed=1)
    batch = {"image": torch.randint(0, 256, (3, 8, 8, 1), dtype=torch.uint8)}
    assert torch.equal(model(batch), torch.zeros(3, 5))
    assert list(model.components()) == ["inputs", "core", NORM, HEAD]
    for mine, other in zip(model.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(mine, other)
    assert NetworkPath(small_structure())(batch).shape == (3, 8)


def test_parts_take_weights_alone_or_out_of_a_blob_of_several() -> None:
    source, alone, packed = (NetworkPath(small_structure()) for _ in range(3))
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.normal_()
    together = {
        f"{role}/{name}": tensor
        for role, part in source.components().items()
        for name, tensor in part.state_dict().items()
    }
    for role, part in source.components().items():
        alone.put(role, part.state_dict())
        packed.put(role, together)
    batch = {"image": torch.randint(0, 256, (3, 8, 8, 1), dtype=torch.uint8)}
    with torch.no_grad():
        assert torch.equal(source(batch), alone(batch))
        assert torch.equal(source(batch), packed(batch))
    with pytest.raises(DataError, match="does not fit as 'core'"):
        alone.put("core", {"weight": torch.zeros(2)})


def test_loose_tensors_are_the_networks_own() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.register_buffer("count", torch.zeros(1))
            self.register_buffer("scratch", torch.zeros(1), persistent=False)
            self.inner = nn.Linear(2, 2)

    net = Net()
    loose = part_of(net, ".")
    assert isinstance(loose, Loose)
    assert set(loose.state_dict()) == {"scale", "count"}
    loose.load_state_dict({"scale": torch.full((3,), 2.0), "count": torch.ones(1)})
    assert torch.equal(net.scale, torch.full((3,), 2.0))
    assert float(net.count) == 1
    assert part_of(net, "inner") is net.inner
    with pytest.raises(UsageError, match="no part 'outer'"):
        part_of(net, "outer")


@given(st.integers(1, 20), st.integers(1, 20), st.sampled_from([1, 3]), st.sampled_from([1, 3]), st.integers(0, 255))
def test_a_plain_picture_stays_plain_at_any_size(height: int, width: int, has: int, wants: int, grey: int) -> None:
    wanted = IMAGE.model_copy(update={"channels": wants, "height": 6, "width": 9})
    found = sized(torch.full((2, has, height, width), float(grey)), wanted)
    assert found.dtype == torch.uint8
    assert torch.equal(found, torch.full((2, 6, 9, wants), grey, dtype=torch.uint8))


def test_a_picture_of_its_own_size_is_read_to_the_bit() -> None:
    raw = torch.randint(0, 256, (4, 8, 8, 1), dtype=torch.uint8)
    assert torch.equal(sized(raw.permute(0, 3, 1, 2).float(), IMAGE), raw)


def test_inputs_are_found_by_their_modality_and_then_by_their_name() -> None:
    batch: dict[str, Any] = {
        "a": np.arange(10).reshape(2, 5),
        "a/mask": np.ones((2, 5), bool),
        "text": np.zeros((2, 3), np.int64),
        "text/present": np.array([True, False]),
    }
    one = read_samples([TEXT], [("a", "tokens")], batch, nothing)
    assert {name: tuple(value.shape) for name, value in one.items()} == {"text": (2, 4), "text/mask": (2, 4)}
    both = read_samples([TEXT], [("a", "tokens"), ("text", "tokens")], batch, nothing)
    assert set(both) == {"text", "text/present"}
    named = TEXT.model_copy(update={"name": "other"})
    with pytest.raises(UsageError, match=r"'other'.*a \(tokens\), text \(tokens\)"):
        read_samples([named], [("a", "tokens"), ("text", "tokens")], batch, nothing)


def test_what_is_optional_or_unread_is_left_out() -> None:
    batch = {"x": np.zeros((2, 3), np.float32)}
    inputs = [
        NetworkInput(name="numbers", modality="vector", size=3),
        TEXT.model_copy(update={"use": "optional"}),
        IMAGE.model_copy(update={"use": "unread"}),
    ]
    assert set(read_samples(inputs, [("x", "vector")], batch, nothing)) == {"numbers"}
    with pytest.raises(UsageError, match="reads tokens as 'text'"):
        read_samples([inputs[0], TEXT], [("x", "vector")], batch, nothing)
