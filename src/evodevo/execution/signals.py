"""Delivery of signals as bytes in a pipe, so that a loop over file descriptors receives them without races."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


class SignalPipe:
    """Catches signals; ``fd`` becomes readable when one has arrived. For the main thread, one at a time.

    Args:
        numbers: Signals to catch.
    """

    def __init__(self, *numbers: signal.Signals) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._numbers = numbers
        for number in numbers:
            signal.signal(number, lambda *_: None)  # without a handler in Python nothing is written to the pipe

    def read(self) -> set[int]:
        """The signals that have arrived since the last call."""
        with suppress(BlockingIOError):
            return set(os.read(self.fd, 4096))
        return set()

    def release(self) -> None:
        """Restore the default handlers; for a process that was just forked."""
        signal.set_wakeup_fd(-1)
        for number in self._numbers:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        os.close(self.fd)
        os.close(self._write)
