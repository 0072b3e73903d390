"""The procedure ``grow_backbone`` as a row of the table of procedures; no torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evodevo.backbone.network import BackboneNetwork
from evodevo.errors import UsageError
from evodevo.experiments.procedures import Procedure
from evodevo.experiments.settings import NetworkEvaluationSettings, procedure_options, training_settings
from evodevo.experiments.trials import Trial
from evodevo.growth.backbone.records import NOTHING_TRIED, begun, events_of, grown_structure, race_of
from evodevo.growth.backbone.spec import STAGES, GrowthPlan, starts_of
from evodevo.growth.forks.unit import NO_UNIT, unit_of
from evodevo.growth.report.forks import fork_words
from evodevo.networks.spec import NetworkSpec
from evodevo.runs.archive import Individual
from evodevo.settings import validate
from evodevo.tasks.base import SampleTask

if TYPE_CHECKING:
    from evodevo.experiments.report.parts import PagePart
    from evodevo.experiments.trained import Trained
    from evodevo.experiments.trainer import Trainer

GROW_BACKBONE = "grow_backbone"


def plan_of(settings: NetworkEvaluationSettings, arm: Trial) -> GrowthPlan:
    """The plan of an arm.

    Raises:
        UsageError: Wrong options.
    """
    return validate(GrowthPlan, procedure_options(settings, arm), what=f"options of {GROW_BACKBONE}")


class GrowBackbone(Procedure):
    """A backbone is stacked, widened, given further LIVs and longer windows while it trains."""

    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        from evodevo.growth.backbone.procedure import train_growing

        return train_growing(bench, options)

    def check(self, settings: NetworkEvaluationSettings, arm: Trial) -> None:
        if not isinstance(arm.network, BackboneNetwork):
            raise UsageError(f"{GROW_BACKBONE} grows backbones; the arm {arm.name!r} is a {arm.network.kind}.")
        plan = plan_of(settings, arm)
        for start in starts_of(arm.network.structure, plan.starts):
            plan.structures(start)
        for edit in plan.choices:
            edit.check_class(arm.network.structure)

    def check_task(self, settings: NetworkEvaluationSettings, arm: Trial, task: SampleTask) -> None:
        plan, whole = plan_of(settings, arm), task.inputs[0].length
        # Not in ``check``, which also judges budgets in FLOPs by a number of steps that is about the same.
        if plan.choices and unit_of(training_settings(settings, arm).budget) is None:
            raise UsageError(NO_UNIT.format("leave choices out"))
        first = plan.lengths(whole)[0]
        assert isinstance(arm.network, BackboneNetwork), "checked before"
        reasons = [edit.misfit(arm.network.structure, first, whole) for edit in plan.choices]
        if reasons and all(reasons):
            raise UsageError(f"none of the choices of {GROW_BACKBONE} can be made at the start: {' '.join(reasons)}")

    def network(self, individual: Individual) -> NetworkSpec:
        network = individual.genome.network
        assert isinstance(network, BackboneNetwork), "checked before it was trained"
        events = events_of(individual)
        if events is not None:
            start = begun(network.structure, individual)
            return network.model_copy(update={"structure": grown_structure(start, events)})
        plan = plan_of(individual.run.settings.evaluation, individual.genome)
        made = sum(len(stage["edits"]) for stage in individual.fact.get(STAGES, ()))
        return network.model_copy(update={"structure": plan.structures(network.structure)[made]})

    def words(self, individual: Individual) -> list[str]:
        race = race_of(individual)
        sentences = [] if race is None else [race.told]
        sentences += [_sentence(stage) for stage in individual.fact.get(STAGES, ())]
        return sentences + fork_words(individual.fact.get("forks"), NOTHING_TRIED)

    def page_parts(self) -> Sequence[PagePart]:
        from evodevo.growth.backbone.report import GROWTH

        return (GROWTH,)


def _sentence(stage: Mapping[str, Any]) -> str:
    network = f"{stage['livs']} LIVs of width {stage['width']}, {stage['parameters']:,} parameters"
    cost = f"windows of {stage['window']} tokens, {stage['flops'] / 1e9:.3g} GFLOP a step"
    if not stage["edits"]:
        return f"Begins with {network}, {cost}."
    before, after = stage["loss_before"], stage["loss_after"]
    loss = "" if before is None else f"; the loss of training windows goes from {before:.3f} to {after:.3f} nats"
    return f"At {stage['at']:.0%} of the budget {', '.join(stage['edits'])}: {network}, {cost}{loss}."


GROW = GrowBackbone()
