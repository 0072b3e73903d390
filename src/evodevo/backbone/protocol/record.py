"""A protocol read from the store: the runs of its stages, what they chose, and the paper's Table 5.1."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from evodevo.backbone.protocol import derived
from evodevo.backbone.protocol.finalists import Contender, choose_finalists
from evodevo.backbone.protocol.hits import is_hit, mean_accuracy
from evodevo.backbone.protocol.settings import ProtocolSettings
from evodevo.experiments.comparison import ComparisonRow, Spread, compare_arms
from evodevo.report.charts.numbers import show
from evodevo.runs.archive import Individual, Run
from evodevo.runs.composed import stage_runs
from evodevo.runs.verdict import GoalValues, dominates, relation

FINALISTS = "protocol.finalists"
"""Type of the event with the chosen individuals: name -> id."""
TEST = "protocol.test"
"""Type of the event with the test split's results."""
QUALITY = "quality"


@dataclass(frozen=True)
class TableRow:
    """One row of the table.

    Attributes:
        name: ``transformer++``, ``star-1``, ``random-1``, …
        role: baseline, finalist or control.
        individual: id in the search; empty for baselines.
        genome: genome as text.
        parameters: number of parameters without embeddings.
        cache_bytes: size of the cache at the settings' length, in bytes.
        learning_rate: tuned learning rate; None before it is known.
        rates: learning rate -> validation loss of its trial, in nats per token.
        seeds: number of finished trainings.
        trainings: ids of the finished trainings.
        validation: bits per byte on the validation split, over seeds.
        test: bits per byte on the test split, over seeds.
        perplexity: perplexity per token on the test split, over seeds.
        tasks: downstream task -> accuracy in percent.
        average: mean accuracy over downstream tasks, in percent.
        dominates: names of the baselines that it dominates, see ``runs.verdict``.
    """

    name: str
    role: str
    individual: str
    genome: str
    parameters: int
    cache_bytes: int
    learning_rate: float | None = None
    rates: Mapping[float, float] = field(default_factory=dict)
    seeds: int = 0
    trainings: tuple[str, ...] = ()
    validation: Spread | None = None
    test: Spread | None = None
    perplexity: Spread | None = None
    tasks: Mapping[str, float] = field(default_factory=dict)
    average: float | None = None
    dominates: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        spreads = {name: getattr(self, name) for name in ("validation", "test", "perplexity")}
        return {
            **asdict(self),
            "rates": {f"{rate:g}": loss for rate, loss in self.rates.items()},
            **{name: None if spread is None else spread.to_json() for name, spread in spreads.items()},
        }


@dataclass(frozen=True)
class ProtocolRecord:
    """A protocol as far as it has come.

    Attributes:
        run: id of the protocol's run.
        recipe: name of its recipe.
        state: state of its run.
        goals: names of the search's objectives.
        stages: stage -> id and state of its run.
        rate: learning rate of the search; None before it is known.
        evaluations: stage -> number of finished evaluations of the search and of random search, without baselines.
        stopped: stage -> number of those that stopped at a rung.
        rows: rows of the table: baselines, finalists, controls.
        courses: "search" and "random" -> (number of evaluations, lowest validation bits per byte until then).
        count_models: bits per byte of count models on the test split.
        sentences: findings of the table, one sentence each.
    """

    run: str
    recipe: str
    state: str
    goals: tuple[str, ...]
    stages: Mapping[str, Mapping[str, str]]
    rate: float | None
    evaluations: Mapping[str, int]
    stopped: Mapping[str, int]
    rows: tuple[TableRow, ...]
    courses: Mapping[str, Sequence[tuple[int, float]]]
    count_models: Mapping[str, float]
    sentences: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return {
            "run": self.run,
            "recipe": self.recipe,
            "state": self.state,
            "goals": list(self.goals),
            "stages": {name: dict(stage) for name, stage in self.stages.items()},
            "search_learning_rate": self.rate,
            "evaluations": dict(self.evaluations),
            "stopped": dict(self.stopped),
            "rows": [row.to_json() for row in self.rows],
            "courses": {name: [list(point) for point in course] for name, course in self.courses.items()},
            "count_models": dict(self.count_models),
            "sentences": list(self.sentences),
        }


