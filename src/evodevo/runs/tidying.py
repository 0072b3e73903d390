"""Collection of what nothing holds while a run goes on, before the disk of its store is full."""

from __future__ import annotations

import shutil
import time
from typing import Any

from evodevo.search.members import Listener
from evodevo.storage import Store

MARK_BYTES = 2 << 30
"""Free bytes below which a store is tidied: some checkpoints of a large training, which are its largest blobs."""
PAUSE_SECONDS = 60.0
"""Seconds between two looks at the disk; blobs that were let go of are collected a minute later at the earliest."""


def tidied(store: Store, listener: Listener | None) -> Listener:
    """A listener that passes everything on, and tidies the store where its disk has become nearly full.

    Args:
        store: Store of the run, open for writing.
        listener: The listener; None for none.
    """
    looked = -PAUSE_SECONDS

    def listen(kind: str, facts: dict[str, Any]) -> None:
        nonlocal looked
        if listener is not None:
            listener(kind, facts)
        folder, now = store.blobs_folder, time.monotonic()
        if folder is None or now - looked < PAUSE_SECONDS:
            return
        looked = now
        if shutil.disk_usage(folder).free < MARK_BYTES:
            store.tidy()

    return listen
