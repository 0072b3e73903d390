"""Runs over zoos of modules: searches of pools, routers and fusions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.runs import NetworkSlice
from evodevo.experiments.trials import Trial
from evodevo.module_zoo.draw import drawing_of, zoo_words
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.recipes.search import ModuleZooSearchSettings
from evodevo.module_zoo.space import ModuleZooSpace
from evodevo.networks.towers.files import settled
from evodevo.runs.archive import Individual, Run


class ModuleZooSlice(NetworkSlice):
    """Searches over zoos."""

    name = "module_zoo"
    settings_class = ModuleZooSearchSettings
    follows = frozenset({"structure"})

    def paths(self, settings: ModuleZooSearchSettings) -> dict[str, Any]:
        """Those of towers, too, whose digests are filled in or checked."""
        whole = settled(settings.space.structure)
        if whole == settings.space.structure:
            return super().paths(settings)
        values = whole.model_dump(mode="json", include={"extractors", "extractor"})
        return {**super().paths(settings), "space": {"structure": values}}

    def space(self, settings: ModuleZooSearchSettings) -> ModuleZooSpace:
        return ModuleZooSpace(settings.space)

    def problem(
        self, settings: ModuleZooSearchSettings, blobs: str | Path | None = None, cache_folder: Path | None = None
    ) -> NetworkProblem:
        space, rate = self.space(settings), settings.evaluation.training.optimizer.learning_rate

        def arm(genome: Any) -> Trial:
            return Trial(name="zoo", network=ModuleZooNetwork(structure=space.structure(genome)), learning_rate=rate)

        return NetworkProblem(arm, settings.evaluation, blobs, cache_folder)

    def words(self, individual: Individual) -> list[str]:
        space = self.space(individual.run.settings)
        return zoo_words(space.structure(individual.genome))

    def drawing(self, individual: Individual) -> str:
        space = self.space(individual.run.settings)
        return drawing_of(space.structure(individual.genome), individual, individual.title)

    def report(self, run: Run) -> str:
        from evodevo.runs.report.page import search_page

        return search_page(run)


MODULE_ZOO = ModuleZooSlice()