def tuned_rates(run: Run) -> dict[str, float]:
    """Arm -> the learning rate with its lowest validation loss; arms that no rate trains are left out."""
    return {row.name: row.learning_rate for row in compare_arms(run).rows if row.trainings}


def common_rate(run: Run) -> float:
    """The learning rate with the lowest mean validation loss over all arms, of those that train every arm."""
    rows = compare_arms(run).rows
    rates = [rate for rate in rows[0].rates if all(rate in row.rates for row in rows)]
    known = rates or list(rows[0].rates)
    return min(known, key=lambda rate: fmean(row.rates[rate] for row in rows if rate in row.rates))


def chosen(run: Run, settings: ProtocolSettings, count: int) -> list[Individual]:
    """The individuals of a search that the paper's rule selects, best first; none that stopped at a rung."""
    limit = settings.protocol.limit
    bounds = [float(derived.cost(settings, genome)[limit]) for genome in derived.baselines(settings).values()]
    return below(run, lambda one: float(one.fact[limit]), bounds, count)


def below(run: Run, cost: Callable[[Individual], float], bounds: Sequence[float], count: int) -> list[Individual]:
    """The best individuals of a search whose cost is below all bounds, best first; none that stopped at a rung."""
    goal = run.goals[0]
    contenders = [
        Contender(one, one.row.genome_hash, one.key(goal), cost(one))
        for one in run.individuals()
        if one.state == "done" and not one.stopped
    ]
    return [contender.individual for contender in choose_finalists(contenders, bounds, count)]


def read_protocol(run: Run) -> ProtocolRecord:
    """All that a protocol has found so far."""
    settings: ProtocolSettings = run.settings
    runs = stage_runs(run)
    tested = next((event for event in run.events() if event.type == TEST), None)
    rows = _rows(run, settings, runs, {} if tested is None else tested.fact("results", results_of))
    rate = runs["search"].settings.evaluation.training.optimizer.learning_rate if "search" in runs else None
    searches: dict[str, Run] = {name: runs[name] for name in ("search", "random") if name in runs}
    evaluations = {name: sum(one.state == "done" for one in found.individuals()) for name, found in searches.items()}
    stopped = {name: sum(one.stopped for one in found.individuals()) for name, found in searches.items()}
    return ProtocolRecord(
        run=run.id,
        recipe=run.recipe,
        state=run.state,
        goals=tuple(goal.name for goal in run.goals),
        stages={name: {"run": found.id, "state": found.state} for name, found in runs.items()},
        rate=rate,
        evaluations=evaluations,
        stopped=stopped,
        rows=rows,
        courses={name: _course(found) for name, found in searches.items()},
        count_models={} if tested is None else tested.fact("count_models", dict),
        sentences=tuple(sentences(rows, settings, evaluations, stopped)),
    )


def _course(run: Run) -> list[tuple[int, float]]:
    """(evaluations, lowest value of whole budgets until then), from the first that was trained to the end."""
    lowest, count = math.inf, 0
    course: list[tuple[int, float]] = []
    for one in run.individuals():
        value = one.fact.get("bits_per_byte")
        if value is None:
            continue
        count += 1
        if not one.stopped:
            lowest = min(lowest, float(value))
        if lowest < math.inf:
            course.append((count, lowest))
    return course


def results_of(value: Any) -> dict[str, dict[str, Any]]:
    """Id of a training -> its numbers on test data, out of JSON.

    Raises:
        AttributeError: it is something else.
    """
    return {name: dict(numbers.items()) for name, numbers in value.items()}


