"""Runs over zoos of modules: searches of pools, routers and fusions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evodevo.evaluation.network_problem import NetworkProblem
from evodevo.recipes.module_zoo.search import ModuleZooSearchSettings
from evodevo.runs.module_zoo_drawing import drawing_of, zoo_words
from evodevo.runs.network_slices import NetworkSlice
from evodevo.spaces.arms import Arm
from evodevo.spaces.module_zoo import ModuleZooSpace
from evodevo.spaces.networks import ModuleZooNetwork

if TYPE_CHECKING:
    from evodevo.runs.archive import Individual, Run


class ModuleZooSlice(NetworkSlice):
    """Searches over zoos."""

    name = "module_zoo"
    settings_class = ModuleZooSearchSettings

    def space(self, settings: ModuleZooSearchSettings) -> ModuleZooSpace:
        return ModuleZooSpace(settings.space)

    def problem(
        self, settings: ModuleZooSearchSettings, blobs: Path | None = None, cache_folder: Path | None = None
    ) -> NetworkProblem:
        space, rate = self.space(settings), settings.evaluation.training.optimizer.learning_rate

        def arm(genome: Any) -> Arm:
            return Arm(name="zoo", network=ModuleZooNetwork(structure=space.structure(genome)), learning_rate=rate)

        return NetworkProblem(arm, settings.evaluation, blobs, cache_folder)

    def words(self, individual: Individual) -> list[str]:
        space = individual.run.space
        assert isinstance(space, ModuleZooSpace), "the slice's own"
        return zoo_words(space.structure(individual.genome))

    def drawing(self, individual: Individual) -> str:
        space = individual.run.space
        assert isinstance(space, ModuleZooSpace), "the slice's own"
        return drawing_of(space.structure(individual.genome), individual, individual.title)

    def report(self, run: Run) -> str:
        from evodevo.runs.reporting import evolution

        return evolution(run)


MODULE_ZOO = ModuleZooSlice()
