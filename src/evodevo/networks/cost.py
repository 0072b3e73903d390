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
