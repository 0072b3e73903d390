"""The sections that procedures add to the page of an experiment; see ``Procedure.page_parts``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from evodevo.experiments.comparison import ComparisonTable
from evodevo.report.word_tables import TextTable
from evodevo.runs.archive import Run


class PagePart(ABC):
    """One section.

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

    def tables(self, run: Run, table: ComparisonTable) -> Mapping[str, TextTable]:
        """Tables of the section that belong on a terminal, too, by title."""
        return {}
