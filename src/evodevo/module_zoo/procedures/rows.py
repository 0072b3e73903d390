"""The procedures that search a zoo, as rows of their table; no torch here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evodevo.experiments.procedures import Procedure
from evodevo.experiments.settings import NetworkEvaluationSettings, training_settings
from evodevo.experiments.trials import Trial
from evodevo.module_zoo.procedures.room import check_room
from evodevo.module_zoo.procedures.search_settings import (
    BestSingleOptions,
    DartsOptions,
    EnasOptions,
    RaceOptions,
    RandomPoolsOptions,
    candidates_of,
    check_budget,
    check_choice,
    check_race,
    options_of,
    training_after,
    zoo_of,
)
from evodevo.tasks.base import SampleTask

if TYPE_CHECKING:
    from evodevo.experiments.trained import Trained
    from evodevo.experiments.trainer import Trainer


class BestSingle(Procedure):
    """Each module alone for a share of the budget, the best one with the rest."""

    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        from evodevo.module_zoo.procedures.best_single import train_best_single

        return train_best_single(bench, options)

    def check(self, settings: NetworkEvaluationSettings, arm: Trial) -> None:
        options = options_of(BestSingleOptions, settings, arm)
        check_budget(training_settings(settings, arm), options.share, len(candidates_of(zoo_of(arm), options.each)))


class RandomPools(Procedure):
    """Random pools of modules for a share of the budget, the best one with the rest."""

    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        from evodevo.module_zoo.procedures.random_pools import train_random_pools

        return train_random_pools(bench, options)

    def check(self, settings: NetworkEvaluationSettings, arm: Trial) -> None:
        options = options_of(RandomPoolsOptions, settings, arm)
        zoo_of(arm)
        check_budget(training_settings(settings, arm), options.share, options.candidates)


class Darts(Procedure):
    """A learned mixture of all modules, cut down to the heaviest, trained anew."""

    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        from evodevo.module_zoo.procedures.darts import train_darts

        return train_darts(bench, options)

    def check(self, settings: NetworkEvaluationSettings, arm: Trial) -> None:
        options = options_of(DartsOptions, settings, arm)
        check_choice("top_k", options.top_k, zoo_of(arm))
        check_budget(training_settings(settings, arm), options.share, 1)


class Enas(Procedure):
    """Sub-pools with shared weights, drawn by a policy that learns; the best one trained anew."""

    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        from evodevo.module_zoo.procedures.enas import train_enas

        return train_enas(bench, options)

    def check(self, settings: NetworkEvaluationSettings, arm: Trial) -> None:
        options = options_of(EnasOptions, settings, arm)
        check_choice("size", options.size, zoo_of(arm))
        check_budget(training_settings(settings, arm), options.share, 1)


class Race(Procedure):
    """Modules alone and pairs in short trainings; the best network goes on with the rest of the budget."""

    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        from evodevo.module_zoo.procedures.race import train_race

        return train_race(bench, options)

    def check(self, settings: NetworkEvaluationSettings, arm: Trial) -> None:
        options, training = options_of(RaceOptions, settings, arm), training_settings(settings, arm)
        check_race(training, zoo_of(arm))
        check_budget(training_after(training, options.begin), options.share, 1)

    def check_task(self, settings: NetworkEvaluationSettings, arm: Trial, task: SampleTask) -> None:
        options, training = options_of(RaceOptions, settings, arm), training_settings(settings, arm)
        check_room(arm.name, training, options, zoo_of(arm), task)


BEST_SINGLE = BestSingle()
RANDOM_POOLS = RandomPools()
DARTS = Darts()
ENAS = Enas()
RACE = Race()
