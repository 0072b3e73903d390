"""Agents whose paths read texts: the same rules as for images (``singlepath.py``, ``multipath.py``), another family."""

from __future__ import annotations

from evodevo.multitask.agents.multipath import MultipathAgents
from evodevo.multitask.agents.singlepath import Singlepath

_FAMILY = "text_path"

TEXT = Singlepath("Text", "small", "small", _FAMILY)
TEXT_TINY = Singlepath("TextTiny", "tiny", "tiny", _FAMILY)
MULTI_TEXT = MultipathAgents("MultiText", "Text", _FAMILY)
MULTI_TEXT_TINY = MultipathAgents("MultiTextTiny", "TextTiny", _FAMILY)
