"""Settings of edits around the modules, as plain data."""

from __future__ import annotations

from pydantic import Field

from evodevo.settings import Settings


class AroundSettings(Settings):
    """What lies around the modules afterwards, and how often it is tried.

    Attributes:
        hidden: Number of hidden units of the layer that ``add_readout`` puts before the heads, at least 1.
        tries: Number of times that forks may refuse such an edit before it is closed, at least 1.
    """

    hidden: int = Field(default=64, ge=1, le=65536)
    tries: int = Field(default=2, ge=1, le=1000)
