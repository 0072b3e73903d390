"""Settings of edits in place, as plain data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evodevo.settings import Settings


class InPlaceSettings(Settings):
    """How a module is enlarged at its place.

    Attributes:
        factor: By how much ``widen`` multiplies the number of units, above 1; what a family does not have becomes its
            most, and a grid goes one step.
        units: What a new unit begins as. ``fresh``: it reads by weights as a new module has them, and nobody reads it
            yet. ``twins``: it is a copy of an old one, and both share what was read of that one (Net2Net).
        noise: By how much twins differ in what is read of them, as a multiple of a fresh module's spread; what one has
            more the other has less, so that their sum stays. Above 0, or they would stay equal.
    """

    factor: float = Field(default=2.0, gt=1, le=16)
    units: Literal["fresh", "twins"] = "fresh"
    noise: float = Field(default=0.1, gt=0, le=10)
