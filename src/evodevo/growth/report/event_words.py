"""What happened at an event of a growth, in a line; no torch here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evodevo.growth.edit_spec import Edit
    from evodevo.growth.events.records import EventRecord

CHANGES = ("born", "gone", "edited", "refused")


def changes_of(record: EventRecord) -> dict[str, Any]:
    """What a progress display is sent of an event: its number, and lists by name in ``CHANGES``."""
    moved = {*record.born, *record.gone}
    made = [edit for edit in record.edits if edit.module is not None and edit.module not in moved]
    refused = [edit for edit in record.edits if edit.module is None]
    lists = {"born": record.born, "gone": record.gone, "edited": _words(made), "refused": _words(refused)}
    return {"event": record.number, **{name: list(values) for name, values in lists.items()}}


def event_words(event: Mapping[str, Any]) -> str:
    """``event 3: lstm-3-0 born, mlp-1 gone``; ``event 1: map_positions refused``."""
    parts = [f"{', '.join(map(str, event[what]))} {what}" for what in CHANGES if event.get(what)]
    return f"event {event.get('event')}: {', '.join(parts) or 'nothing changed'}"


def _words(edits: Iterable[Edit]) -> list[str]:
    return [edit.action.words for edit in edits]
