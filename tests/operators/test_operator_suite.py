"""The conformance suite finds what it is there to find: each broken operator fails the law that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.operators.base import Operator, Output
from evodevo.testing.operators import OperatorCase, OperatorTests

WIDTH = 6


class Smoothed(Operator):
    """y_t = W x_t + y_{t-1} / 2, with one bug at a time."""

    def __init__(self, bug: str | None = None) -> None:
        super().__init__()
        self.bug = bug
        self.weight = torch.nn.Parameter(torch.randn(WIDTH, WIDTH))
        if bug == "unused parameter":
            self.idle = torch.nn.Parameter(torch.zeros(3))

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        kept = x if mask is None or self.bug == "padding" else x * mask.unsqueeze(-1)
        inputs = kept @ self.weight.T
        last = x.new_zeros(x.shape[0], WIDTH) if state is None else state["last"]
        if self.bug == "rows":
            inputs = inputs + 0.01 * inputs.mean(0, keepdim=True)
        outputs = []
        for t in range(x.shape[1]):
            now = inputs[:, t] + last / 2
            if self.bug == "future" and t + 1 < x.shape[1]:
                now = now + 1e-9 * inputs[:, t + 1]
            if self.bug == "step" and x.shape[1] == 1:
                now = now + 1e-4
            if self.bug == "piece" and t == 0 and x.shape[1] > 1:
                now = inputs[:, t]
            last = now
            outputs.append(now)
        y = torch.stack(outputs, 1) if outputs else x
        if self.bug == "empty" and not outputs:
            y = x.new_zeros(x.shape[0], 1, WIDTH)
        if self.bug == "dtype":
            y = y.float() if y.dtype == torch.bfloat16 else y
        if self.bug == "detached":
            last = last.detach()
        return Output(y, {}, None if state is None else {"last": last})

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        return {"last": torch.zeros(batch, WIDTH, dtype=dtype, device=device)}


def case_of(bug: str | None) -> OperatorCase:
    return OperatorCase(
        build=lambda: Smoothed(bug),
        width=WIDTH,
        parameters=WIDTH * WIDTH,
        state_bytes=lambda length, element: WIDTH * element + (4 if bug == "stated bytes" else 0),
    )


class TestSound(OperatorTests):
    @pytest.fixture
    def case(self) -> OperatorCase:
        return case_of(None)


SUITE = OperatorTests()
BROKEN: dict[str, Callable[[OperatorCase], None]] = {
    "future": SUITE.test_later_tokens_change_nothing_before_them,
    "future ": SUITE.test_jacobian_is_block_triangular,
    "step": SUITE.test_steps_equal_one_call,
    "step ": lambda case: SUITE.test_runs_and_trains_in(case, torch.float32),
    "piece": SUITE.test_any_split_equals_one_call,
    "detached": SUITE.test_gradients_pass_through_pieces,
    "unused parameter": SUITE.test_gradients_pass_through_pieces,
    "unused parameter ": SUITE.test_stated_parameters_are_counted,
    "empty": SUITE.test_length_zero_and_one,
    "rows": SUITE.test_rows_do_not_meet,
    "padding": SUITE.test_left_padding_has_no_influence,
    "stated bytes": lambda case: SUITE.test_stated_state_bytes_are_used(case, torch.float32),
    "dtype": lambda case: SUITE.test_runs_and_trains_in(case, torch.bfloat16),
}


@pytest.mark.parametrize("bug", BROKEN)
def test_broken_operators_are_found(bug: str) -> None:
    with pytest.raises(AssertionError):
        BROKEN[bug](case_of(bug.strip()))


@pytest.mark.parametrize("flag", ["causal", "streamable"])
def test_laws_apply_where_the_flags_say_so(flag: str) -> None:
    def build() -> Operator:
        operator = Smoothed("future" if flag == "causal" else "step")
        setattr(operator, flag, False)
        return operator

    case = OperatorCase(build=build, width=WIDTH)
    laws: dict[str, Callable[[OperatorCase], None]] = {
        "causal": SUITE.test_later_tokens_change_nothing_before_them,
        "streamable": SUITE.test_any_split_equals_one_call,
    }
    with pytest.raises(pytest.skip.Exception):
        laws[flag](case)
