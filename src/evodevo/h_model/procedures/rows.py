"""The procedures of H-Models, as rows of their table; no torch here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evodevo.experiments.procedures import Procedure
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Trial
from evodevo.h_model.procedures.pretrained_settings import check_pretrained
from evodevo.h_model.procedures.routes_settings import check_routes, check_task, routes_words

if TYPE_CHECKING:
    from evodevo.experiments.trained import Trained
    from evodevo.experiments.trainer import Trainer
    from evodevo.runs.archive import Individual
    from evodevo.tasks.base import SampleTask


class Pretrained(Procedure):
    """Encoders are pretrained on the training texts first; their layers are mixed, or one is fine-tuned whole."""

    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        from evodevo.h_model.procedures.pretrained import train_pretrained

        return train_pretrained(bench, options)

    def check(self, settings: NetworkEvaluationSettings, arm: Trial) -> None:
        check_pretrained(settings, arm)


class Extend(Procedure):
    """Some domains are learned together, then others one by one."""

    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        from evodevo.h_model.procedures.extend_procedure import extend

        return extend(bench, options)


class Routes(Procedure):
    """A table of routes is found or given, and the router of an H-Model learns to name its layers."""

    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        from evodevo.h_model.procedures.routes import train_routes

        return train_routes(bench, options)

    def check(self, settings: NetworkEvaluationSettings, arm: Trial) -> None:
        check_routes(settings, arm)

    def check_task(self, settings: NetworkEvaluationSettings, arm: Trial, task: SampleTask) -> None:
        check_task(settings, arm, task)

    def words(self, individual: Individual) -> list[str]:
        return routes_words(individual.fact)


PRETRAINED = Pretrained()
EXTEND = Extend()
ROUTES = Routes()
