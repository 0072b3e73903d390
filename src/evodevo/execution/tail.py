"""A buffer that keeps the end of a stream of output in bounded memory."""

from __future__ import annotations

from evodevo.execution.base import LOG_BYTES


class Tail:
    """Keeps the last ``limit`` bytes of a stream."""

    def __init__(self, limit: int = LOG_BYTES) -> None:
        self._limit = limit
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        """Append bytes and drop the oldest ones beyond the limit."""
        self._data += data
        if len(self._data) > 2 * self._limit:  # rarely, because every cut moves the kept bytes
            del self._data[: -self._limit]

    def text(self) -> str:
        """The kept bytes as text of at most ``limit`` bytes; bytes that are not UTF-8 become question marks."""
        # "?" rather than U+FFFD, whose three bytes would grow binary output beyond the limit.
        kept = bytes(self._data[-self._limit :]) if self._limit else b""
        cut = len(self._data) > self._limit
        text = kept.decode("utf-8", "replace").replace("\ufffd", "?")
        # A cut in the middle of a character leaves the rest of it at the beginning.
        return text.lstrip("?") if cut else text
