"""The settings of an experiment: several networks, trained alike, and one table."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Trial, Variant, expand
from evodevo.runs.recipe import ExecutionSettings, RunSettings
from evodevo.search.settings import StudySettings
from evodevo.settings import Settings


class PaperTable(Settings):
    """Rows that a paper prints, to be shown beside ours as they are.

    Attributes:
        source: paper and table; what was measured here begins with "our".
        columns, rows: text.
        caveats: caveats of a comparison, one sentence each.
    """

    source: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caveats: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether the rows were measured here and no paper prints them."""
        return self.source.startswith("our ")


class Comparison(Settings):
    """The arms of a comparison and their training.

    Attributes:
        title: title of the report.
        arms: the trained arms.
        learning_rates: each arm is trained with each; the best is chosen on validation data.
        chosen_by: number on validation data by which a learning rate is chosen: accuracy (the highest), or loss (the
            lowest), which is that of language models.
        seeds: number of trainings of each arm with each learning rate.
        reference: the arm beside which equal FLOPs and equal time are counted; the first one if left out.
        paper: numbers of the paper, where there are some.
        caveats: caveats for the reader, one sentence each.
    """

    title: str = ""
    arms: tuple[Variant, ...] = Field(min_length=1, max_length=10_000)
    learning_rates: tuple[Annotated[float, Field(gt=0)], ...] = Field(default=(1e-3,), min_length=1)
    chosen_by: Literal["accuracy", "loss"] = "accuracy"
    seeds: int = Field(default=1, ge=1, le=1000)
    reference: str | None = None
    paper: tuple[PaperTable, ...] = ()
    caveats: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _its_arms_are_told_apart(self) -> Self:
        groups = [(plan.name, tuple(sorted(plan.cell.items(), key=lambda item: item[0]))) for plan in self.arms]
        twice = next((name for number, (name, cell) in enumerate(groups) if (name, cell) in groups[:number]), None)
        if twice is not None:
            raise ValueError(f"the arm {twice!r} occurs twice with the same cell; give one another name")
        if self.reference is not None and self.reference not in [plan.name for plan in self.arms]:
            raise ValueError(f"the reference {self.reference!r} is no arm")
        return self

    def trainings(self) -> list[Trial]:
        """Every training."""
        return expand(self.arms, self.learning_rates, self.seeds)


class ExperimentSettings(RunSettings):
    """All settings of an experiment: a run of ``train`` whose individuals are the trainings of all arms.

    Attributes:
        experiment: the arms that are compared.
        evaluation: task, training and measurements that all arms share.
        study: seed and retries; there is one generation of given individuals.
        execution: settings of the workers.
    """

    experiment: Comparison
    evaluation: NetworkEvaluationSettings
    study: StudySettings = StudySettings(generations=1, baselines=False)
    execution: ExecutionSettings = ExecutionSettings()

    @model_validator(mode="after")
    def _nothing_is_searched(self) -> Self:
        if self.study.generations != 1 or self.study.mode != "generational" or self.study.confirmations:
            raise ValueError(
                "an experiment has one generation, no steady state and no confirmations; its seeds are experiment.seeds"
            )
        return self
