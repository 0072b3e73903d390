"""The procedure ``grow`` as a row of the table of procedures; no torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evodevo.experiments.procedures import Procedure
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Trial
from evodevo.growth.procedures.settings import check_caps, check_grow
from evodevo.growth.report.reading import grown_network, growth_of
from evodevo.growth.report.text import growth_words
from evodevo.networks.spec import NetworkSpec
from evodevo.runs.archive import Individual
from evodevo.tasks.base import SampleTask

if TYPE_CHECKING:
    from evodevo.experiments.report.parts import PagePart
    from evodevo.experiments.trained import Trained
    from evodevo.experiments.trainer import Trainer


class Grow(Procedure):
    """A zoo, or the hidden layers of an H-Model, are pruned, grown and grafted while the network trains."""

    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        from evodevo.growth.procedures.grow import train_grow

        return train_grow(bench, options)

    def check(self, settings: NetworkEvaluationSettings, arm: Trial) -> None:
        check_grow(settings, arm)

    def check_task(self, settings: NetworkEvaluationSettings, arm: Trial, task: SampleTask) -> None:
        check_caps(settings, arm, task)

    def network(self, individual: Individual) -> NetworkSpec:
        return grown_network(individual)

    def words(self, individual: Individual) -> list[str]:
        growth = growth_of(individual)
        return [] if growth is None else growth_words(growth)

    def page_parts(self) -> Sequence[PagePart]:
        from evodevo.growth.ablation.report import ABLATION
        from evodevo.growth.report.sections import GROWTH
        from evodevo.growth.report.zoos import ZOOS

        return (ABLATION, GROWTH, ZOOS)


GROW = Grow()
