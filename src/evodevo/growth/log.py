"""The log of a growth: all edits, and what is needed beside the blobs that they name to repeat them.

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
    """The log of one growth.

    Attributes:
        start: Modules before the first event.
        birth: Settings of births.
        edits: Edits in order, refused ones included.
    """

    start: tuple[ZooModule, ...]
    birth: BirthSettings
    edits: tuple[Edit, ...]


def write_log(log: Log) -> bytes:
    """The bytes of the log's blob."""
    return canonical.dumps(
        {
            "format": FORMAT,
            "start": [module.model_dump(mode="json") for module in log.start],
            "birth": log.birth.model_dump(mode="json"),
            "edits": [edit.model_dump(mode="json") for edit in log.edits],
        }
    ).encode()


def read_log(data: bytes, *, what: str = "the log of edits", most_bytes: int = MOST_BYTES) -> Log:
    """Read a log from the bytes of its blob.

    Args:
        data: Bytes of the blob.
        what: Name of the log in error messages.
        most_bytes: Largest size in bytes that is read.

    Raises:
        DataError: Another version, or no log of edits.
    """
    try:
        values = canonical.loads(data, what=what, max_bytes=most_bytes)
        version = values.get("format") if isinstance(values, dict) else None
        if version != FORMAT:
            raise DataError(f"{what} has the format {str(version)[:80]!r}; this evodevo reads {FORMAT!r}.")
        return Log(
            start=tuple(validate(ZooModule, module, what=f"{what}, a module") for module in values["start"]),
            birth=validate(BirthSettings, values["birth"], what=f"{what}, births"),
            edits=tuple(
                validate(Edit, edit, what=f"{what}, edit {place}") for place, edit in enumerate(values["edits"], 1)
            ),
        )
    except DataError:
        raise
    except (UsageError, LookupError, TypeError) as error:
        raise DataError(f"{what} cannot be read: {error}") from None
