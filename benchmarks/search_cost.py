"""What a cheaper search costs: training tokens until it has found what plain search finds with all of its own.

Arms: plain (NSGA-II, every candidate trained from scratch to the end), random search, rungs alone, inheritance alone,
the surrogate alone, and all three together. Every arm makes equally many evaluations. An arm is judged by its
finalists, the members of its front after each generation, which are trained from scratch by one protocol with seeds
that no search had; the hypervolume of their mean scores, from one reference point for all arms, stands against the
training tokens that the search had spent by then. Finalists that several arms share are trained once.

    python benchmarks/search_cost.py --data english_novels/ --json cost.json --estimate
    python benchmarks/search_cost.py --data english_novels/ --json cost.json --store /tmp/cost

Everything that has ended is in the JSON file, searches and finals go on where they stopped: run the command again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from evodevo.errors import NotFoundError
from evodevo.execution.base import Job
from evodevo.runs.archive import Archive, Run
from evodevo.runs.drive import create_executor
from evodevo.runs.evolve import evolve, resume
from evodevo.runs.fixed_generation import FixedGeneration
from evodevo.runs.resolve import resolve
from evodevo.runs.slices import slice_of
from evodevo.search.base import ALGORITHMS, Proposal
from evodevo.search.dominance import hypervolume
from evodevo.search.front import reference_point
from evodevo.search.record import is_final, to_outcome
from evodevo.search.rungs import spent_tokens
from evodevo.search.study import Study
from evodevo.settings import merge, nested
from evodevo.storage import Store
from measuring import surroundings

FRESH_SEED = 1_000_003
"""Seed of the finalists' trainings; the next one for each further training."""
FINALISTS = 5
"""Finalists that a search is expected to have that no other one has, for the estimate."""
SURROGATE = "surrogate"
USES_SURROGATE = ("all", SURROGATE, "surrogate+rungs")
MORE = ("arms", "seeds", "part_seeds", "estimate")
"""Options of which a file may get more."""


