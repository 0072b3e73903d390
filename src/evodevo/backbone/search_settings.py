"""Settings of a search over backbones, without torch."""

from __future__ import annotations

from evodevo.backbone.evaluation_settings import EvaluationSettings
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.runs.recipe import ExecutionSettings, RunSettings
from evodevo.search.settings import StudySettings


class EvolveSettings(RunSettings):
    """All settings of a run of ``evolve`` over backbones.

    Attributes:
        space: the genomes.
        evaluation: settings of an individual's evaluation.
        study: the search.
        execution: settings of the workers.
    """

    space: BackboneSettings
    evaluation: EvaluationSettings
    study: StudySettings
    execution: ExecutionSettings = ExecutionSettings()
