"""The state of a search that remembers every result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evodevo.errors import UsageError
from evodevo.search.base import Scored, SearchState
from evodevo.search.space import Space


@dataclass(frozen=True)
class SurrogateState(SearchState):
    """The state of a surrogate-assisted search.

    Attributes:
        archive: All results in the order of telling, failed ones included.
    """

    archive: tuple[Scored, ...] = ()

    def to_json(self, space: Space[Any]) -> dict[str, Any]:
        """See ``SearchState``."""
        rows = [
            {
                "id": one.id,
                "genome": space.to_json(one.genome),
                "values": None if one.values is None else list(one.values),
                "violation": one.violation,
                **({"share": one.share} if one.share < 1 else {}),
            }
            for one in self.archive
        ]
        return {**super().to_json(space), "archive": rows}

    @classmethod
    def from_json(cls, space: Space[Any], data: Any) -> SurrogateState:
        """See ``SearchState``."""
        state = super().from_json(space, data)
        assert isinstance(state, cls)
        try:
            archive = tuple(
                Scored(
                    str(row["id"]),
                    space.from_json(row["genome"]),
                    None if row["values"] is None else tuple(float(value) for value in row["values"]),
                    float(row["violation"]),
                    float(row.get("share", 1.0)),
                )
                for row in data["archive"]
            )
        except UsageError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"this is not the state of a search: {error!r}") from None
        if len(archive) != state.told:
            raise UsageError("this is not the state of a search: its archive and count disagree.")
        return replace(state, archive=archive)
