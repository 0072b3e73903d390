"""What follows from other records, derived anew: exact scores from genomes, fronts and hypervolumes from scores."""

from __future__ import annotations

import math

from evodevo.errors import UsageError
from evodevo.runs.archive import Archive, Run
from evodevo.search.front import front_places, hypervolume
from evodevo.storage.addresses import Place
from evodevo.storage.base import Damage


def rederived(folder: Place) -> tuple[Damage, ...]:
    """Scores that the genome alone decides and that are others, and generations whose front or hypervolume is another.

    Fronts are those of generational searches. Generations after an individual that is lost or has not ended are left
    out: a resume repeats its evaluation.
    """
    problems: list[Damage] = []
    with Archive(folder) as archive:
        for run in archive.runs():
            try:
                problems += _scores(run) or _fronts(run)
            except UsageError:
                continue  # settings of another evodevo, or of a package that is not installed
    return tuple(problems)


def _scores(run: Run) -> list[Damage]:
    exact = run.slice.exact(run)
    problems = []
    for individual in (*run.individuals(), *run.baselines()) if exact else ():
        scores = {} if individual.state != "done" else individual.scores
        for name, derived in exact.items():
            score = scores.get(name)
            if score is not None and not math.isclose(score, derived(individual.genome), rel_tol=1e-9, abs_tol=1e-12):
                subject = f"individual {individual.id}"
                problems.append(Damage("row", subject, f"its recorded {name} is not that of its genome"))
    return problems


def _fronts(run: Run) -> list[Damage]:
    closed = run.generations()
    if not closed or run.row.settings.get("study", {}).get("mode", "generational") != "generational":
        return []
    individuals = run.individuals()
    open_ended = [one.row.generation for one in individuals if one.reason == "lost" or one.evaluation is None]
    first_open = min(open_ended, default=math.inf)
    problems = []
    for facts in closed:
        generation, reference = facts["generation"], facts["reference"]
        if generation >= first_open:
            continue
        pool = [one for one in individuals if one.row.generation <= generation]
        outcomes = [one.outcome for one in pool]
        front = [pool[place].id for place in front_places(outcomes, run.goals)]
        volume = 0.0 if reference is None else hypervolume(outcomes, run.goals, tuple(reference))
        subject = f"run {run.id}, generation {generation}"
        if sorted(front) != sorted(facts["front"]):
            problems.append(Damage("row", subject, "its recorded front is not that of the recorded scores"))
        elif not math.isclose(volume, facts["hypervolume"], rel_tol=1e-9, abs_tol=1e-12):
            problems.append(Damage("row", subject, "its recorded hypervolume is not that of the recorded scores"))
    return problems
