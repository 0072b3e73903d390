"""The made-up run of ``tests/report/charts/sample_run.py`` as a page reads it: runs and individuals without a store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from evodevo.backbone.draw import BackboneDrawing
from evodevo.backbone.report import BackboneParts
from evodevo.runs.pick import Summary
from evodevo.search.problem import Goal, Outcome
from evodevo.storage import EventRow
from evodevo.tasks.data_lines import data_lines
from report.charts import sample_run as sample


@dataclass(frozen=True)
class SampleIndividual:
    """What a page reads of ``runs.archive.Individual``.

    Attributes:
        means: Goal -> mean; what is missing has no number.
        spreads: Goal -> lowest and highest value over ``seeds``.
        failed: Whether it has no outcome, or one with a reason.
        genome: What the slice draws.
        remark: Why it need not beat the reference.
        points: Of its curve.
        stopped: Whether it stopped at a rung.
        evaluations: Rows of the store.
    """

    id: str
    generation: int = 0
    means: Mapping[str, Any] = field(default_factory=dict)
    spreads: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    seeds: int = 3
    operation: str = "initial"
    parents: Sequence[str] = ()
    name: str = ""
    failed: bool = False
    reason: str = ""
    detail: str = ""
    seconds: Any = None
    genome: Any = None
    text: str = ""
    remark: str = ""
    points: Sequence[tuple[float, Any]] = ()
    stopped: bool = False
    evaluations: Sequence[Any] = ()

    @property
    def row(self) -> Any:
        return SimpleNamespace(details={})

    @property
    def outcome(self) -> Outcome | None:
        return Outcome(reason=self.reason) if self.reason else None if self.failed else Outcome()

    @property
    def evaluation(self) -> Any:
        return SimpleNamespace(detail=self.detail, seconds=self.seconds)

    @property
    def fact(self) -> dict[str, Any]:
        return {"bits_per_byte": self.means.get("quality")}

    def curve(self) -> Sequence[tuple[float, Any]]:
        return self.points

    def summary(self, goal: str) -> Summary | None:
        if goal not in self.means:
            return None
        mean = self.means[goal]
        low, high = self.spreads.get(goal, (mean, mean))
        return Summary(mean, low, high, self.seeds if goal in self.spreads else 1, goal in self.spreads)

    own = summary


@dataclass(frozen=True)
class SampleRun:
    """What a page reads of ``runs.archive.Run``.

    Attributes:
        best: Ids of the front.
        volumes: (generation, hypervolume).
        reference: Point that the hypervolume is measured from.
        population: Ids after the last generation.
        bigram: Of the count model; None where there is none.
    """

    goals: Sequence[Goal] = ()
    members: Sequence[SampleIndividual] = ()
    best: Sequence[str] = ()
    drawn: Sequence[SampleIndividual] = ()
    id: str = "r0"
    recipe: str = "backbone.small"
    state: str = "finished"
    seed: Any = 7
    started: str = "2026-05-04T10:12:00+00:00"
    finished: str | None = "2026-05-04T11:02:00+00:00"
    versions: Mapping[str, Any] = field(default_factory=lambda: {"evodevo": "0.1.0", "torch": "2.11.0"})
    settings: Mapping[str, Any] = field(default_factory=dict)
    volumes: Sequence[tuple[int, Any]] = ()
    reference: Sequence[float] | None = None
    population: Sequence[str] = ()
    bigram: float | None = None

    @property
    def row(self) -> Any:
        return SimpleNamespace(
            created_at=self.started, finished_at=self.finished, versions=self.versions, settings=self.settings
        )

    def evaluation_seed(self, number: int) -> int:
        return number

    def individuals(self) -> list[SampleIndividual]:
        return list(self.members)

    def baselines(self) -> list[SampleIndividual]:
        return list(self.drawn)

    def front(self) -> list[SampleIndividual]:
        return [one for one in self.members if one.id in self.best]

    @property
    def exact_goals(self) -> frozenset[str]:
        return frozenset()

    @property
    def archive(self) -> Any:
        return SimpleNamespace(folder=Path("runs"))

    def pick(self) -> Any:
        return SimpleNamespace(individual=self.front()[-1])

    def generations(self) -> list[dict[str, Any]]:
        return [
            {"generation": number, "hypervolume": value, "reference": self.reference, "population": self.population}
            for number, value in self.volumes
        ]

    def data_lines(self) -> dict[str, str]:
        return data_lines(self.data())

    def data(self) -> dict[str, Any]:
        models = {} if self.bigram is None else {"byte_bigram": self.bigram}
        tokens = {"train": 1000, "validation": 64, "test": 80}
        return {"source": "/texts", "tokens": tokens, "split_rule": "by hand", "count_models": models}

    def events(self) -> list[EventRow]:
        words = ["evolve", self.recipe, "--seed", str(self.seed)]
        facts = {"task": self.data(), "run.command": {"words": words}}
        return [EventRow(n, self.id, "", kind, "", payload) for n, (kind, payload) in enumerate(facts.items())]


class SampleParts(BackboneParts):
    """Drawings, texts and remarks are made up, too."""

    def drawn(self, individual: Any) -> Any:
        return individual.genome

    def text(self, individual: Any) -> str:
        return str(individual.text)

    def motifs(self, view: Any) -> None:
        """Nothing: what is drawn has no plan."""

    def remark(self, individual: Any) -> str:
        return str(individual.remark)


GOALS = (Goal("quality", "bits per byte"), Goal("cache", "bytes"), Goal("parameters", "parameters"))
REASONS = ("timeout", "memory", "diverged", "killed")


def sample_run(generations: int = 6, size: int = 10) -> SampleRun:
    """60 individuals in 6 generations, some failed, two baselines with spread, three goals."""
    nodes = sample.nodes(generations, size)
    values = {node.id: sample.scores(index, node.generation) for index, node in enumerate(nodes)}
    scored = {node.id: values[node.id] for node in nodes if node.state != "failed"}
    best = [
        name
        for name, mine in scored.items()
        if not any(all(a <= b for a, b in zip(other, mine, strict=True)) and other != mine for other in scored.values())
    ]
    individuals = []
    for index, node in enumerate(nodes):
        mine, failed = values[node.id], node.state == "failed"
        livs, feature, featurizer = sample.genome(index)
        words = [f"{len(livs)} LIVs; {len(feature)} borrow feature groups and {len(featurizer)} share a featurizer."]
        backbone = BackboneDrawing(livs, feature, featurizer, text=" ".join(liv.segment for liv in livs), words=words)
        quality = (math.nan, None, math.inf)[index % 3] if failed else mine[0]
        individuals.append(
            SampleIndividual(
                node.id,
                node.generation,
                {"quality": quality, "cache": mine[1], "parameters": mine[2]},
                {"quality": (mine[0] - 0.02, mine[0] + 0.015)} if node.id in best else {},
                operation=node.operation,
                parents=node.parents,
                failed=failed,
                reason=REASONS[index % 4] if failed else "",
                detail="Traceback (most recent call last):\n  File …\nRuntimeError: loss is nan at step 12" * failed,
                seconds=42.0,
                genome=backbone,
                text=backbone.text,
                remark="no token mixer in its second half" if node.id == best[1] else "",
                points=sample.curve(index, diverges=failed),
            )
        )
    plain = BackboneDrawing(
        [
            sample.LivMark("SA-1" if i % 2 == 0 else "GMemless", "attention" if i % 2 == 0 else "memoryless")
            for i in range(24)
        ]
    )
    transformer = {"quality": 1.79, "cache": 150994944, "parameters": 84934656}
    mamba = {"quality": 1.93, "cache": 25657344, "parameters": 79.7e6}
    return SampleRun(
        GOALS,
        individuals,
        best,
        [
            SampleIndividual("b1", 0, transformer, {"quality": (1.77, 1.82)}, name="transformer++", genome=plain),
            SampleIndividual("b2", 0, mamba, {"quality": (1.91, 1.95)}, name="striped-mamba"),
        ],
        id="r0123456789ab",
        settings={"population": size, "generations": generations, "space": {"depth": 24, "width": 64}},
        volumes=[(g, 0.5 + 0.3 * (1 - math.exp(-g / 2))) for g in range(generations)],
        reference=(2.4, 160e6, 1e8),
        bigram=1.92,
    )
