"""The course of a comparison of searches, stage by stage."""

from __future__ import annotations

from functools import partial

from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.protocol import derived as protocol
from evodevo.backbone.protocol.final_test import read_test_split
from evodevo.backbone.protocol.record import TEST, below
from evodevo.backbone.search_comparison import derived
from evodevo.backbone.search_comparison.settings import FinalTrainings, SearchArm, SearchComparisonSettings
from evodevo.backbone.space import BackboneSpace
from evodevo.errors import EvaluationsFailedError
from evodevo.runs.archive import Individual, Run
from evodevo.runs.composed import ComposedRun
from evodevo.runs.drive import EVOLVE, TRAIN
from evodevo.runs.recipe import RunSettings
from evodevo.tasks.text.language import LanguageTask

FINALISTS = "search_comparison.finalists"
"""Type of the event with what each search found: stage -> (individual, name of its training), best first."""


class ComparedSearches(ComposedRun):
    """One comparison of searches; see ``ComposedRun``."""

    noun = "comparison of searches"
    settings: SearchComparisonSettings

    @property
    def stages(self) -> tuple[str, ...]:
        """See ``ComposedRun``."""
        return derived.stages(self.settings)

    def go_on(self) -> None:
        """See ``ComposedRun``."""
        settings, final = self.settings, self.settings.search_comparison.final
        vocabulary = LanguageTask.open(settings.evaluation.language, self.cache_folder).vocabulary
        runs = {}
        for name, (arm, number) in derived.searches(settings).items():
            runs[name] = self.stage(name, partial(self._search, arm, number, vocabulary))
        if final is None:
            return
        trained = self.stage(derived.FINAL, lambda: (TRAIN, derived.final(settings, final, self._choose(runs, final))))
        if self.event(TEST) is None:
            self.announce(derived.TEST, None)
            payload = read_test_split(trained, settings, final.test_tokens, (), self)
            self.store.add_event(self.lease, TEST, trained.id, payload)

    def _search(self, arm: SearchArm, number: int, vocabulary: int) -> tuple[str, RunSettings]:
        return EVOLVE, derived.search(self.settings, arm, number, vocabulary)

    def _choose(self, runs: dict[str, Run], final: FinalTrainings) -> dict[str, tuple[str, BackboneGenome]]:
        """Name -> individual and genome at the final size; networks that several searches found are trained once.

        Which training each individual has is recorded once.
        """
        settings, space = self.settings, BackboneSpace(self.settings.space)
        bounds = [
            float(protocol.cost(settings, genome)[final.limit]) for genome in protocol.baselines(settings).values()
        ]

        def cost(one: Individual) -> float:
            return float(protocol.cost(settings, derived.at_final_size(settings, one.genome))[final.limit])

        names: dict[str, str] = {}
        finalists: dict[str, tuple[str, BackboneGenome]] = {}
        trainings: dict[str, list[list[str]]] = {}
        for stage, run in runs.items():
            trainings[stage] = []
            for place, one in enumerate(below(run, cost, bounds, final.finalists), 1):
                genome = derived.at_final_size(settings, one.genome)
                name = names.setdefault(space.hash(genome), f"{stage}/{place}")
                finalists.setdefault(name, (one.id, genome))
                trainings[stage].append([one.id, name])
        if not finalists:
            raise EvaluationsFailedError(
                f"no search of {self.run_id} found a network below the baselines in {final.limit}, so that there is "
                "nothing to train. Search longer, or in another space."
            )
        if self.event(FINALISTS) is None:
            self.store.add_event(self.lease, FINALISTS, self.run_id, trainings)
        return finalists