def _rows(
    run: Run, settings: ProtocolSettings, runs: Mapping[str, Run], results: Mapping[str, Mapping[str, Any]]
) -> tuple[TableRow, ...]:
    trials = {
        row.name: row for name in ("baselines", "tuning") if name in runs for row in compare_arms(runs[name]).rows
    }
    final = {row.name: row for row in compare_arms(runs["training"]).rows} if "training" in runs else {}
    named = next((event.payload for event in run.events() if event.type == FINALISTS), {})
    drawn = derived.baselines(settings)
    genomes = {name: ("", genome) for name, genome in drawn.items()}
    genomes |= derived.given(settings) if settings.protocol.finalists_from == "start" else {}
    for name, identity in sorted(named.items(), key=_place):
        stage = "random" if name.startswith(f"{derived.RANDOM}-") else "search"
        genomes[name] = identity, runs[stage].individual(identity).genome
    rows = []
    for name, (individual, genome) in genomes.items():
        role = "baseline" if name in drawn else "control" if name.startswith(f"{derived.RANDOM}-") else "finalist"
        rows.append(_row(name, role, individual, genome, run, trials.get(name), final.get(name), results))
    baselines = [row for row in rows if row.role == "baseline"]
    return tuple(row if row.role == "baseline" else _with_verdict(row, baselines, settings) for row in rows)


def _place(named: tuple[str, str]) -> tuple[bool, int]:
    """Finalists before controls, each in the order of the choice."""
    prefix, _, number = named[0].rpartition("-")
    return prefix != derived.STAR, int(number)


def _row(
    name: str,
    role: str,
    individual: str,
    genome: Any,
    run: Run,
    trial: ComparisonRow | None,
    final: ComparisonRow | None,
    results: Mapping[str, Mapping[str, Any]],
) -> TableRow:
    cost = derived.cost(run.settings, genome)
    trainings = () if final is None else final.trainings
    tests = [results[one.id] for one in trainings if one.id in results]
    each = [test.get("accuracies", {}) for test in tests]
    tasks = {task: fmean(values[task] for values in each) for task in (each[0] if each else ())}
    return TableRow(
        name=name,
        role=role,
        individual=individual,
        genome=run.space.print(genome),
        parameters=cost["parameters"],
        cache_bytes=cost["cache_bytes"],
        learning_rate=trial.learning_rate if trial is not None and trial.trainings else None,
        rates={} if trial is None else trial.rates,
        seeds=len(trainings),
        trainings=tuple(one.id for one in trainings),
        validation=Spread.of(validation_bits(one) for one in trainings),
        test=Spread.of(test.get("bits_per_byte") for test in tests),
        perplexity=Spread.of(test.get("perplexity") for test in tests),
        tasks=tasks,
        average=mean_accuracy(list(tasks.values())) if tasks else None,
    )


def validation_bits(training: Individual) -> float | None:
    """Bits per byte of a finished training on the validation split; None where it has none."""
    measured: float | None = training.fact.get("validation", {}).get("outputs", {}).get("next", {}).get("bits_per_byte")
    return measured


def _with_verdict(row: TableRow, baselines: Sequence[TableRow], settings: ProtocolSettings) -> TableRow:
    goals = [text.partition(":")[0] for text in settings.evaluation.objectives]
    beaten = tuple(other.name for other in baselines if dominates(goals_of(row, goals), goals_of(other, goals)))
    return TableRow(**{**{name: getattr(row, name) for name in TableRow.__dataclass_fields__}, "dominates": beaten})


def goals_of(row: TableRow, goals: Sequence[str]) -> dict[str, GoalValues]:
    """A row's goals on the test split, as ``runs.verdict`` compares them; goals with a clock are left out."""
    exact = {"parameters": row.parameters, "cache": row.cache_bytes}
    found = {name: GoalValues((float(exact[name]),), exact=True) for name in goals if name in exact}
    if row.test is None:
        found[QUALITY] = GoalValues(())  # not known, so that costs alone decide nothing
    else:
        # The lowest and the highest are all that ranges over seeds need.
        ends = (row.test.low, row.test.high) if row.test.count > 1 else (row.test.mean,)
        found[QUALITY] = GoalValues(ends)
    return found


