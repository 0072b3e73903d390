"""Every row of ``MODEL_EXPORTERS`` keeps the promises of a format."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from evodevo.export.models.base import MODEL_EXPORTERS
from evodevo.testing.model_exporters import MIXED, ModelExporterTests

SHORT = {"pt2": "51111 81111", "onnx": "51111 71111"}
"""Tracing takes seconds per layer; ONNX Runtime cannot run a Fourier transform of any length."""
NEEDS = {"hf": "transformers", "onnx": "onnxruntime"}

for _name in MODEL_EXPORTERS.names():
    _genome = SHORT.get(_name, MIXED)
    _suite = type(f"Test_{_name}", (ModelExporterTests,), {"exporter": MODEL_EXPORTERS.get(_name), "genome": _genome})
    if _name in NEEDS and find_spec(NEEDS[_name]) is None:
        _suite = pytest.mark.skip(reason=f"{NEEDS[_name]} is not installed: pip install 'evodevo[{_name}]'")(_suite)
    globals()[f"Test_{_name}"] = _suite
