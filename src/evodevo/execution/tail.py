"""The end of a stream of output, in bounded memory."""

from __future__ import annotations

from evodevo.execution.base import LOG_BYTES


class Tail:
    """Keeps the last ``limit`` bytes of what is added."""

    def __init__(self, limit: int = LOG_BYTES) -> None:
        self._limit = limit
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        """Append; what is older than the limit is forgotten."""
        self._data += data
        if len(self._data) > 2 * self._limit:  # cut now and then, not at every byte
            del self._data[: -self._limit]

    def text(self) -> str:
        """What is left, as text of at most ``limit`` bytes; bytes that are not UTF-8 become question marks."""
        # "?" rather than U+FFFD, whose three bytes would grow binary output beyond the limit.
        kept = bytes(self._data[-self._limit :]) if self._limit else b""
        cut = len(self._data) > self._limit
        text = kept.decode("utf-8", "replace").replace("\ufffd", "?")
        return text.lstrip("?") if cut else text
