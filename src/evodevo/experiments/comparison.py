"""From the trainings of an experiment to one row per arm: what a table and a report show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Any, Literal

from evodevo.errors import UnsafeFileError
from evodevo.experiments.correct_bits import unpack
from evodevo.experiments.curves import Points, accuracy_at, mean_curves
from evodevo.experiments.paired import Difference, Numbers, paired_difference
from evodevo.experiments.remarks import headlines, remarks
from evodevo.experiments.trials import Trial
from evodevo.runs.archive import Individual, Run

ChosenBy = Literal["accuracy", "loss"]


@dataclass(frozen=True)
class Spread:
    """A number over seeds: mean, standard deviation (0 for one seed), lowest, highest, and how many."""

    mean: float
    deviation: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """Spread of the finite values; None where there is none."""
        known = [float(value) for value in values if value is not None and math.isfinite(value)]
        if not known:
            return None
        return cls(fmean(known), stdev(known) if len(known) > 1 else 0.0, min(known), max(known), len(known))

    def to_json(self) -> dict[str, float]:
        """The fields by name."""
        return {"mean": self.mean, "deviation": self.deviation, "low": self.low, "high": self.high, "seeds": self.count}


@dataclass(frozen=True)
class ComparisonRow:
    """One arm in one cell, at the learning rate that was best on validation data.

    Attributes:
        name, role, cell: name, role and cell of the arm.
        learning_rate: the chosen one.
        rates: learning rate -> validation accuracy or loss (``Comparison.chosen_by``), for all that were tried.
        trainings: the individuals of the chosen rate that have finished.
        missing: trainings of any rate that failed or have not finished, with their reasons.
        validation, test: accuracy (see ``Measured.accuracy``).
        train: accuracy on training samples, where it was measured.
        metrics: "output metric" -> test value.
        groups: group -> value -> test accuracy.
        probes: name -> validation accuracy and executed FLOPs of the trained network under other circumstances.
        inside: name -> number measured inside the trained network (``experiments.diagnostics``).
        parameters, executed_flops: parameters of the network, FLOPs of an answer to one sample.
        steps, epochs, training_flops, training_seconds: totals of the whole training.
        peak_memory_bytes: largest memory of a whole evaluation, of the device or the process.
        difference: difference to the reference in the share of test samples answered rightly, on the same samples and
            seeds.
        remarks: remarks on its trainings, a sentence each.
        curves: name -> mean points over seeds: loss and error over steps, over FLOPs, over seconds.
        at: "steps", "flops", "seconds" -> validation accuracy when the common budget is used up.
    """

    name: str
    role: str
    cell: Mapping[str, str | float]
    learning_rate: float
    rates: Mapping[float, float]
    trainings: tuple[Individual, ...]
    missing: tuple[str, ...]
    validation: Spread | None = None
    test: Spread | None = None
    train: Spread | None = None
    metrics: Mapping[str, Spread] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, Spread]] = field(default_factory=dict)
    probes: Mapping[str, tuple[Spread | None, Spread | None]] = field(default_factory=dict)
    inside: Mapping[str, Spread] = field(default_factory=dict)
    parameters: Spread | None = None
    executed_flops: Spread | None = None
    steps: Spread | None = None
    training_flops: Spread | None = None
    training_seconds: Spread | None = None
    epochs: Spread | None = None
    peak_memory_bytes: Spread | None = None
    difference: Difference | None = None
    remarks: tuple[str, ...] = ()
    curves: Mapping[str, Points] = field(default_factory=dict)
    at: Mapping[str, Spread | None] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """Name and cell."""
        cell = (f"{key} {value}" for key, value in self.cell.items())
        return self.trainings[0].genome.group if self.trainings else ", ".join([self.name, *cell])


@dataclass(frozen=True)
class ComparisonTable:
    """An experiment in numbers.

    Attributes:
        rows: rows in the order of the arms.
        budgets: "steps", "flops", "seconds" -> budget at which all arms are compared: the total of the reference, or
            the smallest total of any arm.
        baselines: split -> simple opponent -> its number.
        facts: facts of finished trainings that belong to no column, by title.
        reference: the arm to which paired differences are taken.
    """

    rows: tuple[ComparisonRow, ...]
    budgets: Mapping[str, float]
    baselines: Mapping[str, Mapping[str, float]]
    facts: Mapping[str, Mapping[str, Any]]
    reference: str = ""

    @property
    def headlines(self) -> tuple[str, ...]:
        """The metrics that a table has room for, by "output metric"."""
        names = dict.fromkeys(name for row in self.rows for name in row.metrics)
        rank = {metric: place for place, metric in enumerate(headlines())}
        outputs = dict.fromkeys(name.rpartition(" ")[0] for name in names)
        headings = [
            name
            for output in outputs
            for name in sorted(
                (name for name in names if name.rpartition(" ")[0] == output and name.rpartition(" ")[2] in rank),
                key=lambda name: rank[name.rpartition(" ")[2]],
            )
        ]
        # Of classes and labels the loss is the log-loss.
        return tuple(
            name
            for name in headings
            if not (name.endswith(" loss") and f"{name.removesuffix(' loss')} log_loss" in names)
        )


TOTALS = {"steps": "steps", "flops": "training_flops", "seconds": "training_seconds"}
"""Budget -> fact of an evaluation."""


def compare_arms(run: Run) -> ComparisonTable:
    """The table of an experiment, as far as it has come."""
    comparison = run.settings.experiment
    by_arm: dict[str, list[Individual]] = {}
    for individual in run.individuals():
        by_arm.setdefault(individual.genome.group, []).append(individual)
    by = comparison.chosen_by
    chosen = {group: _chosen(members, by) for group, members in by_arm.items()}
    budgets = _budgets(chosen, comparison.reference)
    rows = tuple(_row(by_arm[group], members, budgets, by) for group, members in chosen.items())
    name = comparison.reference or comparison.arms[0].name
    rows = tuple(replace(row, difference=_difference(row, reference_of(row, rows, name))) for row in rows)
    facts = {
        individual.title: individual.fact["facts"]
        for row in rows
        for individual in row.trainings
        if individual.fact.get("facts")
    }
    return ComparisonTable(rows, budgets, run.data().get("baselines", {}), facts, name)


def _accuracy(individual: Individual, split: str = "validation") -> float | None:
    value = individual.fact.get(split, {}).get("accuracy")
    return None if value is None else float(value)


def _validation(individual: Individual, by: ChosenBy) -> float | None:
    """The number by which a learning rate is chosen."""
    value = individual.fact.get("validation", {}).get(by)
    return None if value is None else float(value)


def _chosen(members: Sequence[Individual], by: ChosenBy) -> list[Individual]:
    """The finished trainings of the learning rate that is best on validation data; ties go to the first."""
    rates = _rates(members, by)
    if not rates:
        return []
    best = min(rates, key=lambda rate: rates[rate] if by == "loss" else -rates[rate])
    return [
        individual
        for individual in members
        if individual.genome.learning_rate == best and _accuracy(individual) is not None
    ]


def _rates(members: Sequence[Individual], by: ChosenBy) -> dict[float, float]:
    """Learning rate -> mean number on validation data; rates with a failure count only where all have one."""
    rates: dict[float, list[float | None]] = {}
    for individual in members:
        rates.setdefault(individual.genome.learning_rate, []).append(_validation(individual, by))
    known = {rate: [value for value in values if value is not None] for rate, values in rates.items()}
    whole = {rate: fmean(values) for rate, values in known.items() if values and len(values) == len(rates[rate])}
    return whole or {rate: fmean(values) for rate, values in known.items() if values}


def _budgets(chosen: Mapping[str, Sequence[Individual]], reference: str | None) -> dict[str, float]:
    finished = [individual for members in chosen.values() for individual in members]
    preferred = [individual for individual in finished if individual.genome.name == reference] or finished
    budgets = {}
    for name, fact in TOTALS.items():
        totals = [float(individual.fact[fact]) for individual in preferred if individual.fact.get(fact)]
        if totals:
            budgets[name] = min(totals)
    return budgets


def _row(
    members: Sequence[Individual], chosen: Sequence[Individual], budgets: Mapping[str, float], by: ChosenBy
) -> ComparisonRow:
    arm: Trial = (chosen or members)[0].genome
    missing = [
        f"{individual.title}: {individual.reason or individual.state}"
        for individual in members
        if _accuracy(individual) is None
    ]
    if not chosen:
        return ComparisonRow(arm.name, arm.role, arm.cell, arm.learning_rate, {}, (), tuple(missing))
    series = [series_of(individual) for individual in chosen]
    return ComparisonRow(
        name=arm.name,
        role=arm.role,
        cell=arm.cell,
        learning_rate=arm.learning_rate,
        rates=_rates(members, by),
        trainings=tuple(chosen),
        missing=tuple(missing),
        validation=Spread.of(_accuracy(individual) for individual in chosen),
        test=Spread.of(_accuracy(individual, "test") for individual in chosen),
        train=Spread.of(_accuracy(individual, "train") for individual in chosen),
        metrics=_nested(chosen, lambda individual: _flat(individual.fact.get("test", {}).get("outputs", {}))),
        groups=_groups(chosen),
        probes=_probes(chosen),
        inside=_nested(chosen, lambda individual: individual.fact.get("inside", {})),
        parameters=Spread.of(individual.fact.get("parameters") for individual in chosen),
        executed_flops=Spread.of(individual.fact.get("executed_flops") for individual in chosen),
        epochs=Spread.of(individual.fact.get("epochs") for individual in chosen),
        peak_memory_bytes=Spread.of(individual.fact.get("peak_memory_bytes") for individual in chosen),
        remarks=remarks([individual.fact for individual in chosen]),
        curves=mean_curves(series),
        at={name: Spread.of(accuracy_at(curves, name, budgets[name]) for curves in series) for name in budgets},
        steps=Spread.of(individual.fact.get("steps") for individual in chosen),
        training_flops=Spread.of(individual.fact.get("training_flops") for individual in chosen),
        training_seconds=Spread.of(individual.fact.get("training_seconds") for individual in chosen),
    )


def reference_of(row: ComparisonRow, rows: Sequence[ComparisonRow], name: str) -> ComparisonRow | None:
    """The reference in the same cell, or the only one; None for itself."""
    named = [candidate for candidate in rows if candidate.name == name]
    fitting = [candidate for candidate in named if candidate.cell == row.cell] or (named if len(named) == 1 else [])
    return fitting[0] if fitting and fitting[0] is not row else None


def _difference(row: ComparisonRow, reference: ComparisonRow | None) -> Difference | None:
    """On seeds that both have; None where they were not tested on the same samples."""
    if reference is None:
        return None
    ours, theirs = ({individual.genome.seed: individual for individual in each.trainings} for each in (row, reference))
    pairs = [(ours[seed], theirs[seed]) for seed in ours if seed in theirs]
    if any(a.genome.task != b.genome.task for a, b in pairs):
        return None
    answers = [(_right(a), _right(b)) for a, b in pairs]
    known = [(a, b) for a, b in answers if a is not None and b is not None]
    return paired_difference([a for a, _ in known], [b for _, b in known])


def _right(individual: Individual) -> Numbers | None:
    packed = individual.fact.get("test", {}).get("right")
    try:
        return None if packed is None else unpack(packed)
    except UnsafeFileError:
        return None


def _flat(outputs: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {f"{output} {metric}": value for output, metrics in outputs.items() for metric, value in metrics.items()}


def _nested(members: Sequence[Individual], read: Callable[[Individual], Mapping[str, float]]) -> dict[str, Spread]:
    each = [read(individual) for individual in members]
    names = dict.fromkeys(name for values in each for name in values)
    spreads = {name: Spread.of(values.get(name) for values in each) for name in names}
    return {name: spread for name, spread in spreads.items() if spread is not None}


def _groups(members: Sequence[Individual]) -> dict[str, dict[str, Spread]]:
    names = dict.fromkeys(name for individual in members for name in _test_groups(individual))
    return {
        name: _nested(
            members,
            lambda individual, name=name: {  # type: ignore[misc]
                value: numbers["accuracy"] for value, numbers in _test_groups(individual).get(name, {}).items()
            },
        )
        for name in names
    }


def _test_groups(individual: Individual) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    groups: Mapping[str, Mapping[str, Mapping[str, float]]] = individual.fact.get("test", {}).get("groups", {})
    return groups


def _probes(members: Sequence[Individual]) -> dict[str, tuple[Spread | None, Spread | None]]:
    names = dict.fromkeys(name for individual in members for name in individual.fact.get("probes", {}))
    return {
        name: (
            Spread.of(individual.fact["probes"].get(name, {}).get("accuracy") for individual in members),
            Spread.of(individual.fact["probes"].get(name, {}).get("executed_flops") for individual in members),
        )
        for name in names
    }


def series_of(individual: Individual) -> dict[str, Points]:
    """The curves of one training; a copy of another training has that one's."""
    evaluation, twin = individual.evaluation, individual.fact.get("same_as")
    if twin is not None:
        evaluation = individual.run.individual(str(twin)).evaluation
    if evaluation is None:
        return {}
    return {name: tuple(points) for name, points in individual.run.archive.store.series(evaluation.id).items()}
