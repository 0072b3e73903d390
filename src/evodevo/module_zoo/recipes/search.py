"""The recipe that evolves zoos: quality against parameters and the FLOPs that are really executed."""

from __future__ import annotations

from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.module_zoo.settings import ModuleZooSpaceSettings
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.runs.recipe import ExecutionSettings, Recipe, RunSettings, Size, by_size
from evodevo.search.settings import StudySettings
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings


class ModuleZooSearchSettings(RunSettings):
    """All settings of a run of ``evolve`` over zoos.

    Attributes:
        space: the genomes.
        evaluation: settings of an individual's evaluation.
        study: the search.
        execution: settings of the workers.
    """

    space: ModuleZooSpaceSettings
    evaluation: NetworkEvaluationSettings
    study: StudySettings
    execution: ExecutionSettings = ExecutionSettings()


def small(size: Size) -> ModuleZooSearchSettings:
    """Pools of at most 6 modules on questions about images of digits, which need both image and text."""
    full = size == "full"
    structure = ZooStructure(width=64 if full else 32, extractor=ExtractorStructure(blocks=2 if full else 1))
    return ModuleZooSearchSettings(
        space=ModuleZooSpaceSettings(modules_range=(1, 9) if full else (1, 6), structure=structure),
        evaluation=NetworkEvaluationSettings(
            objectives=("error", "network_parameters", "executed_flops"),
            task="digits_questions",
            training=TrainingSettings(
                budget=Budget(steps=4000 if full else 1200),
                optimizer=OptimizerSettings(learning_rate=2e-3),
                batch_size=64,
                checkpoint_every=200,
            ),
            seconds=3600.0 if full else 600.0,
            memory_bytes=4 * 2**30,
        ),
        study=StudySettings(
            population=16 if full else 6, generations=12 if full else 3, confirmations=2 if full else 1, baselines=False
        ),
    )


SMALL = Recipe(
    "module_zoo.small", "zoos on questions about digits: error, parameters, FLOPs", ("evolve",), by_size(small)
)
