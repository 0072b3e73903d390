"""Runs that compare searches: each search is a run of its own in the same store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evodevo.backbone.problem import BackboneProblem
from evodevo.backbone.runs import BackboneSlice
from evodevo.backbone.search_comparison.settings import SearchComparisonSettings
from evodevo.errors import UsageError
from evodevo.runs.archive import Individual, Run
from evodevo.runs.composed import stage_runs
from evodevo.runs.results import Results, ResultTable
from evodevo.search.members import Listener
from evodevo.search.start import founders


class SearchComparisonSlice(BackboneSlice):
    """See ``Slice``."""

    name = kind = "search_comparison"
    settings_class = SearchComparisonSettings
    composed = True

    def problem(
        self, settings: Any, blobs: str | Path | None = None, cache_folder: Path | None = None
    ) -> BackboneProblem:
        """The problem of the searches at the comparison's own size; every arm is tried, so that one that cannot be is
        refused at the start."""
        from evodevo.backbone.protocol import derived as protocol
        from evodevo.backbone.search_comparison import derived
        from evodevo.backbone.space import BackboneSpace

        problem = super().problem(settings, blobs, cache_folder)
        for arm in derived.arms(settings):
            one = derived.search(settings, arm, 0, problem.text.vocabulary)
            one.study.check(problem)
            space = BackboneSpace(one.space)
            founders(one.study.start, space, one.study.population)
            low, high = space.depths
            depth = settings.space.depth
            if settings.search_comparison.final is not None and any(depth % each for each in range(low, high + 1)):
                raise UsageError(
                    f"what the arm {arm.name!r} finds cannot always be stacked to {depth} LIVs; give it a depth that "
                    f"divides {depth} (space.depth), and no depth_range."
                )
        if settings.search_comparison.final is not None:
            protocol.baselines(settings)
        return problem

    def needs(
        self,
        settings: Any,
        store: Path,
        cache_folder: Path | None = None,
        device_profile: str | None = None,
    ) -> dict[str, Any]:
        """See ``Slice``."""
        from evodevo.backbone.protocol.plan import plan
        from evodevo.backbone.search_comparison import derived
        from evodevo.tasks.text.language import LanguageTask

        vocabulary = LanguageTask.open(settings.evaluation.language, cache_folder).vocabulary
        works = derived.works(settings, vocabulary)
        return plan(settings, store, cache_folder, works, device_profile=device_profile).to_json()

    def carry_out(
        self,
        run_id: str,
        settings: SearchComparisonSettings,
        *,
        store: str | Path,
        listener: Listener | None,
        on_start: Any,
        cache_folder: Path | None,
    ) -> None:
        from evodevo.backbone.search_comparison.stages import ComparedSearches

        ComparedSearches(
            run_id, settings, store=store, listener=listener, on_start=on_start, cache_folder=cache_folder
        ).run()

    def searched(self, run: Run) -> Run:
        """See ``Slice``."""
        raise UsageError(f"{run.id} compares several searches; name one of their runs. See: evodevo show {run.id}")

    def results(self, run: Run) -> Results:
        """See ``Slice``."""
        from evodevo.backbone.search_comparison import text
        from evodevo.backbone.search_comparison.record import read_search_comparison

        record = read_search_comparison(run)
        stages = [(name, each["run"], each["state"], text.stage_words(name)) for name, each in record.stages.items()]
        columns = text.headings(record)
        return Results(
            (
                ResultTable(("stage", "run", "state", "what it does"), stages),
                ResultTable(columns, text.cells(record), columns[1:-1]),
            ),
            record.sentences,
            text.HOW_TO_READ if record.measures else "",
        )

    def data(self, run: Run) -> dict[str, Any]:
        from evodevo.backbone.search_comparison.record import read_search_comparison

        return read_search_comparison(run).to_json()

    def best(self, run: Run) -> list[Individual]:
        """The individuals of all fronts, best in the first goal first; with a training at one size, its networks, best
        on the validation split first."""
        from evodevo.backbone.search_comparison.record import best_first, read_search_comparison

        if run.settings.search_comparison.final is not None:
            networks = best_first(one for one in read_search_comparison(run).networks if one.arms)
            return [run.archive.individual(one.trainings[0]) for one in networks]
        fronts = [one for search in stage_runs(run).values() for one in search.front()]
        return sorted(fronts, key=lambda one: one.key(run.goals[0]))

    def report(self, run: Run) -> str:
        from evodevo.backbone.search_comparison.page import search_comparison_page

        return search_comparison_page(run)


SEARCH_COMPARISON = SearchComparisonSlice()
