"""Atomic creation of a folder, which is complete or absent, also with several processes that write it at once."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from evodevo.scratch import scratch


def put_whole(path: Path, fill: Callable[[Path], None], is_whole: Callable[[], bool]) -> None:
    """Fill a temporary folder beside the final path and rename it.

    Args:
        path: Final path of the folder.
        fill: Function that writes the contents into the given folder.
        is_whole: Function that checks whether an existing folder at the path is usable; else it is replaced.

    Raises:
        OSError: The folder cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with scratch(path.parent) as place:
        fresh = place / "entry"
        fresh.mkdir()
        fill(fresh)
        if path.exists() and not is_whole():
            os.rename(path, place / "damaged")
        try:
            os.rename(fresh, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            # Another process was faster; its entry has the same key, hence the same content.
