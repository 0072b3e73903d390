"""Agents whose paths read vectors and rows of tables: the same rules as for images (``singlepath.py``,
``multipath.py``), another family."""

from __future__ import annotations

from evodevo.multitask.agents.multipath import MultipathAgents
from evodevo.multitask.agents.singlepath import Singlepath

_FAMILY = "mlp_path"

MLP_TINY = Singlepath("MlpTiny", "tiny", "tiny", _FAMILY)
MLP_SMALL = Singlepath("MlpSmall", "small", "small", _FAMILY)
MLP_BASE = Singlepath("MlpBase", "base", "base", _FAMILY)
MULTI_MLP_TINY = MultipathAgents("MultiMlpTiny", "MlpTiny", _FAMILY)
MULTI_MLP_SMALL = MultipathAgents("MultiMlpSmall", "MlpSmall", _FAMILY)
MULTI_MLP_BASE = MultipathAgents("MultiMlpBase", "MlpBase", _FAMILY)