def sentences(
    rows: Sequence[TableRow],
    settings: ProtocolSettings,
    evaluations: Mapping[str, int],
    stopped: Mapping[str, int],
) -> list[str]:
    """The findings of the table, in words."""
    stages = settings.protocol
    baselines = [row for row in rows if row.role == "baseline"]
    finalists = [row for row in rows if row.role == "finalist"]
    controls = [row for row in rows if row.role == "control"]
    said = []
    if finalists and len(finalists) < stages.finalists and stages.finalists_from == "search":
        said.append(
            f"Only {len(finalists)} of {stages.finalists} finalists: no more genomes of the search are below both "
            f"baselines in {stages.limit.replace('_', ' ')}."
        )
    averages = [row.average for row in baselines]
    if finalists and averages and all(value is not None for value in averages):
        known = [row for row in finalists if row.average is not None]
        hits = sum(is_hit(row.average or 0.0, [value or 0.0 for value in averages]) for row in known)
        said.append(f"Hit rate by the mean over downstream tasks: {hits} of {len(known)}.")
    tested = [row for row in finalists if row.test is not None]
    bars = [row.test.mean for row in baselines if row.test is not None]
    if tested and len(bars) == len(baselines):
        hits = sum(is_hit(row.test.mean, bars, higher_is_better=False) for row in tested if row.test is not None)
        said.append(
            f"On the test split {hits} of {len(tested)} finalists reach the lower bits per byte of both baselines."
        )
        for baseline in baselines:
            names = [row.name for row in finalists if baseline.name in row.dominates]
            several = sum(row.seeds > 1 for row in finalists)
            said.append(
                f"{_listed(names)} {baseline.name} ({several} of {len(finalists)} finalists have the seeds for that)."
            )
    if edged := [row.name for row in rows if _at_an_edge(row)]:
        said.append(
            f"The best learning rate of {', '.join(edged)} is the lowest or the highest that was tried: another may be "
            "better; protocol.learning_rates names those to try."
        )
    if tested and controls:
        said.append(_against_random(tested[0], controls[0], _counts(evaluations, stopped)))
    return said


def _at_an_edge(row: TableRow) -> bool:
    return (
        row.learning_rate is not None and len(row.rates) > 1 and row.learning_rate in (min(row.rates), max(row.rates))
    )


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "No finalist dominates"
    return f"{', '.join(names)} {'dominates' if len(names) == 1 else 'dominate'}"


def _counts(evaluations: Mapping[str, int], stopped: Mapping[str, int]) -> str:
    """``8 and 8 evaluations, 4 and 4 of them to the whole budget``."""
    every = [evaluations.get(name, 0) for name in ("search", "random")]
    counts = f"{every[0]} and {every[1]} evaluations"
    if not any(stopped.values()):
        return counts
    whole = [count - stopped.get(name, 0) for name, count in zip(("search", "random"), every, strict=True)]
    return f"{counts}, {whole[0]} and {whole[1]} of them to the whole budget"


def _against_random(first: TableRow, control: TableRow, counts: str) -> str:
    """Whether the best of random search would have done as well as the best of the search, by the same rule."""
    if first.test is None or control.test is None:
        return "Random search's best was not tested."
    ours, theirs = first.test, control.test
    found = relation(goals_of(first, ())[QUALITY], goals_of(control, ())[QUALITY])
    words = {
        "better": "the search's best is better beyond the ranges over seeds",
        "worse": "random search's best is better beyond the ranges over seeds",
        "open": "random search's best does as well, as far as these seeds can tell",
    }[found]
    same = " (it is the same genome)" if first.genome == control.genome else ""
    return (
        f"Against random search ({counts}; both chosen by the same rule): {first.name} {_range(ours)} and "
        f"{control.name} {_range(theirs)} bits per byte on test; {words}{same}."
    )


def _range(spread: Spread) -> str:
    middle = show(spread.mean, padded=True)
    return (
        f"{middle} ({show(spread.low, padded=True)} to {show(spread.high, padded=True)})"
        if spread.count > 1
        else middle
    )
