"""Half precision and matrix products as a processor without AVX-512 computes them.

The suite itself runs the same tests on the processor that it runs on.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
import torch

TESTS = Path(__file__).parent
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
"""Makes oneDNN and PyTorch take this processor for one without AVX-512; read when torch is imported."""

FILES = (
    "test_lstm_dtype.py",
    "test_layer_operators.py",
    "test_recurrence.py",
    "test_dense.py",
    "test_taps.py",
    "test_vision_path.py",
    "test_text_path.py",
    "test_layers.py",
    "test_zoo_modules.py",
    "test_h_grouped.py",
    "test_mixture.py",
)
"""Files by name, wherever in ``tests`` they lie."""

CHOSEN = "half_precision or autocast or lstm or dense or scan or loop or of_pytorch"
"""Tests in half precision, and tests that compare two ways to compute the same products."""

RUN = """
import sys, pytest, torch
assert torch.backends.cpu.get_cpu_capability() == "AVX2"
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"), reason="this processor has no AVX2"
)
def test_half_precision_and_products_need_no_avx_512() -> None:
    found = {name: [str(path) for path in sorted(TESTS.rglob(name))] for name in FILES}
    assert all(found.values()), found
    arguments = [*chain.from_iterable(found.values()), "-k", CHOSEN, "-m", "not slow and not gpu"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        capture_output=True,
        text=True,
        env=variables | AVX2 | {"OMP_NUM_THREADS": "1"},
        cwd=TESTS.parent,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 200
