"""The table of kernels of other packages: what each computes, and where it may.

None is required, and none serves a CPU. A row loads its adapter, and the adapter its package, on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

from evodevo.registry import Registry, table

Served = Literal["scan", "delta", "taps", "band"]
"""What a kernel computes: ``recurrence.scan``, ``delta.delta_scan``, ``taps.causal_taps``, attention in a band."""


@dataclass(frozen=True)
class Kernel:
    """A row.

    Attributes:
        name: name of its function.
        serves: name of the computation that it replaces.
        classes: LIV classes that it is for, in words.
        package: import name of its package.
        load: function that gives its adapter, which takes what the library's own form takes.
        fits: function of the sizes of a call (see ``choice.kernel_for``): whether it is for them.
        formats: number formats of values.
        devices: types of devices.
        rounds: whether its float32 products round their factors to TF32, whatever PyTorch is told.
    """

    name: str
    serves: Served
    classes: str
    package: str
    load: Callable[[], Callable[..., Any]]
    fits: Callable[..., bool]
    formats: tuple[str, ...] = ("bfloat16", "float16", "float32")
    devices: tuple[str, ...] = ("cuda",)
    rounds: bool = False

    @property
    def installed(self) -> bool:
        """Whether its package can be found; nothing is imported."""
        try:
            return find_spec(self.package) is not None
        except (ImportError, ValueError):
            return False


KERNELS: Registry[Kernel] = table("kernel", "evodevo.kernels")


def _fla_scan() -> Callable[..., Any]:
    from evodevo.operators.kernels import adapters

    return adapters.fla_scan


def _fla_delta() -> Callable[..., Any]:
    from evodevo.operators.kernels import adapters

    return adapters.fla_delta


def _mamba_scan() -> Callable[..., Any]:
    from evodevo.operators.kernels import adapters

    return adapters.mamba_scan


def _conv1d_taps() -> Callable[..., Any]:
    from evodevo.operators.kernels import adapters

    return adapters.conv1d_taps


def _flex_band() -> Callable[..., Any]:
    from evodevo.operators.kernels import adapters

    return adapters.flex_band


RECURRENCES = "Rec-1, Mamba and their differential forms"
# States of fewer than 16 numbers per channel (Rec-2) would be padded to 16.
for _row in (
    Kernel(
        "chunk_simple_gla",
        "scan",
        RECURRENCES,
        "fla",
        _fla_scan,
        lambda tokens, state, head: tokens >= 64 and 16 <= state <= 256 and head <= 256,
        rounds=True,
    ),
    Kernel(
        "mamba_chunk_scan_combined",
        "scan",
        RECURRENCES,
        "mamba_ssm",
        _mamba_scan,
        lambda tokens, state, head: tokens >= 64 and 16 <= state <= 256 and head <= 256,
        rounds=True,
    ),
    Kernel(
        "chunk_gated_delta_rule",
        "delta",
        "GatedDelta",
        "fla",
        _fla_delta,
        lambda tokens, head: tokens >= 64 and 16 <= head <= 256,
        ("bfloat16", "float16"),
    ),
    Kernel(
        "causal_conv1d_fn",
        "taps",
        "every class with a short convolution",
        "causal_conv1d",
        _conv1d_taps,
        lambda tokens, taps, channels: 2 <= taps <= 4 and channels % 8 == 0,
    ),
    Kernel(
        "flex_attention",
        "band",
        "banded attention (12221 and its like)",
        "torch",
        _flex_band,
        lambda tokens, band, head: tokens >= 1024 and tokens % 128 == 0 and head in (16, 32, 64, 128),
    ),
):
    KERNELS.add(_row.name, _row)
