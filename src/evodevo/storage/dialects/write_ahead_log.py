"""Damage to the write-ahead log of a SQLite database, which SQLite itself leaves out without a word.

A log is a header and frames, each a page with a checksum over everything before it. SQLite reads up to the last commit
before the first frame whose checksum is wrong: that is how the end of a write that was cut short is told from data, and
so one changed bit hides all transactions behind it. A transaction is written after the one before it was synchronised
to the disk (``synchronous=FULL``). Where frames of a later transaction lie behind a commit behind the first wrong
frame, that frame was written whole, and something has changed it since. A change inside the last transaction looks as
one that was cut short, and is not told from it.

Source: https://sqlite.org/fileformat2.html#the_write_ahead_log.

Legend: F frames, W words of 32 bits, in pairs.
"""

from __future__ import annotations

import struct
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from evodevo.errors import StoreDamagedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HEADER, FRAME_HEADER = 32, 24
MAGICS = (0x377F0682, 0x377F0683)
"""First number of a log whose checksums read words with the low byte first, and with the high byte first."""
LOOKS, PAUSE = 5, 0.02
"""How often a log has to be wrong in the same way, and seconds between: another process may be writing it."""


def beside(database: Path) -> Path:
    """The log of a database."""
    return database.with_name(database.name + "-wal")


def refuse_damaged(database: Path) -> None:
    """Refuse a database whose log has lost transactions that were there.

    Raises:
        StoreDamagedError: It has.
    """
    found = None
    for look in range(LOOKS):
        if look:
            time.sleep(PAUSE)
        seen = _look(beside(database))
        if seen is None or (look and seen != found):
            return
        found = seen
    assert found is not None, "looked"
    raise StoreDamagedError(
        f"{beside(database)} is damaged at byte {found[0]:,}: transactions behind it are there and cannot be read. Put "
        "a backup back (backups/), or go on without them: evodevo store repair."
    )


def _look(log: Path) -> tuple[int, bytes] | None:
    """The first damaged byte range, and what lies there; None where nothing is damaged."""
    try:
        data = log.read_bytes()
    except OSError:
        return None  # none is there, or SQLite says why it cannot be read
    place = first_damage(data)
    return None if place is None else (place, data[:HEADER] + data[place : place + FRAME_HEADER])


def first_damage(data: bytes) -> int | None:
    """Offset in bytes of the header or frame that was changed after it was written; None where none is known to be.

    Args:
        data: Contents of a log.
    """
    if len(data) <= HEADER or not data.strip(b"\0"):
        return None  # empty, or set aside on the disk and never written, as a loss of power may leave it
    magic, _, size, _, *salts, first, second = struct.unpack(">8I", data[:HEADER])
    known = magic in MAGICS and 512 <= size <= 65536 and not size & (size - 1)
    order = ">u4" if magic & 1 else "<u4"
    if not known or _chain((0, 0), _pairs(data[:FRAME_HEADER], order)) != (first, second):
        return 0
    count = (len(data) - HEADER) // (FRAME_HEADER + size)
    if not count:
        return None
    return _first_in_frames(data, count, size, (salts[0], salts[1]), (first, second), order)


def _first_in_frames(
    data: bytes, count: int, size: int, salts: tuple[int, int], checksum: tuple[int, int], order: str
) -> int | None:
    import numpy as np

    frames = np.frombuffer(data, np.uint8, count * (FRAME_HEADER + size), HEADER).reshape(count, FRAME_HEADER + size)
    heads = np.ascontiguousarray(frames[:, :FRAME_HEADER]).view(">u4").astype(np.int64)  # (F, 6)
    current = (heads[:, 2] == salts[0]) & (heads[:, 3] == salts[1])
    commits = np.flatnonzero(current & (heads[:, 1] != 0))
    words = np.concatenate([frames[:, :8], frames[:, FRAME_HEADER:]], 1)
    sums = _sums(np.ascontiguousarray(words).view(order).astype(np.uint64))
    for frame in range(count):
        if current[frame]:
            checksum = _step(checksum, words.shape[1] // 8, sums[frame])
        if not current[frame] or checksum != (heads[frame, 4], heads[frame, 5]):
            behind = commits[commits > frame]
            if len(behind) and current[behind[0] + 1 :].any():
                return HEADER + frame * (FRAME_HEADER + size)
            return None
    return None


# The checksum of a pair (x, y) after (s, t) is (s + t + x, s + 2 t + x + y) modulo 2^32: a linear map of the sums
# before, so that the sums of a frame are a product with powers of that map, for all frames at once.


def _sums(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """(F, W) -> (F, 2), the checksum of each row after (0, 0)."""
    import numpy as np

    weights = np.asarray(_powers(words.shape[1] // 2), np.uint64)  # (pairs, 2, 2), the last pair first
    first, second = words[:, ::2], words[:, 1::2]
    both = first + second
    weights = weights[::-1]
    sums = [first @ weights[:, row, 0] + both @ weights[:, row, 1] for row in (0, 1)]
    return np.stack(sums, 1) & np.uint64(0xFFFFFFFF)


@cache
def _powers(count: int) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """The map's powers 0 to count - 1, modulo 2^32."""
    found, (a, b, c, d) = [], (1, 0, 0, 1)
    for _ in range(count):
        found.append(((a, b), (c, d)))
        a, b, c, d = ((a + c) % 2**32, (b + d) % 2**32, (a + 2 * c) % 2**32, (b + 2 * d) % 2**32)
    return tuple(found)


def _step(checksum: tuple[int, int], pairs: int, own: NDArray[np.uint64]) -> tuple[int, int]:
    (a, b), (c, d) = _powers(pairs + 1)[pairs]
    s, t = checksum
    return (a * s + b * t + int(own[0])) % 2**32, (c * s + d * t + int(own[1])) % 2**32


def _pairs(data: bytes, order: str) -> list[tuple[int, int]]:
    words = struct.unpack(f"{order[0]}{len(data) // 4}I", data)
    return list(zip(words[::2], words[1::2], strict=True))


def _chain(checksum: tuple[int, int], pairs: list[tuple[int, int]]) -> tuple[int, int]:
    s, t = checksum
    for x, y in pairs:
        s = (s + t + x) % 2**32
        t = (t + s + y) % 2**32
    return s, t
