"""The peak is that of the time since it was forgotten."""

from __future__ import annotations

import pytest
import torch

from evodevo.experiments.peak_memory import forget_peak, peak_bytes
from evodevo.training.precision import decide

MEBIBYTE = 1 << 20


def test_a_peak_that_is_over_is_still_seen_and_then_forgotten() -> None:
    precision = decide("cpu")
    forget_peak(precision)
    before = peak_bytes(precision)
    held = torch.ones(100 * MEBIBYTE, dtype=torch.uint8)
    del held
    peak = peak_bytes(precision)
    assert peak - before > 90 * MEBIBYTE
    forget_peak(precision)
    assert peak - peak_bytes(precision) > 90 * MEBIBYTE


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_device_its_own_memory_counts() -> None:
    precision = decide("cuda")
    forget_peak(precision)
    before = peak_bytes(precision)
    held = torch.ones(100 * MEBIBYTE, dtype=torch.uint8, device="cuda")
    del held
    assert peak_bytes(precision) - before == 100 * MEBIBYTE
