"""The page on a run of a study of one's own: genomes are texts."""

from __future__ import annotations

from evodevo.runs.archive import Individual, Run
from evodevo.runs.report.page import search_page
from evodevo.runs.report.view import GenomeParts


class _Texts(GenomeParts):
    def text(self, individual: Individual) -> str:
        return individual.text


def own_study_page(run: Run) -> str:
    """One self-contained HTML page."""
    return search_page(run, _Texts())
