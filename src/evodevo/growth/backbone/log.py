"""The log of a growing backbone: what it began as, and every edit that was made or tried."""

from __future__ import annotations

from dataclasses import dataclass

from evodevo import canonical
from evodevo.backbone.spec import BackboneStructure
from evodevo.errors import DataError, UsageError
from evodevo.growth.backbone.records import BackboneEvent
from evodevo.settings import validate

FORMAT = "evodevo.backbone_edits/1"
MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class BackboneLog:
    """The log of one growth.

    Attributes:
        start: The structure before the first event.
        window: Tokens of a training window at the start.
        events: Events in order, refused ones included.
    """

    start: BackboneStructure
    window: int
    events: tuple[BackboneEvent, ...]


def write_log(log: BackboneLog) -> bytes:
    """The bytes of the log's blob."""
    return canonical.dumps(
        {
            "format": FORMAT,
            "start": log.start.model_dump(mode="json"),
            "window": log.window,
            "events": [event.model_dump(mode="json") for event in log.events],
        }
    ).encode()


def is_log(data: bytes) -> bool:
    """Whether these bytes are meant to be such a log, of whatever version."""
    return data[:MOST_BYTES].find(FORMAT.rpartition("/")[0].encode()) >= 0


def read_log(data: bytes, *, what: str) -> BackboneLog:
    """Read a log from the bytes of its blob.

    Args:
        data: Bytes of the blob.
        what: Name of the log in error messages.

    Raises:
        DataError: Another version, or no log of a growing backbone.
    """
    try:
        values = canonical.loads(data, what=what, max_bytes=MOST_BYTES)
        if values["format"] != FORMAT:
            raise DataError(f"{what} has the format {str(values['format'])[:80]!r}; this evodevo reads {FORMAT!r}.")
        return BackboneLog(
            start=validate(BackboneStructure, values["start"], what=f"{what}, the start"),
            window=int(values["window"]),
            events=tuple(validate(BackboneEvent, event, what=f"{what}, an event") for event in values["events"]),
        )
    except DataError:
        raise
    except (UsageError, LookupError, TypeError, ValueError) as error:
        raise DataError(f"{what} cannot be read: {error}") from None
