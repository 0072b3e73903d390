"""Half precision and matrix products as a processor without AVX-512 computes them.

The suite itself runs the same tests on the processor that it runs on.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

TESTS = Path(__file__).parent
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
"""Makes oneDNN and PyTorch take this processor for one without AVX-512; read when torch is imported."""

FILES = (
    "h_model/runners/test_grouped.py",
    "module_zoo/baselines/test_mixture.py",
    "module_zoo/modules/test_nodes.py",
    "multitask/paths/test_text_path.py",
    "multitask/paths/test_vision_path.py",
    "operators/test_layer_operators.py",
    "operators/test_layers.py",
    "operators/test_lstm_dtype.py",
    "operators/test_recurrence.py",
    "operators/test_taps.py",
)

CHOSEN = "half_precision or autocast or lstm or scan or loop or of_pytorch"
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
    arguments = [*(str(TESTS / name) for name in FILES), "-k", CHOSEN, "-m", "not slow and not gpu"]
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
