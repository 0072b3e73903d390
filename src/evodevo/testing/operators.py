"""The laws of every operator, as tests to inherit.

    class TestMine(OperatorTests):
        @pytest.fixture
        def case(self) -> OperatorCase:
            return OperatorCase(build=MyOperator, width=32)

``liv_case`` makes the case of a LIV class, with everything that its specification states.

Legend: B batch, T tokens, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.backbone.cost import backbone_cost
from evodevo.backbone.genome import plan_backbone
from evodevo.errors import UsageError
from evodevo.operators.base import Operator, Slab, select_rows, used_bytes
from evodevo.operators.build import build_operator
from evodevo.operators.classes import LIVClass
from evodevo.operators.spec import Dimensions

LENGTHS = (1, 2, 3, 31, 32, 33, 65)


@dataclass(frozen=True)
class OperatorCase:
    """One operator under test.

    Attributes:
        build: makes it, drawing its parameters from the global generator (which the suite seeds).
        width: D.
        parameters: number of trainable numbers that it states.
        state_bytes: (tokens seen, bytes of one activation) -> bytes of its state for one sequence, as it states them.
        leak: largest change by a later token in float64; above 0 only where a Fourier transform rounds.
        longest: largest number of tokens that it can read, or None.
    """

    build: Callable[[], Operator]
    width: int
    parameters: int | None = None
    state_bytes: Callable[[int, int], int] | None = None
    leak: float = 0.0
    longest: int | None = None

    def operator(self, dtype: torch.dtype = torch.float64, seed: int = 0) -> Operator:
        """The operator, with weights that depend on the seed alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build().to(dtype)

    def inputs(self, tokens: int, *, batch: int = 2, dtype: torch.dtype = torch.float64, seed: int = 1) -> Tensor:
        """(B, T, D) of unit size, as a norm would hand them on."""
        source = torch.Generator().manual_seed(seed)
        return torch.randn(batch, tokens, self.width, generator=source, dtype=torch.float64).to(dtype)


def liv_case(row: LIVClass, dims: Dimensions) -> OperatorCase:
    """The case of a LIV class; stated numbers come from the static cost of a backbone of this one LIV."""
    plans = plan_backbone(((row.number, 1, 1, 1, 1),), {row.number: row})
    norms = 2 * dims.width  # of the block and before the head

    def state_bytes(length: int, element_bytes: int) -> int:
        cost = backbone_cost(plans, dims, length=length, convention="actual", element_bytes=element_bytes)
        return cost.cache_bytes

    spec = row.spec
    long_filter = spec.structure == "toeplitz" and spec.groups["filter"].parametrisation == 3
    return OperatorCase(
        build=lambda: build_operator(spec, dims),
        width=dims.width,
        parameters=backbone_cost(plans, dims, length=1, convention="actual").parameters - norms,
        state_bytes=state_bytes,
        leak=1e-12 if long_filter else 0.0,
        longest=dims.max_length if spec.ends(dims) else None,
    )


