"""Edits of an event that a fork refused: they are undone, and recorded as refused."""

from __future__ import annotations

from evodevo.growth.edit_spec import Edit
from evodevo.growth.events.records import EventRecord, GrowthMemory


def withdrawn(
    record: EventRecord, memory: GrowthMemory, unedited: GrowthMemory, note: str
) -> tuple[EventRecord, GrowthMemory]:
    """Undo the edits of an event; its decisions stay, and are rewarded as they are.

    Args:
        record: Record of the event.
        memory: Memory after it.
        unedited: The memory as it were without the edits.
        note: Why; each edit is recorded as refused with it.

    Returns:
        The record, and the memory without the edits but for what the strategist learned and how often an edit around
        the modules was refused.
    """
    kept = {name: getattr(memory, name) for name in ("strategist", "strategist_blob")}
    around = [edit.action.operation for edit in record.edits if edit.surrounds]
    refused = {**unedited.refused, **{name: unedited.refused.get(name, 0) + 1 for name in around}}
    edits = tuple(_refused(edit, note) for edit in record.edits)
    return (
        record.model_copy(update={"edits": edits, "warms": False}),
        unedited.model_copy(update={**kept, "refused": refused}),
    )


def _refused(edit: Edit, note: str) -> Edit:
    """An edit that was undone; one that was refused before stays as it is."""
    if edit.module is None:
        return edit
    gone = {"module": None, "after": None, "tensors": (), "twin": False}
    gone |= dict.fromkeys(("in_place", "around", "weights"))
    return edit.model_copy(update={**gone, "note": f"refused: {note}"})
