"""Data and settings of a fit that was begun, and what differs in another call."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from evodevo import __version__
from evodevo.errors import quoted_list
from evodevo.settings import Settings
from evodevo.tasks.rows.samples import RowReading, Samples

FORMAT = "evodevo.unfinished_fit/1"
_MOST_SHOWN = 60


class BegunFit(Settings):
    """What must be the same for a fit to go on; the time is not part of it.

    Attributes:
        format, evodevo: Of the files, and version that wrote them.
        settings: Settings by the name that they have in ``evodevo.fit``.
        rows: Number of rows with a label.
        columns: Input columns with their kinds.
        data: SHA-256 over all inputs, labels and groups.
    """

    format: str = FORMAT
    evodevo: str = __version__
    settings: dict[str, Any]
    rows: int
    columns: tuple[tuple[str, str], ...]
    data: str

    @classmethod
    def of(
        cls,
        settings: Mapping[str, Any],
        reading: RowReading,
        samples: Samples,
        answers: NDArray[Any],
        groups: Sequence[str] | None,
    ) -> Self:
        """The beginning of a fit of these samples."""
        return cls(
            settings=dict(settings),
            rows=samples.count,
            columns=tuple((column.name, column.kind) for column in reading.columns),
            data=_digest(reading, samples, answers, groups),
        )

    def differences(self, now: BegunFit) -> list[str]:
        """What another call has otherwise, in words; empty where it may go on."""
        found = []
        if self.evodevo != now.evodevo:
            found.append(f"evodevo was {self.evodevo} and is {now.evodevo}")
        for name in sorted({*self.settings, *now.settings}):
            then, own = self.settings.get(name), now.settings.get(name)
            if then != own:
                found.append(f"{name} was {_short(then)} and is {_short(own)}")
        if self.columns != now.columns:
            gone = [name for name, kind in self.columns if (name, kind) not in now.columns]
            new = [name for name, kind in now.columns if (name, kind) not in self.columns]
            parts = [f"{word} {quoted_list(names[:8])}" for word, names in (("no more", gone), ("new", new)) if names]
            found.append("the columns differ: " + ("; ".join(parts) or "their order"))
        if self.rows != now.rows:
            found.append(f"the data had {self.rows:,} rows with a label and have {now.rows:,}")
        elif self.columns == now.columns and self.data != now.data:
            found.append("the values of the data differ")
        return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _digest(reading: RowReading, samples: Samples, answers: NDArray[Any], groups: Sequence[str] | None) -> str:
    digest = hashlib.sha256(reading.model_dump_json().encode())
    for array in (samples.numbers, samples.codes, answers, *samples.images, *samples.present):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    for texts in (*samples.texts, *(() if groups is None else (groups,))):
        for text in texts:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
