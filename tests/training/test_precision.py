"""Device and dtype, decided once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from evodevo.errors import UsageError
from evodevo.training.precision import decide


def test_auto_is_what_the_machine_has() -> None:
    assert decide("auto").device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert decide("cpu").device == torch.device("cpu")


@pytest.mark.parametrize("name", ["tpu", "cpu:1", "cuda:x", "", "cuda:-1"])
def test_an_unknown_device(name: str) -> None:
    with pytest.raises(UsageError, match="unknown device"):
        decide(name)


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="not on this machine"):
        decide("cuda:99")


def test_an_unknown_precision() -> None:
    with pytest.raises(UsageError, match="unknown precision 'float16'"):
        decide("cpu", "float16")


@pytest.mark.parametrize(("precision", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_autocast(precision: str, dtype: torch.dtype) -> None:
    with decide("cpu", precision).autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_a_batch_keeps_its_numbers_whatever_its_layout() -> None:
    batch = np.arange(12).reshape(3, 4)[:, ::2]
    assert decide("cpu").tensor(batch).tolist() == batch.tolist()
