"""Reports: one HTML file that opens from disk, without a network and without a script."""

from evodevo.report.evolution_data import (
    Backbone,
    Baseline,
    EvolutionReport,
    Individual,
    Objective,
    Reference,
    ReferenceResult,
    RunFacts,
)
from evodevo.report.evolution_report import evolution_report

__all__ = [
    "Backbone",
    "Baseline",
    "EvolutionReport",
    "Individual",
    "Objective",
    "Reference",
    "ReferenceResult",
    "RunFacts",
    "evolution_report",
]
