"""Parts of a network that are half born, as a checkpoint keeps them: without them a network that is loaded would answer
as if all its parts were grown up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.errors import UsageError

KEY = "newborns"


def newborns(births: Mapping[Any, Any], twins: Mapping[str, str] | None = None) -> dict[str, Any]:
    """For ``Network.state_extras``; empty where nothing is being born.

    Args:
        births: part -> birth factor, 0 to 1.
        twins: newborn part -> the part whose weight it shares.
    """
    factors = {str(part): float(factor) for part, factor in births.items()}
    return {KEY: {"births": factors, "twins": dict(twins or {})}} if factors else {}


def read_newborns(extras: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Births and twins, for ``Network.take_state_extras``.

    Raises:
        UsageError: a birth factor outside [0, 1].
        LookupError, TypeError, AttributeError, ValueError: other than ``newborns`` writes it.
    """
    given = extras.get(KEY, {"births": {}, "twins": {}})
    births = {str(part): float(factor) for part, factor in given["births"].items()}
    twins = {str(child): str(parent) for child, parent in given["twins"].items()}
    if not all(0 <= factor <= 1 for factor in births.values()):
        raise UsageError("a birth factor lies in [0, 1].")
    return births, twins
