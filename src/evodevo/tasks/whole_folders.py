"""A folder that is either there as a whole or not at all, whoever else writes it at the same time."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def put_whole(place: Path, fill: Callable[[Path], None], is_whole: Callable[[], bool]) -> None:
    """Make a folder beside its place and move it there at once.

    Args:
        place: where it shall be.
        fill: writes what belongs in the folder that it is given.
        is_whole: whether what stands at the place can be used; what cannot makes room.

    Raises:
        OSError: it cannot be written.
    """
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=place.parent) as scratch:
        fresh = Path(scratch, "entry")
        fresh.mkdir()
        fill(fresh)
        if place.exists() and not is_whole():
            os.rename(place, Path(scratch, "damaged"))
        try:
            os.rename(fresh, place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            # Another process was faster; its entry has the same key, hence the same content.
