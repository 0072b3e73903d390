"""Parts of a network that are half born, as a checkpoint keeps them: without them a network that is loaded would answer
as if all its parts were grown up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from evodevo.errors import UsageError

KEY = "newborns"


class HalfBorn(NamedTuple):
    """What ``newborns`` wrote.

    Attributes:
        births: part -> birth factor, 0 to 1.
        twins: newborn part -> the part whose weight it shares.
        beside: Whether newborns are added beside the gate of the others.
    """

    births: dict[str, float]
    twins: dict[str, str]
    beside: bool = False


def newborns(
    births: Mapping[Any, Any], twins: Mapping[str, str] | None = None, *, beside: bool = False
) -> dict[str, Any]:
    """For ``Network.state_extras``; empty where nothing is being born.

    Args:
        births: part -> birth factor, 0 to 1.
        twins: newborn part -> the part whose weight it shares.
        beside: Whether newborns are added beside the gate of the others.
    """
    factors = {str(part): float(factor) for part, factor in births.items()}
    more = {"beside": True} if beside else {}
    return {KEY: {"births": factors, "twins": dict(twins or {}), **more}} if factors else {}


def read_newborns(extras: Mapping[str, Any]) -> HalfBorn:
    """Births, twins and how newborns get their weight, for ``Network.take_state_extras``.

    Raises:
        UsageError: a birth factor outside [0, 1].
        LookupError, TypeError, AttributeError, ValueError: other than ``newborns`` writes it.
    """
    given = extras.get(KEY, {"births": {}, "twins": {}})
    births = {str(part): float(factor) for part, factor in given["births"].items()}
    twins = {str(child): str(parent) for child, parent in given["twins"].items()}
    if not all(0 <= factor <= 1 for factor in births.values()):
        raise UsageError("a birth factor lies in [0, 1].")
    return HalfBorn(births, twins, bool(given.get("beside", False)))
