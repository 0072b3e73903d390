"""What rooms above add to the page of an experiment: sections on what only they know.

A row of ``PAGE_PARTS`` is declared in the ``slice`` module of its room; the page asks every row, by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evodevo.experiments.comparison import ComparisonTable
from evodevo.registry import Registry, table
from evodevo.runs.archive import Run

PAGE_PARTS: Registry[PagePart] = table("part of an experiment's page", "evodevo.page_parts")


class PagePart(ABC):
    """One row.

    Attributes:
        is_first: the section stands before the table of arms; else before the list of trainings.
    """

    is_first = False

    @abstractmethod
    def section(self, run: Run, table: ComparisonTable) -> Element | None:
        """The section; None where it has nothing to say of this experiment."""

    def remarks(self, run: Run, table: ComparisonTable) -> Sequence[str]:
        """What a reader must know, one sentence each."""
        return ()