class OperatorTests:
    """Inherit, and give the fixture ``case``."""

    @pytest.fixture
    def case(self) -> OperatorCase:
        """The operator under test; a subclass overrides it, with ``params`` for a table of them."""
        raise NotImplementedError

    # Order of time

    def test_later_tokens_change_nothing_before_them(self, case: OperatorCase) -> None:
        operator = _causal(case).requires_grad_(False)
        x = case.inputs(40)
        y = operator(x).y
        assert y.shape == x.shape
        for t in (0, 31, 32):
            other = x.clone()
            other[:, t] = case.inputs(1, seed=2)[:, 0]
            moved = (operator(other).y - y).abs()
            assert not bool((moved[:, :t] > case.leak).any()), "a later token changes what came before it"
            assert float(moved[:, t].max()) > 1e-6, "the operator is blind to its own token"

    def test_jacobian_is_block_triangular(self, case: OperatorCase) -> None:
        operator, tokens = _causal(case), 5
        x = case.inputs(tokens, batch=1)
        jacobian = torch.autograd.functional.jacobian(  # type: ignore[no-untyped-call]
            lambda u: operator(u).y, x, vectorize=True
        )
        blocks = jacobian[0, :, :, 0].abs().amax(dim=(1, 3))  # (T out, T in)
        assert float(blocks.triu(1).max()) <= case.leak
        assert float(blocks.diagonal().max()) > 0  # a ReLU may silence some tokens

    # One sequence, any pieces

    def test_steps_equal_one_call(self, case: OperatorCase) -> None:
        """Exactly in float64; in other types the steps of ``test_runs_and_trains_in`` are as near as the type is."""
        operator, x = _streamable(case), case.inputs(max(LENGTHS))
        with torch.no_grad():
            steps, _ = run_in_pieces(operator, x, [1] * x.shape[1])
            # Raw outputs have no fixed size (a product of three features reaches 50): absolute up to 1, relative above.
            tolerance = 1e-10 * max(1.0, float(steps.abs().max()))
            for length in LENGTHS:
                error = (operator(x[:, :length]).y - steps[:, :length]).abs().max()
                assert float(error) <= tolerance, length

    def test_any_split_equals_one_call(self, case: OperatorCase) -> None:
        operator, x = _streamable(case), case.inputs(70)
        with torch.no_grad():
            whole, reference = run_in_pieces(operator, x, [70])
            torch.testing.assert_close(whole, operator(x).y, rtol=0, atol=1e-10)
            for pieces in ([1, 69], [0, 2, 0, 31, 37, 0], [33, 1, 1, 35], [7] * 10):
                y, state = run_in_pieces(operator, x, pieces)
                torch.testing.assert_close(y, whole, rtol=0, atol=1e-10)
                assert_states_close(state, reference)

    def test_gradients_pass_through_pieces(self, case: OperatorCase) -> None:
        operator = _streamable(case)
        x = case.inputs(12).requires_grad_()
        parameters = [x, *operator.parameters()]
        whole = torch.autograd.grad(operator(x).y.square().sum(), parameters, allow_unused=True)
        y, _ = run_in_pieces(operator, x, [5, 1, 6])
        pieces = torch.autograd.grad(y.square().sum(), parameters, allow_unused=True)
        for a, b in zip(whole, pieces, strict=True):
            assert a is not None, "a parameter without any influence"
            assert b is not None
            torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)

    def test_length_zero_and_one(self, case: OperatorCase) -> None:
        operator = _streamable(case)
        x = case.inputs(4)
        with torch.no_grad():
            assert operator(x[:, :1]).y.shape == (2, 1, case.width)
            assert operator(x[:, :0]).y.shape == (2, 0, case.width)
            _, before = run_in_pieces(operator, x, [4])
            output = operator(x[:, :0], state=select_rows(before, torch.arange(2)))
            assert output.y.shape == (2, 0, case.width)
            assert_states_close(output.state, before)

    # Rows of a batch

    def test_rows_do_not_meet(self, case: OperatorCase) -> None:
        operator, x = _streamable(case), case.inputs(20, batch=3)
        with torch.no_grad():
            together, state = run_in_pieces(operator, x, [13, 7])
            for row in range(3):
                alone, own = run_in_pieces(operator, x[row : row + 1], [13, 7])
                torch.testing.assert_close(together[row : row + 1], alone, rtol=0, atol=1e-10)
                assert_states_close(select_rows(state, torch.tensor([row])), own)

    def test_left_padding_has_no_influence(self, case: OperatorCase) -> None:
        """Rows of different lengths in one batch: the same outputs and states, and the same sequel, as each alone."""
        operator = _streamable(case)
        lengths, width = (20, 13, 1), 20
        x, sequel = case.inputs(width, batch=3), case.inputs(6, batch=3, seed=3)
        mask = torch.arange(width).unsqueeze(0) >= width - torch.tensor(lengths).unsqueeze(1)
        other = torch.where(mask.unsqueeze(-1), x, case.inputs(width, batch=3, seed=4))
        with torch.no_grad():
            for padded, pieces in ((x, [width]), (other, [width]), (x, [3, 10, 0, 7])):
                y, state = run_in_pieces(operator, padded, pieces, mask)
                after, _ = run_in_pieces(operator, sequel, [1, 5], None, state=select_rows(state, torch.arange(3)))
                torch.testing.assert_close(
                    operator(padded, mask=mask).y[mask], y[mask], rtol=0, atol=1e-10, msg="with and without a state"
                )
                for row, length in enumerate(lengths):
                    alone, own = run_in_pieces(operator, x[row : row + 1, width - length :], [length])
                    torch.testing.assert_close(y[row : row + 1, width - length :], alone, rtol=0, atol=1e-10)
                    mine = select_rows(state, torch.tensor([row]))
                    assert_states_close(mine, own, padded=True)
                    rest, _ = run_in_pieces(operator, sequel[row : row + 1], [1, 5], None, state=own)
                    torch.testing.assert_close(after[row : row + 1], rest, rtol=0, atol=1e-10)

    def test_states_of_rows_can_be_chosen(self, case: OperatorCase) -> None:
        operator, x, sequel = _streamable(case), case.inputs(9, batch=3), case.inputs(4, batch=3, seed=5)
        rows = torch.tensor([2, 0, 0])
        with torch.no_grad():
            _, state = run_in_pieces(operator, x, [9])
            chosen, _ = run_in_pieces(operator, sequel, [1, 3], None, state=select_rows(state, rows))
            _, direct = run_in_pieces(operator, x[rows], [9])
            wanted, _ = run_in_pieces(operator, sequel, [1, 3], None, state=direct)
        torch.testing.assert_close(chosen, wanted, rtol=0, atol=1e-10)

    # Stated and counted

    def test_stated_parameters_are_counted(self, case: OperatorCase) -> None:
        if case.parameters is None:
            pytest.skip("states no number of parameters")
        assert sum(parameter.numel() for parameter in case.operator().parameters()) == case.parameters

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
    def test_stated_state_bytes_are_used(self, case: OperatorCase, dtype: torch.dtype) -> None:
        if case.state_bytes is None:
            pytest.skip("states no bytes")
        operator, batch = _streamable(case, dtype), 2
        for length in (1, 7, 40):
            with torch.no_grad():
                _, state = run_in_pieces(operator, case.inputs(length, dtype=dtype), [length])
            assert used_bytes(state) == batch * case.state_bytes(length, dtype.itemsize), length

    # Numbers

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
    def test_runs_and_trains_in(self, case: OperatorCase, dtype: torch.dtype) -> None:
        operator, exact = case.operator(dtype), case.operator(torch.float64)
        exact.load_state_dict(operator.state_dict())
        x = case.inputs(35, dtype=dtype).requires_grad_()
        y = operator(x).y
        assert y.dtype == dtype
        reference = exact(x.double()).y
        error = (y.double() - reference).detach().norm() / reference.detach().norm()
        assert float(error) < (0.05 if dtype == torch.bfloat16 else 1e-5)
        for gradient in torch.autograd.grad(y.float().square().mean(), [x, *operator.parameters()]):
            assert bool(gradient.isfinite().all())
        if operator.streamable:
            with torch.no_grad():
                steps, _ = run_in_pieces(operator, x, [20, *([1] * 15)])
            assert steps.dtype == dtype
            error = (steps.double() - reference.detach()).norm() / reference.detach().norm()
            assert float(error) < (0.05 if dtype == torch.bfloat16 else 1e-5)

    def test_refuses_to_run_past_its_end(self, case: OperatorCase) -> None:
        if case.longest is None:
            pytest.skip("has no end")
        operator, length = case.operator(), case.longest + 1
        with pytest.raises(UsageError, match=str(case.longest)):
            operator(case.inputs(length))
        with torch.no_grad():
            _, state = run_in_pieces(operator, case.inputs(case.longest), [case.longest])
            with pytest.raises(UsageError, match=str(case.longest)):
                operator(case.inputs(1), state=state)


