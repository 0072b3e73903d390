"""The number of evaluations that share a CUDA device, from the memory that earlier ones were measured to need."""

from __future__ import annotations

from collections import deque

from evodevo.execution.device_memory import DeviceUse

REMEMBERED = 64
"""Number of the last evaluations whose memory counts."""
FILLED = 0.9
"""Share of a device's memory that is given away."""
MARGIN = 1.1
"""Factor on the largest peak: the next evaluation may be larger than those before."""


class Packing:
    """What one device admits: one evaluation until its memory is measured, then as many as will fit by the largest.

    An evaluation needs its largest measured peak times ``MARGIN``, and its process something beside its tensors. The
    latter is measured where an evaluation was alone, and holds what programs of others use, so that a device that is
    not ours alone is filled less.

    Args:
        most: Largest number of evaluations at a time, at least 1.
        processes_stay: Whether processes stay on the device between two evaluations.
    """

    def __init__(self, most: int, *, processes_stay: bool = False) -> None:
        self._most = most
        self._processes_stay = processes_stay
        self._peaks: deque[int] = deque(maxlen=REMEMBERED)
        self._around: int | None = None
        self._total = 0
        self._ceiling = most
        self._since = 0
        self._is_unused = False

    @property
    def slots(self) -> int:
        """Number of evaluations that the device takes now, at least 1."""
        if not self._peaks or self._around is None:
            return self._most if self._is_unused else 1
        peak, room = max(self._peaks) * MARGIN, FILLED * self._total
        room, need = (room - self._most * self._around, peak) if self._processes_stay else (room, peak + self._around)
        fitting = int(room // need) if need else self._most
        return max(1, min(self._most, self._ceiling, fitting))

    def ended(self, use: DeviceUse | None, *, alone: bool) -> None:
        """Take in the end of an evaluation.

        Args:
            use: Memory that it used; None where it succeeded without the device.
            alone: Whether no other evaluation of ours was on the device at any time of it.
        """
        self._since += 1
        if self._since >= REMEMBERED:
            self._ceiling = self._most
        if use is None:
            self._is_unused = True
            return
        self._total = use.total
        if alone:  # later there are the processes of other workers around it, too
            self._around = use.around if self._around is None else min(self._around, use.around)
        self._peaks.append(use.peak)

    def refused(self, running: int) -> None:
        """Take in that an allocation failed; for a while fewer evaluations than that are admitted.

        Args:
            running: Number of evaluations on the device, the failed one included.
        """
        self._ceiling = max(1, min(self._ceiling, running - 1))
        self._since = 0
