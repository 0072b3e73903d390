"""The course of a protocol, stage by stage. What a stage found is read from the store, so that a resume goes on."""

from __future__ import annotations

from collections.abc import Mapping

from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.protocol import derived
from evodevo.backbone.protocol.final_test import read_test_split
from evodevo.backbone.protocol.record import FINALISTS, TEST, chosen, common_rate, tuned_rates
from evodevo.backbone.protocol.settings import ProtocolSettings
from evodevo.errors import EvaluationsFailedError
from evodevo.experiments.trials import Role
from evodevo.runs.archive import Run
from evodevo.runs.composed import ComposedRun
from evodevo.runs.drive import EVOLVE, TRAIN
from evodevo.runs.recipe import RunSettings

Named = dict[str, tuple[str, BackboneGenome]]
"""Name -> individual and genome, best first."""
STAGES = ("baselines", "search", "random", "tuning", "training", "test")


class Protocol(ComposedRun):
    """One protocol; see ``ComposedRun``."""

    noun = "protocol"
    settings: ProtocolSettings

    @property
    def stages(self) -> tuple[str, ...]:
        """See ``ComposedRun``."""
        searches = self.settings.protocol.finalists_from == "search"
        return tuple(stage for stage in STAGES if searches or stage not in ("search", "random"))

    def go_on(self) -> None:
        settings = self.settings
        drawn = derived.baselines(settings)
        arms = [derived.variant(settings, name, genome, role="opponent") for name, genome in drawn.items()]
        tuned = self.stage(
            "baselines", lambda: (TRAIN, derived.tuning(settings, arms, "Learning rates of the baselines"))
        )
        rates = tuned_rates(tuned)
        if rates.keys() != drawn.keys():
            missing = ", ".join(name for name in drawn if name not in rates)
            raise EvaluationsFailedError(f"no learning rate trains {missing}; see: evodevo show {tuned.id}")
        finalists, controls = self._finalists(tuned)
        tuned = self.stage("tuning", lambda: (TRAIN, self._tuning(finalists, controls)))
        rates |= tuned_rates(tuned)
        final = [derived.final_arms(settings, finalists, controls, rates)]
        trained = self.stage("training", lambda: (TRAIN, derived.training(settings, *final)))
        self._test(trained)

    def _finalists(self, tuned: Run) -> tuple[Named, Named]:
        """Finalists and controls: given, or chosen from the searches at the rate that the baselines tell."""
        settings = self.settings
        if settings.protocol.finalists_from == "start":
            return derived.given(settings), {}
        given = settings.evaluation.training.optimizer.learning_rate
        rate = given if settings.protocol.search_rate == "given" else common_rate(tuned)
        search = self.stage("search", lambda: (EVOLVE, derived.search(settings, rate, random=False)))
        random = self.stage("random", lambda: (EVOLVE, derived.search(settings, rate, random=True)))
        return self._choose(search, random)

    def _choose(self, search: Run, random: Run) -> tuple[Named, Named]:
        """Finalists and controls by name: individual and genome, best first; recorded once."""
        stages = self.settings.protocol
        both = {
            prefix: chosen(run, self.settings, count)
            for prefix, run, count in (
                (derived.STAR, search, stages.finalists),
                (derived.RANDOM, random, stages.controls),
            )
        }
        named = {
            prefix: {f"{prefix}-{place}": individual for place, individual in enumerate(individuals, 1)}
            for prefix, individuals in both.items()
        }
        if not named[derived.STAR]:
            raise EvaluationsFailedError(
                f"no individual of the search {search.id} is below the baselines in {stages.limit}, so that there are "
                "no finalists (STAR, section 5). Search longer, or in another space."
            )
        if self.event(FINALISTS) is None:
            facts = {name: one.id for individuals in named.values() for name, one in individuals.items()}
            self.store.add_event(self.lease, FINALISTS, self.run_id, facts)
        finalists, controls = (
            {name: (one.id, one.genome) for name, one in named[prefix].items()}
            for prefix in (derived.STAR, derived.RANDOM)
        )
        return finalists, controls

    def _tuning(
        self, finalists: Mapping[str, tuple[str, BackboneGenome]], controls: Mapping[str, tuple[str, BackboneGenome]]
    ) -> RunSettings:
        roles: tuple[tuple[Role, Mapping[str, tuple[str, BackboneGenome]]], ...]
        roles = (("other", finalists), ("control", controls))
        arms = [
            derived.variant(self.settings, name, genome, role=role, parent=parent)
            for role, group in roles
            for name, (parent, genome) in group.items()
        ]
        return derived.tuning(self.settings, arms, "Learning rates of the finalists")

    def _test(self, trained: Run) -> None:
        """Every trained network on the test split: the one time that it is read."""
        if self.event(TEST) is not None:
            return
        self.announce("test", None)
        stages = self.settings.protocol
        payload = read_test_split(trained, self.settings, stages.test_tokens, stages.tasks, self)
        self.store.add_event(self.lease, TEST, trained.id, payload)