def run_in_pieces(
    operator: Operator, x: Tensor, pieces: list[int], mask: Tensor | None = None, *, state: dict[str, Any] | None = None
) -> tuple[Tensor, dict[str, Any]]:
    """A sequence in pieces of these lengths, from a state (the initial one if left out, with room for nothing)."""
    assert sum(pieces) == x.shape[1], "the pieces are not the sequence"
    if state is None:
        state = operator.initial_state(x.shape[0], 0, x.dtype, x.device)
    outputs, start = [], 0
    for length in pieces:
        part = slice(start, start + length)
        output = operator(x[:, part], mask=None if mask is None else mask[:, part], state=state)
        outputs.append(output.y)
        state, start = output.state, start + length
        assert state is not None
    return torch.cat(outputs, 1), state


def assert_states_close(a: Any, b: Any, *, padded: bool = False) -> None:
    """Equal names and values; of a state with padding only what belongs to the last real tokens."""
    if isinstance(a, Mapping):
        assert set(a) == set(b)
        for name in a:
            if name not in ("seen", "valid"):
                assert_states_close(a[name], b[name], padded=padded)
        return
    if isinstance(a, Slab):
        a, b = a.view(), b.view()
        if padded:
            a = a[:, a.shape[1] - b.shape[1] :]
    torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


def _causal(case: OperatorCase) -> Operator:
    operator = case.operator()
    if not operator.causal:
        pytest.skip("is not causal")
    return operator


def _streamable(case: OperatorCase, dtype: torch.dtype = torch.float64) -> Operator:
    operator = case.operator(dtype)
    if not operator.streamable:
        pytest.skip("is not streamable")
    return operator
