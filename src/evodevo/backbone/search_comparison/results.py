"""The results of a comparison of searches as data: arms, their searches, networks at the final size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from evodevo.backbone.search_comparison.interval import Interval
from evodevo.experiments.comparison import Spread
from evodevo.search.front import Point


@dataclass(frozen=True)
class SearchMeasure:
    """One number by which searches are compared.

    Attributes:
        name: its key in JSON.
        title: its heading.
        higher_is_better: whether larger values are better.
    """

    name: str
    title: str
    higher_is_better: bool


@dataclass(frozen=True)
class FinalNetwork:
    """A network at the final size.

    Attributes:
        name: name of its training, or of the baseline.
        genome: the genome as text.
        arms: arms that found it; none of a baseline.
        parameters, cache_bytes: static cost, without embeddings.
        learning_rate: the chosen one; None where no training ended.
        trainings: ids of the finished trainings at that rate.
        validation: bits per byte on the validation split, over seeds.
        test: bits per byte on the test split, over seeds.
        hit: whether its mean is at least as good as that of every baseline; None before that is known.
    """

    name: str
    genome: str
    arms: tuple[str, ...]
    parameters: int
    cache_bytes: int
    learning_rate: float | None = None
    trainings: tuple[str, ...] = ()
    validation: Spread | None = None
    test: Spread | None = None
    hit: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        spreads = {"validation": self.validation, "test": self.test}
        return {**asdict(self), **{name: spread and spread.to_json() for name, spread in spreads.items()}}


@dataclass(frozen=True)
class SearchRow:
    """One search.

    Attributes:
        run, state: id and state of its run.
        seed: seed of its run.
        evaluations: number of evaluations that have ended.
        tokens: training tokens of these.
        flops: training FLOPs of these, where networks of several sizes are compared; else None.
        values: measure -> value.
        curve: (evaluations, training tokens, measure of the course); empty where courses are not comparable.
        finalists: individual -> name of its training at the final size, best in the search first.
    """

    run: str
    state: str
    seed: int
    evaluations: int
    tokens: int
    flops: float | None
    values: Mapping[str, float | None]
    curve: Sequence[tuple[int, int, float]] = ()
    finalists: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ArmRow:
    """One arm.

    Attributes:
        name: name of the arm.
        changes: settings in which its searches differ from the others, in words.
        searches: its searches, in the order of their seeds.
        measures: measure -> mean over seeds.
        differences: measure -> mean over seeds of its difference to random search with the same seed.
        hits: finalists that reach both baselines at the final size, and finalists; None without such trainings.
    """

    name: str
    changes: str
    searches: tuple[SearchRow, ...]
    measures: Mapping[str, Interval]
    differences: Mapping[str, Interval]
    hits: tuple[int, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return {
            **asdict(self),
            "measures": {name: one.to_json() for name, one in self.measures.items()},
            "differences_to_random": {name: one.to_json() for name, one in self.differences.items()},
        }


@dataclass(frozen=True)
class SearchComparisonRecord:
    """A comparison of searches as far as it has come.

    Attributes:
        run, recipe, state: id, recipe and state of its run.
        goals: names of the objectives of the searches.
        seeds: number of seeds of each arm, as planned.
        stages: stage -> id and state of its run.
        measures: measures by which the arms are compared.
        reference: reference point of the hypervolumes, values to minimise; None before there is one.
        common: number of evaluations, and of training tokens, that all searches have in common; None where courses
            are not compared.
        arms: arms, random search last.
        networks: networks at the final size, baselines first.
        sentences: statements on the table, and on what its seeds can tell.
    """

    run: str
    recipe: str
    state: str
    goals: tuple[str, ...]
    seeds: int
    stages: Mapping[str, Mapping[str, str]]
    measures: tuple[SearchMeasure, ...]
    reference: Point | None
    common: tuple[int, int] | None
    arms: tuple[ArmRow, ...]
    networks: tuple[FinalNetwork, ...]
    sentences: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return {
            **asdict(self),
            "arms": [arm.to_json() for arm in self.arms],
            "networks": [network.to_json() for network in self.networks],
        }
