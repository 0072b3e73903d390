"""The common part of the costs of all networks of separate samples."""

from __future__ import annotations

from evodevo.errors import UsageError
from evodevo.operators.cost import Mode

WEIGHT_BYTES = 4


def check_pass(batch: int, mode: Mode) -> None:
    """Raise ``UsageError`` for a batch or a mode that networks of separate samples do not have."""
    if not 1 <= batch <= 1 << 20:
        raise UsageError(f"batch is {batch}; it must be 1 to {1 << 20}.")
    if mode == "decode":
        raise UsageError("the cost of one decoded token is known for backbones only; ask for prefill or train.")


def positions(of_inputs: int | None, given: int | None) -> int:
    """Positions of a sample: those of its inputs, or the given ones where there are no inputs.

    Raises:
        UsageError: neither, both, or out of range.
    """
    if of_inputs is not None and given is not None:
        raise UsageError("the inputs say how many positions there are; leave length out, or the inputs.")
    length = given if of_inputs is None else of_inputs
    if length is None:
        raise UsageError("give the inputs of the task, or the number of positions (length).")
    if not 1 <= length <= 1 << 24:
        raise UsageError(f"length is {length}; it must be 1 to {1 << 24}.")
    return length
