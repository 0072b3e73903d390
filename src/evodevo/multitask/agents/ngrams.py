"""Agents whose paths read texts as bags of n-grams: the same rules as for images (``singlepath.py``, ``multipath.py``),
another family."""

from __future__ import annotations

from evodevo.multitask.agents.multipath import MultipathAgents
from evodevo.multitask.agents.singlepath import Singlepath

_FAMILY = "ngram_path"

NGRAM_TINY = Singlepath("NgramTiny", "tiny", "tiny", _FAMILY)
NGRAM_SMALL = Singlepath("NgramSmall", "small", "small", _FAMILY)
MULTI_NGRAM_TINY = MultipathAgents("MultiNgramTiny", "NgramTiny", _FAMILY)
MULTI_NGRAM_SMALL = MultipathAgents("MultiNgramSmall", "NgramSmall", _FAMILY)
