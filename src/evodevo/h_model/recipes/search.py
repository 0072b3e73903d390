"""The recipe that evolves H-Models: quality against the FLOPs that are really executed."""

from __future__ import annotations

from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.h_model.space_settings import HModelSpaceSettings
from evodevo.h_model.spec import HModelStructure
from evodevo.runs.recipe import ExecutionSettings, Recipe, RunSettings, Size, by_size
from evodevo.search.settings import StudySettings
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings


class HModelSearchSettings(RunSettings):
    """All settings of a run of ``evolve`` over H-Models.

    Attributes:
        space: the genomes.
        evaluation: settings of an individual's evaluation.
        study: the search.
        execution: settings of the workers.
    """

    space: HModelSpaceSettings
    evaluation: NetworkEvaluationSettings
    study: StudySettings
    execution: ExecutionSettings = ExecutionSettings()


def small(size: Size) -> HModelSearchSettings:
    """Structures of at most 6 layers and 6 iterations on the pointer task."""
    full = size == "full"
    return HModelSearchSettings(
        space=HModelSpaceSettings(
            hidden_range=(2, 6), iterations_range=(1, 6), structure=HModelStructure(stream="paper", width=64)
        ),
        evaluation=NetworkEvaluationSettings(
            objectives=("error", "executed_flops"),
            task="pointer",
            training=TrainingSettings(
                budget=Budget(steps=1400 if full else 300),
                optimizer=OptimizerSettings(learning_rate=2e-3),
                batch_size=64,
                checkpoint_every=200,
            ),
            trace_samples=32,
            seconds=3600.0 if full else 600.0,
            memory_bytes=4 * 2**30,
        ),
        study=StudySettings(
            population=16 if full else 6, generations=12 if full else 3, confirmations=2 if full else 1, baselines=False
        ),
    )


SMALL = Recipe("h_model.small", "H-Models on k-hop pointers: error against executed FLOPs", ("evolve",), by_size(small))