def arms(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Name of an arm -> its settings of the study."""
    rungs = {"shares": options.rungs, "kept": options.kept, "minimum": options.minimum}
    inheritance = {"budget": options.inherited_budget}
    every: dict[str, dict[str, Any]] = {
        "plain": {"algorithm": "nsga2"},
        "random": {"algorithm": "random"},
        "all": {"algorithm": SURROGATE, "rungs": rungs, "inheritance": inheritance},
        "surrogate": {"algorithm": SURROGATE},
        "rungs": {"algorithm": "nsga2", "rungs": rungs},
        "inheritance": {"algorithm": "nsga2", "inheritance": inheritance},
        "surrogate+rungs": {"algorithm": SURROGATE, "rungs": rungs},
        "rungs+inheritance": {"algorithm": "nsga2", "rungs": rungs, "inheritance": inheritance},
    }
    return {name: every[name] for name in options.arms}


def seeds_of(arm: str, options: argparse.Namespace) -> int:
    """Number of searches of an arm."""
    return int(options.seeds if arm in ("plain", "random", "all") else options.part_seeds)


def overrides(options: argparse.Namespace, study: dict[str, Any], seed: int) -> dict[str, Any]:
    """Settings of a search beside those of the recipe."""
    values: dict[str, Any] = {
        "evaluation": {"language": {"data": None if options.data is None else str(options.data)}},
        "study": {**study, "seed": seed, "baselines": False, "confirmations": 0},
        "execution": {"workers": options.workers},
    }
    for text in options.set:
        key, _, value = text.partition("=")
        values = merge(values, nested(key, json.loads(value)))
    return values


class Results:
    """What has ended: in memory and in the file, which is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data: dict[str, Any] = {"searches": {}, "finals": {}}
        if path.is_file():
            self.data = json.loads(path.read_text(encoding="utf-8"))

    def write(self) -> None:
        """Write the file."""
        beside = self.path.with_suffix(".part")
        beside.write_text(json.dumps(self.data, indent=1), encoding="utf-8")
        os.replace(beside, self.path)


def search(arm: str, seed: int, study: dict[str, Any], options: argparse.Namespace, results: Results) -> None:
    """Run a search, or go on with it, and keep its course: tokens and front after each generation."""
    name = f"{arm}/{seed}"
    known = results.data["searches"].get(name, {})
    store = options.store / arm / str(seed)
    if known.get("finished"):
        if "own" not in known and store.is_dir():  # of an earlier form of this script
            with Archive(store) as archive:
                known["own"] = course(archive.run("last"))["own"]
            results.write()
        return
    began = time.monotonic()
    try:
        run = resume("last", store=store)
    except NotFoundError:  # nothing was recorded yet
        chosen = overrides(options, study, seed)
        run = evolve(options.recipe, size=options.size, overrides=chosen, store=store)
    results.data["searches"][name] = {**course(run), "seconds": time.monotonic() - began, "finished": True}
    run.archive.close()
    results.write()
    print(f"{name}: {results.data['searches'][name]['tokens'][-1]:,} tokens", flush=True)


def course(run: Run) -> dict[str, Any]:
    """Tokens spent and the front, as hashes, after each generation; the genomes of all fronts; of each its score of the
    first objective in the search, and whether it had inherited weights."""
    people = {one.id: one for one in run.individuals()}
    tokens, fronts, genomes, scores = [], [], {}, {}
    own = run.evaluation_seed(0)
    for row in run.generations():
        outcomes = [
            {found.share: found for found in map(to_outcome, filter(is_final, one.evaluations))}
            for one in people.values()
            if one.generation <= row["generation"] and all(ended.seed == own for ended in one.evaluations)
        ]
        tokens.append(sum(spent_tokens(outcomes).values()))
        front = [people[identity] for identity in row["front"]]
        fronts.append([one.row.genome_hash for one in front])
        genomes |= {one.row.genome_hash: one.row.genome_envelope for one in front}
    goal = run.goals[0].name
    for one in people.values():
        final = [ended for ended in one.evaluations if is_final(ended) and goal in ended.scores]
        if one.row.genome_hash in genomes and final and final[-1].scores[goal].value is not None:
            inherited = bool(final[-1].fact("inherited", bool, False))
            scores[one.row.genome_hash] = [final[-1].scores[goal].value, inherited]
    return {"run": run.id, "tokens": tokens, "fronts": fronts, "genomes": genomes, "own": scores}


def finals(options: argparse.Namespace, results: Results) -> None:
    """Train all finalists from scratch, each once with each fresh seed."""
    settings = resolve(options.recipe, size=options.size, driver="evolve", overrides=overrides(options, {}, 0))
    kind = slice_of(options.recipe, type(settings).model_fields)
    space = kind.space(settings)
    wanted: dict[str, Any] = {}
    for found in results.data["searches"].values():
        wanted |= found["genomes"]
    for number in range(options.final_seeds):
        done = results.data["finals"].setdefault(str(number), {})
        missing = {name: genome for name, genome in sorted(wanted.items()) if name not in done}
        if not missing:
            continue
        proposals = [Proposal(space.from_json(genome), (), "finalist", {}) for genome in missing.values()]
        chosen = settings.study.model_copy(
            update={"population": max(2, len(proposals)), "generations": 1, "seed": FRESH_SEED + number}
        )
        with (
            Store.open(options.store / "finals" / str(number)) as store,
            create_executor(settings.execution, kind.preload) as executor,
        ):
            problem = kind.problem(settings)  # without a pool: no weights are kept

            study = Study(
                space,
                problem,
                settings=chosen,
                store=store,
                executor=executor,
                algorithm=FixedGeneration(proposals),
            )
            study.listener = partial(_keep, study, done, results)
            study.run()
        print(f"fresh seed {number}: {len(missing)} finalists trained from scratch", flush=True)


def _keep(study: Study, done: dict[str, Any], results: Results, kind: str, facts: dict[str, Any]) -> None:
    """Write the scores of a finalist as soon as there are some; none of one that failed."""
    if kind == "evaluated":
        member = study.members[facts["id"]]
        values = member.outcomes[0].values(study.problem.goals)
        done[member.hash] = None if values is None else list(values)
        results.write()


def judged(options: argparse.Namespace, results: Results) -> dict[str, Any]:
    """Per search its hypervolume after each generation; per arm what it took to reach the plain one's."""
    scores: dict[str, tuple[float, ...]] = {}
    numbers = [results.data["finals"][str(number)] for number in range(options.final_seeds)]
    for name in numbers[0]:
        rows = [found[name] for found in numbers if found.get(name) is not None]
        if len(rows) == options.final_seeds:
            scores[name] = tuple(statistics.fmean(values) for values in zip(*rows, strict=True))
    reference = reference_point(list(scores.values()))
    searches: dict[str, Any] = {}
    for name, found in results.data["searches"].items():
        volumes = [
            hypervolume(points, reference) if (points := [scores[one] for one in front if one in scores]) else 0.0
            for front in found["fronts"]
        ]
        searches[name] = {"tokens": found["tokens"], "hypervolumes": volumes}
    plain = [searches[f"plain/{seed}"] for seed in range(seeds_of("plain", options)) if f"plain/{seed}" in searches]
    if not plain:
        return {"reference": list(reference), "searches": searches, "arms": {}}
    goal = statistics.fmean(found["hypervolumes"][-1] for found in plain)
    cost = statistics.fmean(found["tokens"][-1] for found in plain)
    table = {}
    for arm in options.arms:
        own = [found for name, found in searches.items() if name.partition("/")[0] == arm]
        if own:
            table[arm] = {**_row(own, goal, cost), **_beside(own, plain)}
    return {"reference": list(reference), "goal": goal, "plain_tokens": cost, "searches": searches, "arms": table}


def _row(own: Sequence[dict[str, Any]], goal: float, cost: float) -> dict[str, Any]:
    last = [found["hypervolumes"][-1] for found in own]
    reached = [first_reach(found["tokens"], found["hypervolumes"], goal) for found in own]
    ratios = [tokens / cost for tokens in reached if tokens is not None]
    # The mean course as well: single searches end above or below the goal by luck, those of plain search too.
    tokens = [statistics.fmean(values) for values in zip(*(found["tokens"] for found in own), strict=False)]
    volumes = [statistics.fmean(values) for values in zip(*(found["hypervolumes"] for found in own), strict=False)]
    mean_reach = first_reach(tokens, volumes, goal)
    return {
        "seeds": len(own),
        "tokens": statistics.fmean(found["tokens"][-1] for found in own),
        "share_of_plain_tokens": statistics.fmean(found["tokens"][-1] for found in own) / cost,
        "hypervolume": statistics.fmean(last),
        "lowest": min(last),
        "highest": max(last),
        "reached": len(ratios),
        "ratios": ratios,
        "ratio_of_mean_course": None if mean_reach is None else mean_reach / cost,
    }


def _beside(own: Sequence[dict[str, Any]], plain: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Final hypervolume less that of the plain search of the same seed.

    The interval is Student's, of the mean difference over seeds, 95 %; None with fewer than three of them.
    """
    pairs = list(zip(own, plain, strict=False))
    differences = [one["hypervolumes"][-1] - other["hypervolumes"][-1] for one, other in pairs]
    half = None
    if len(pairs) > 2:
        from scipy.stats import t

        half = float(t.ppf(0.975, len(pairs) - 1)) * statistics.stdev(differences) / len(pairs) ** 0.5
    return {
        "minus_plain": statistics.fmean(differences),
        "half_interval": half,
    }


def differences(results: Results, final_seeds: int) -> dict[tuple[str, bool], list[float]]:
    """(arm, whether weights were inherited) -> score in the search less the mean from scratch, of each finalist."""
    numbers = [results.data["finals"][str(number)] for number in range(final_seeds)]
    found: dict[tuple[str, bool], list[float]] = {}
    for name, course_of in results.data["searches"].items():
        for genome, (score, inherited) in course_of.get("own", {}).items():
            scratch = [scores[genome][0] for scores in numbers if scores.get(genome) is not None]
            if len(scratch) == final_seeds:
                arm = name.partition("/")[0]
                found.setdefault((arm, inherited), []).append(score - statistics.fmean(scratch))
    return found


def first_reach(tokens: Sequence[float], volumes: Sequence[float], goal: float) -> float | None:
    """Tokens after the first generation whose front reaches a hypervolume; None where none does."""
    return next((spent for spent, volume in zip(tokens, volumes, strict=True) if volume >= goal), None)


def show(found: dict[str, Any]) -> None:
    """Print the table."""
    names = ("arm", "seeds", "tokens", "of plain", "hypervolume", "lowest", "highest", "reached", "tokens to plain's")
    print("  ".join(names))
    for arm, row in found["arms"].items():
        ratio = row["ratio_of_mean_course"]
        words = "not reached" if ratio is None else f"{ratio:.3f}"
        print(
            f"{arm}  {row['seeds']}  {row['tokens']:,.0f}  {row['share_of_plain_tokens']:.3f}  "
            f"{row['hypervolume']:.5g}  {row['lowest']:.5g}  {row['highest']:.5g}  "
            f"{row['reached']} of {row['seeds']}  {words}"
        )
    print("tokens to plain's: of the mean course, as a share of the tokens of plain search; the goal is 0.2")
    print("arm  hypervolume of each seed  minus plain's of the same seed, 95 %")
    for arm, row in found["arms"].items():
        volumes = ", ".join(
            f"{one['hypervolumes'][-1]:,.0f}"
            for name, one in found["searches"].items()
            if name.partition("/")[0] == arm
        )
        half = "" if row["half_interval"] is None else f" ± {row['half_interval']:,.0f}"
        print(f"{arm}  {volumes}  {row['minus_plain']:+,.0f}{half}")
    print("arm  generation: mean tokens, mean hypervolume")
    for arm in found["arms"]:
        own = [one for name, one in found["searches"].items() if name.partition("/")[0] == arm]
        course = [
            f"{statistics.fmean(tokens):,.0f} {statistics.fmean(volumes):,.0f}"
            for tokens, volumes in zip(
                zip(*(one["tokens"] for one in own), strict=False),
                zip(*(one["hypervolumes"] for one in own), strict=False),
                strict=True,
            )
        ]
        print(f"{arm}  {'; '.join(course)}")


def show_differences(found: dict[tuple[str, bool], list[float]]) -> None:
    """Print how far scores in searches are from those of the same genomes trained from scratch."""
    print("arm  weights  finalists  score in the search less that from scratch: mean, standard deviation")
    for (arm, inherited), values in sorted(found.items()):
        spread = f"{statistics.stdev(values):.3f}" if len(values) > 1 else "-"
        words = "inherited" if inherited else "from scratch"
        print(f"{arm}  {words}  {len(values)}  {statistics.fmean(values):+.3f}  {spread}")


def estimate(options: argparse.Namespace) -> None:
    """Print the tokens that are planned, and the hours that they take here by a short measurement."""
    settings = resolve(options.recipe, size=options.size, driver="evolve", overrides=overrides(options, {}, 0))
    kind = slice_of(options.recipe, type(settings).model_fields)
    problem, space = kind.problem(settings), kind.space(settings)
    budget, step = settings.evaluation.training.budget.tokens, problem.tokens_per_step
    short = {"training": {"budget": {"tokens": 20 * step}}}
    quick = resolve(
        options.recipe,
        size=options.size,
        driver="evolve",
        overrides=merge(overrides(options, {}, 0), {"evaluation": short}),
    )
    paced = kind.problem(quick)
    genomes = [space.sample(_generator(number)) for number in range(4)]
    times, measured = [], []
    with create_executor(settings.execution.model_copy(update={"workers": 1}), kind.preload) as executor:
        for number, genome in enumerate(genomes):
            executor.submit(Job(str(number), paced.entry, paced.payload(genome, 1), None, None))
            outcome = paced.read(_answer(executor))
            times.append(outcome.extra["training_seconds"] / outcome.extra["tokens"])
            measured.append(outcome.seconds - outcome.extra["training_seconds"])
    per_token, per_measurement = statistics.fmean(times[1:]), statistics.fmean(measured[1:])
    tokens, evaluations = 0.0, 0
    for arm, study in arms(options).items():
        chosen = resolve(
            options.recipe, size=options.size, driver="evolve", overrides=overrides(options, study, 0)
        ).study
        for generation in range(chosen.generations):
            share = chosen.inheritance.budget if chosen.inheritance is not None and generation else 1.0
            budgets = chosen.population if chosen.rungs is None else chosen.rungs.planned(chosen.population)
            tokens += seeds_of(arm, options) * budgets * share * budget
            evaluations += seeds_of(arm, options) * chosen.population
    searches = sum(seeds_of(arm, options) for arm in options.arms)
    finalists = FINALISTS * searches * options.final_seeds
    total = tokens + finalists * budget
    seconds = total * per_token + (evaluations + finalists) * per_measurement
    print(
        f"{searches} searches with {tokens:,.0f} tokens, and about {finalists} trainings of finalists ({FINALISTS} per "
        f"search, {options.final_seeds} fresh seeds): {total:,.0f} tokens at {1e6 * per_token:.1f} s per million, "
        f"{per_measurement:.1f} s per measurement: {seconds / 3600 / options.workers:.1f} hours with {options.workers} "
        "workers that run side by side"
    )


def _generator(number: int) -> Any:
    from evodevo.randomness import generator

    return generator(0, "search cost", number)


def _answer(executor: Any) -> bytes:
    while True:
        for event in executor.poll(60.0):
            if hasattr(event, "state"):
                assert event.payload is not None, event
                return bytes(event.payload)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=None, help="corpus; the standard library if left out")
    parser.add_argument("--json", type=Path, required=True, help="file of the results; read where it exists")
    parser.add_argument("--store", type=Path, default=Path("search_cost_stores"), help="folder of the stores")
    parser.add_argument("--recipe", default="backbone.demo")
    parser.add_argument("--size", default="quick", choices=("quick", "full"))
    parser.add_argument("--arms", nargs="+", default=None, help="all that there are if left out")
    parser.add_argument("--seeds", type=int, default=5, help="searches of plain, random and all")
    parser.add_argument("--part-seeds", type=int, default=2, help="searches of every other arm")
    parser.add_argument("--final-seeds", type=int, default=2, help="fresh seeds with which finalists are trained")
    parser.add_argument("--rungs", type=float, nargs="+", default=[0.25], help="shares of the budget")
    parser.add_argument("--kept", type=float, default=0.25)
    parser.add_argument("--minimum", type=int, default=2)
    parser.add_argument("--inherited-budget", type=float, default=0.25)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=JSON", help="further settings of all arms")
    parser.add_argument("--estimate", action="store_true", help="print tokens and hours, and train nothing")
    options = parser.parse_args(sys.argv[1:])
    if options.arms is None:
        every = ["plain", "random", "all", "surrogate", "rungs", "inheritance", "surrogate+rungs", "rungs+inheritance"]
        options.arms = [arm for arm in every if SURROGATE in ALGORITHMS or arm not in USES_SURROGATE]
    if options.estimate:
        estimate(options)
        return
    results = Results(options.json)
    results.data["machine"] = surroundings()
    given = {name: str(value) for name, value in vars(options).items() if name not in ("json", "store", "workers")}
    known = results.data.get("options", given)
    if any(known[name] != value for name, value in given.items() if name not in MORE):
        sys.exit(f"{options.json} is of other options: {known}. Give those, or another file.")
    results.data["options"] = given
    for seed in range(max(options.seeds, options.part_seeds)):
        for arm, study in arms(options).items():
            if seed < seeds_of(arm, options):
                search(arm, seed, study, options, results)
    finals(options, results)
    results.data["judged"] = judged(options, results)
    results.write()
    show(results.data["judged"])
    show_differences(differences(results, options.final_seeds))


if __name__ == "__main__":
    main()
