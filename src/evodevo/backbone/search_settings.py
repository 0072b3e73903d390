"""Settings of a search over backbones, without torch."""

from __future__ import annotations

from evodevo.backbone.evaluation_settings import EvaluationSettings
from evodevo.backbone.space import BackboneSettings
from evodevo.runs.recipe import ExecutionSettings, RunSettings
from evodevo.search.study import StudySettings


class EvolveSettings(RunSettings):
    """All settings of a run of ``evolve`` over backbones.

    Attributes:
        space: the genomes.
        evaluation: how one gets its scores.
        study: the search.
        execution: where evaluations run.
    """

    space: BackboneSettings
    evaluation: EvaluationSettings
    study: StudySettings
    execution: ExecutionSettings = ExecutionSettings()
