"""What every row of a table of edits has for sentences and drawings."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar


class EditRow(ABC):
    """One way to change a network.

    Attributes:
        name: Operation, as in the table.
        done: What was done, for sentences: ``widened``, ``given a layer before the heads``.
        letter: One letter, for drawings.
    """

    name: ClassVar[str]
    done: ClassVar[str]
    letter: ClassVar[str]
