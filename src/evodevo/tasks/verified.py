"""Digests of files that this worker has read already: prepared data are hashed once, not for each evaluation.

An evaluation is a process of its own, forked from its worker. What it has hashed it notes in the worker's folder, with
the file's identity and times; the next evaluation of this worker believes the note as long as these are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from evodevo.execution.environment import WORKER_FOLDER

SETTLED_SECONDS = 2.0
"""Age of the last change of a file before a note of it is made: a second change within one tick of its clock would not
show."""

_known: dict[str, str] = {}


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content, as 64 hexadecimal digits; from memory or a note where the file has not changed.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        identity = json.dumps([status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns])
        noted = _known.get(identity) or _noted(identity)
        if noted is not None:
            return noted
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if time.time() - max(status.st_mtime, status.st_ctime) > SETTLED_SECONDS:
        _known[identity] = digest
        _note(identity, digest)
    return digest


def _notes() -> Path | None:
    folder = os.environ.get(WORKER_FOLDER)
    return None if folder is None else Path(folder, "digests")


def _noted(identity: str) -> str | None:
    place = _notes()
    if place is not None:
        with suppress(OSError, ValueError):  # a line that was cut short is no note
            for line in place.read_text(encoding="ascii").splitlines():
                known, digest = line.split("\t")
                _known[known] = digest
    return _known.get(identity)


def _note(identity: str, digest: str) -> None:
    place = _notes()
    if place is not None:
        with suppress(OSError), place.open("a", encoding="ascii") as file:
            file.write(f"{identity}\t{digest}\n")
