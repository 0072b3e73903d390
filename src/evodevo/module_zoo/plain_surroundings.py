"""A zoo with little between the data and its modules, so that it learns even without one; no torch here.

Source: docs/module-zoo.md#a-nonlinear-patch-embedding. No part of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PLAIN_SURROUNDINGS: Mapping[str, Any] = {
    "extractor": {"blocks": 0, "activation": "relu"},
    "fusion": {"kind": "concat"},
    "losses": {"align": 0.0},
    "readout": 64,
}
"""Settings of ``ZooStructure``: patches with a function after them, inputs side by side, no loss of alignment, and a
layer before the heads. Measured in docs/results.md (2026-11-28)."""
