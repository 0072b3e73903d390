"""The sections that higher rooms add to the page of an experiment.

A row of ``PAGE_PARTS`` is declared in the ``slice`` module of its room; the page shows every row, by name.
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
        is_first: true puts the section before the table of arms; false before the list of trainings.
    """

    is_first = False

    @abstractmethod
    def section(self, run: Run, table: ComparisonTable) -> Element | None:
        """The section; None where it does not apply to this experiment."""

    def remarks(self, run: Run, table: ComparisonTable) -> Sequence[str]:
        """Remarks for the reader, one sentence each."""
        return ()
