"""The sections that a slice adds to the page on a search: its genomes, drawn and counted."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from evodevo.runs.archive import Individual
from evodevo.runs.report.view import ReportView


class GenomeParts:
    """A page on genomes that are not drawn; slices that draw theirs derive from it."""

    def drawn(self, individual: Individual) -> Any:
        """Data of an individual for the sections below; None where they draw nothing."""
        return None

    def text(self, individual: Individual) -> str:
        """The genome as written, for the list of individuals; empty where it is not shown."""
        return ""

    def remark(self, individual: Individual) -> str:
        """Why an individual need not beat the reference; empty where it must."""
        return ""

    def genomes(self, view: ReportView) -> Element | None:
        """The section with the front's genomes and the baselines."""
        return None

    def progress(self, view: ReportView) -> list[Element]:
        """Figures on how genomes changed from generation to generation."""
        return []

    def population(self, view: ReportView) -> Element | None:
        """The section with all genomes in short."""
        return None
