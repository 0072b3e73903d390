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


def test_what_is_not_known_or_not_there_is_refused() -> None:
    for name in ("tpu", "cpu:1", "cuda:x", "", "cuda:-1"):
        with pytest.raises(UsageError, match="unknown device"):
            decide(name)
    with pytest.raises(UsageError, match="not on this machine"):
        decide("cuda:99")
    with pytest.raises(UsageError, match="unknown precision 'float16'"):
        decide("cpu", "float16")


@pytest.mark.parametrize(("precision", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_autocast(precision: str, dtype: torch.dtype) -> None:
    with decide("cpu", precision).autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_arrays_keep_their_numbers_and_formats_whatever_their_layout() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    batch = {"x": x, "view": x[::2, ::-1], "pixels": x.astype(np.uint8)}
    placed = decide("cpu").place(batch)
    assert isinstance(placed, dict)
    assert [one.dtype for one in placed.values()] == [torch.float32, torch.float32, torch.uint8]
    for name, tensor in placed.items():
        assert np.array_equal(tensor.numpy(), batch[name])
    assert isinstance(decide("cpu").place(x), torch.Tensor)
    assert decide("cpu").tensor(batch["view"]).tolist() == batch["view"].tolist()
