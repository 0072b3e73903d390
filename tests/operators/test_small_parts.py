"""Memoryless units, differential pairs, blocks and slabs."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from evodevo.operators.base import Slab, select_rows, used_bytes
from evodevo.operators.block import Block
from evodevo.operators.build import build_operator
from evodevo.operators.classes import OPERATORS, liv_classes
from evodevo.operators.differential import Differential
from evodevo.operators.liv import rms_normalise
from evodevo.operators.spec import Dimensions

DIMS = Dimensions(width=48, head_size=12)
LITERAL = [row.name for row in liv_classes().values() if row.differential == "literal"]


def test_memoryless_is_swiglu() -> None:
    torch.manual_seed(0)
    operator = build_operator(OPERATORS.get("GMemless").spec, DIMS)
    gate, up, down = nn.Linear(48, 128, bias=False), nn.Linear(48, 128, bias=False), nn.Linear(128, 48, bias=False)
    gate.weight, up.weight = operator.groups["gate"].weight, operator.groups["up"].weight  # type: ignore[index]
    down.weight = operator.out  # type: ignore[assignment]
    x = torch.randn(2, 5, 48)
    torch.testing.assert_close(operator(x).y, down(F.silu(gate(x)) * up(x)))


@pytest.mark.parametrize("name", LITERAL)
def test_equal_copies_leave_nothing(name: str) -> None:
    """docs/spec/star.md#differential-forms."""
    operator = build_operator(OPERATORS.get(name).spec, DIMS)
    assert isinstance(operator, Differential)
    x = torch.randn(2, 40, 48)
    assert float(operator(x).y.detach().abs().max()) > 0.1
    operator.second.load_state_dict(operator.first.state_dict())
    assert not bool(operator(x).y.any())


@pytest.mark.parametrize("name", LITERAL)
def test_a_silent_second_copy_leaves_the_plain_class(name: str) -> None:
    operator = build_operator(OPERATORS.get(name).spec, DIMS)
    assert isinstance(operator, Differential)
    with torch.no_grad():
        operator.second.out.zero_()
    plain = build_operator(OPERATORS.get(name.removesuffix("-Diff")).spec, DIMS)
    plain.load_state_dict(operator.first.state_dict())
    x = torch.randn(2, 9, 48)
    assert torch.equal(operator(x).y, plain(x).y)


def test_block_is_a_prenorm_residual() -> None:
    torch.manual_seed(0)
    block = Block(build_operator(OPERATORS.get("SA-1").spec, DIMS), 48)
    with torch.no_grad():
        block.norm.weight.uniform_(0.5, 2)
    x = torch.randn(2, 5, 48)
    normal = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * block.norm.weight
    torch.testing.assert_close(block(x).y, x + block.operator(normal).y)


def test_norm_is_torch_rms_norm_and_keeps_small_numbers() -> None:
    x, gain = torch.randn(3, 16), torch.rand(16)
    norm = nn.RMSNorm(16, eps=1e-6)
    norm.weight.data = gain
    torch.testing.assert_close(rms_normalise(x, gain), norm(x))
    assert rms_normalise(x.bfloat16(), gain.bfloat16()).dtype == torch.bfloat16
    assert bool(rms_normalise(torch.full((1, 4), 1e20), torch.ones(4)).isfinite().all())


def test_slab_appends_without_moving_what_is_there() -> None:
    slab = Slab((2, 0, 3), 1, 8, torch.float32, torch.device("cpu"))
    place = slab.buffer.data_ptr()
    pieces = [torch.randn(2, n, 3) for n in (3, 1, 0, 4)]
    for piece in pieces:
        slab.append(piece)
    assert slab.view().data_ptr() == place
    assert torch.equal(slab.view(), torch.cat(pieces, 1))
    slab.append(torch.ones(2, 1, 3))  # beyond the room: it grows, by doubling
    assert slab.buffer.shape[1] == 16
    assert torch.equal(slab.view(), torch.cat([*pieces, torch.ones(2, 1, 3)], 1))
    assert used_bytes({"slab": slab, "count": 5, "nothing": None}) == 2 * 9 * 3 * 4


def test_slab_copies_are_independent() -> None:
    slab = Slab((3, 0, 2), 1, 4, torch.float32, torch.device("cpu"))
    slab.append(torch.randn(3, 2, 2))
    before = slab.view().clone()
    copy = select_rows({"inner": {"slab": slab}, "seen": 2}, torch.tensor([2, 0]))
    copy["inner"]["slab"].append(torch.ones(2, 1, 2))
    copy["inner"]["slab"].view()[:] = 0
    assert torch.equal(slab.view(), before)
    assert copy["seen"] == 2


def test_slab_keeps_its_last_entries() -> None:
    slab = Slab((1, 0), 1, 2, torch.float32, torch.device("cpu"))
    for n in range(5):
        slab.append(torch.full((1, 1), float(n)))
        slab.keep_last(3)
    assert slab.view().tolist() == [[2.0, 3.0, 4.0]]
