"""Runs that search over the structure of H-Models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.runs import NetworkSlice
from evodevo.experiments.trials import Trial
from evodevo.h_model.draw import h_model_drawing
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.recipes.search import HModelSearchSettings
from evodevo.h_model.space import HModelSpace
from evodevo.runs.archive import Individual, Run


class HModelSlice(NetworkSlice):
    """Searches over the structure of H-Models."""

    name = "h_model"
    settings_class = HModelSearchSettings
    follows = frozenset({"custom", "heads", "feedforward", "kernel", "head_size", "band", "structure"})

    def space(self, settings: HModelSearchSettings) -> HModelSpace:
        return HModelSpace(settings.space)

    def problem(
        self, settings: HModelSearchSettings, blobs: str | Path | None = None, cache_folder: Path | None = None
    ) -> NetworkProblem:
        space, rate = self.space(settings), settings.evaluation.training.optimizer.learning_rate

        def arm(genome: Any) -> Trial:
            network = HModelNetwork(structure=space.structure(genome))
            return Trial(name="H-Model", role="h_model", network=network, learning_rate=rate)

        return NetworkProblem(arm, settings.evaluation, blobs, cache_folder)

    def words(self, individual: Individual) -> list[str]:
        space = self.space(individual.run.settings)
        return HModelNetwork(structure=space.structure(individual.genome)).describe()

    def drawing(self, individual: Individual) -> str:
        space = self.space(individual.run.settings)
        return h_model_drawing(space.structure(individual.genome), title=individual.id, subtitle=individual.text)

    def report(self, run: Run) -> str:
        from evodevo.runs.report.page import search_page

        return search_page(run)


H_MODEL = HModelSlice()
