"""Agents whose paths are convolutional: the same rules as for transformers (``singlepath.py``, ``multipath.py``)."""

from __future__ import annotations

from evodevo.multitask.agents.multipath import MultipathAgents
from evodevo.multitask.agents.singlepath import Singlepath

_FAMILY = "convolution_path"

CONV_TINY = Singlepath("ConvTiny", "tiny", "tiny", _FAMILY)
CONV_SMALL = Singlepath("ConvSmall", "small", "small", _FAMILY)
CONV_BASE = Singlepath("ConvBase", "base", "base", _FAMILY)
MULTI_CONV_TINY = MultipathAgents("MultiConvTiny", "ConvTiny", _FAMILY)
MULTI_CONV_SMALL = MultipathAgents("MultiConvSmall", "ConvSmall", _FAMILY)
MULTI_CONV_BASE = MultipathAgents("MultiConvBase", "ConvBase", _FAMILY)
