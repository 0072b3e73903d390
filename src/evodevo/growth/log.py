"""The log of a growth: all edits, and what is needed beside the blobs that they name to make them again.

Source: docs/spec/architect_thyself.md#edit-log.
"""

from __future__ import annotations

from dataclasses import dataclass

from evodevo import canonical
from evodevo.errors import DataError, UsageError
from evodevo.growth.edit_spec import Edit
from evodevo.growth.spec import BirthSettings
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.settings import validate

FORMAT = "evodevo.edits/1"
MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class Log:
    """What is written down of a growth.

    Attributes:
        start: modules before the first event.
        birth: how newborns come to be.
        edits: in order, refused ones too.
    """

    start: tuple[ZooModule, ...]
    birth: BirthSettings
    edits: tuple[Edit, ...]


def write_log(log: Log) -> bytes:
    """The bytes of its blob."""
    return canonical.dumps(
        {
            "format": FORMAT,
            "start": [one.model_dump(mode="json") for one in log.start],
            "birth": log.birth.model_dump(mode="json"),
            "edits": [one.model_dump(mode="json") for one in log.edits],
        }
    ).encode()


def read_log(data: bytes, *, what: str = "the log of edits", most_bytes: int = MOST_BYTES) -> Log:
    """The log of a growth, from the bytes of its blob.

    Args:
        data: the bytes.
        what: they are, for the message.
        most_bytes: more are refused.

    Raises:
        DataError: another version, or none of ours.
    """
    try:
        values = canonical.loads(data, what=what, max_bytes=most_bytes)
        version = values.get("format") if isinstance(values, dict) else None
        if version != FORMAT:
            raise DataError(f"{what} has the format {str(version)[:80]!r}; this evodevo reads {FORMAT!r}.")
        return Log(
            start=tuple(validate(ZooModule, one, what=f"{what}, a module") for one in values["start"]),
            birth=validate(BirthSettings, values["birth"], what=f"{what}, births"),
            edits=tuple(
                validate(Edit, one, what=f"{what}, edit {place}") for place, one in enumerate(values["edits"], 1)
            ),
        )
    except DataError:
        raise
    except (UsageError, LookupError, TypeError) as error:
        raise DataError(f"{what} cannot be read: {error}") from None
