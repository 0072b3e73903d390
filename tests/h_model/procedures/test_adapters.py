"""Adapters of low rank: nothing changes at first, only they learn, and folded they are a plain network again."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from evodevo.errors import UsageError
from evodevo.h_model.procedures.adapters import adapt, fold
from evodevo.testing.networks import small_batch, small_model


@pytest.mark.parametrize("rank", [1, 3, 99])
def test_they_learn_alone_and_are_folded(rank: int) -> None:
    model, batch = small_model().double(), small_batch()
    names, before = set(model.state_dict()), model(batch)["answer"].detach()
    shapes = {name: tuple(one.shape) for name, one in model.named_parameters()}
    outer = [parameter for name, parameter in model.named_parameters() if name.startswith(("inputs.", "outputs."))]
    maps = adapt(model, rank, 5)
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert frozen == {f"{name}.parametrizations.weight.original" for name in maps}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".parametrizations.weight.0." in name)
    assert maps
    assert all(not name.startswith(("inputs.", "outputs.")) for name in maps)
    assert torch.equal(model(batch)["answer"], before)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    widths = [shapes[f"{name}.weight"] for name in maps]
    assert sum(one.numel() for one in learning) == sum(min(rank, n, m) * (n + m) for n, m in widths)
    optimizer = torch.optim.SGD(learning, lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        model.loss(batch).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    learned = model(batch)["answer"].detach()
    assert not torch.allclose(learned, before, atol=1e-4)
    assert all(parameter.grad is None for parameter in outer)
    fold(model)
    assert set(model.state_dict()) == names
    torch.testing.assert_close(model(batch)["answer"], learned)
    again = small_model().double()
    adapt(again, rank, 5)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), drawn(rank), strict=True)), "by the seed alone"


def test_a_network_without_a_linear_map_is_refused() -> None:
    with pytest.raises(UsageError, match="has none between inputs and outputs"):
        adapt(nn.ModuleDict({"inputs": nn.Sequential(nn.Linear(2, 2)), "hidden": nn.Conv1d(2, 2, 3)}), 2, 0)


def drawn(rank: int) -> list[torch.Tensor]:
    torch.manual_seed(99)
    model = small_model().double()
    adapt(model, rank, 5)
    return list(model.parameters())
