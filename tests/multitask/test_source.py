"""A path of a system as one file of plain PyTorch: its classes answer as the components do, shared ones stored once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from evodevo.errors import UsageError
from evodevo.export.image_input import ImageInput
from evodevo.export.verify import probes
from evodevo.multitask.run.dense_export import DensePath
from evodevo.multitask.source.program import path_program
from evodevo.testing.exporters import IMAGE, ROWS, convolution_path, mlp_multipath, mlp_path, multipath, vision_path

LAYERS = {"encoderblock_0": {"kind": "mlp", "hidden": 6}}
NETWORKS: dict[str, Any] = {
    "path": lambda: vision_path(0),
    "grey path": lambda: vision_path(1, channels=1),
    "larger path": lambda: vision_path(2, layers=2, image_size=16),
    "relu": lambda: vision_path(3, activation="relu"),
    "layer of the library": lambda: vision_path(4, layers=2, blocks=LAYERS),
    "convolutions": convolution_path,
    "grey convolutions": lambda: convolution_path(1, channels=1, inner=1.5, image_size=20, grid=3, stride=1),
    "multipath": multipath,
    "skipping multipath": lambda: multipath(skip_below=0.3),
    "sum": lambda: multipath(aggregation="sum"),
}


def run_path(network: nn.Module) -> tuple[nn.Module, dict[str, str]]:
    """The network of its source, and the names that share a tensor with another one."""
    program = path_program(DensePath(network))
    assert max(map(len, program.text.splitlines())) <= 120
    names: dict[str, Any] = {"__file__": "model.py"}
    exec(compile(program.text, "model.py", "exec"), names)
    model, shared = names["Model"](), names["SHARED"]
    stored = dict(program.weights)
    model.load_state_dict(stored | {name: stored[first] for name, first in shared.items()}, assign=True)
    return model.eval(), shared


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
@torch.no_grad()
def test_the_source_answers_as_the_path(make: Any) -> None:
    network = make()
    model, _ = run_path(network)
    for image in (IMAGE, ImageInput(11, 7, 1)):
        batch = torch.from_numpy(probes(image, (5,))[0])
        wanted = DensePath(network)(batch)
        torch.testing.assert_close(model(batch), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


@pytest.mark.parametrize(
    "network",
    [mlp_path(), mlp_path(1, indicated=0, layers=0), mlp_path(2, inner=1.5), mlp_multipath()],
    ids=["path", "no blocks, no indicators", "wider blocks", "multipath"],
)
@torch.no_grad()
def test_the_source_of_rows_answers_as_the_path(network: nn.Module) -> None:
    model, _ = run_path(network)
    batch = torch.from_numpy(ROWS.probe(7))
    wanted = DensePath(network)(batch)
    torch.testing.assert_close(model(batch), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


def test_what_paths_share_is_stored_once_and_is_one_tensor() -> None:
    network = multipath()
    model, shared = run_path(network)
    assert shared
    assert all(name.startswith("paths.support_1.parts.") for name in shared)
    tensors = dict(model.named_parameters())
    assert all(tensors[name].data_ptr() == tensors[first].data_ptr() for name, first in shared.items())
    weights = path_program(DensePath(network)).weights
    assert not set(weights) & set(shared)
    assert sum(one.numel() for one in weights.values()) == sum(one.numel() for one in network.parameters())


def test_another_network_is_refused_with_one_sentence() -> None:
    with pytest.raises(
        UsageError,
        match=r"^a Linear has no source; exported are paths that read images or rows of numbers, and multipaths\.$",
    ):
        path_program(nn.Linear(2, 2))
