"""The made-up run of ``tests/report/charts/sample_run.py`` as the data of a report."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

from evodevo.backbone.draw import BackboneDrawing
from evodevo.report.charts.curves import Series
from evodevo.runs.report.data import (
    EvolutionReport,
    Reference,
    ReferenceResult,
    ReportedBaseline,
    ReportedIndividual,
    ReportedObjective,
    RunFacts,
)


def load_sample_run() -> ModuleType:
    """The sample of the charts; tests are not a package."""
    path = Path(__file__).parents[2] / "report" / "charts" / "sample_run.py"
    spec = importlib.util.spec_from_file_location("sample_run", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OBJECTIVES = (
    ReportedObjective("quality", "bits per byte"),
    ReportedObjective("cache", "bytes"),
    ReportedObjective("parameters", "parameters"),
)
REASONS = ("timeout", "memory", "diverged", "killed")


def sample_report(generations: int = 6, size: int = 10) -> EvolutionReport:
    """60 individuals in 6 generations, some failed, two baselines with spread, three objectives."""
    sample = load_sample_run()
    nodes = sample.nodes(generations, size)
    values = {node.id: sample.scores(index, node.generation) for index, node in enumerate(nodes)}
    scored = [values[node.id] for node in nodes if node.state != "failed"]
    individuals = []
    for index, node in enumerate(nodes):
        mine, failed = values[node.id], node.state == "failed"
        dominated = any(all(a <= b for a, b in zip(other, mine, strict=True)) and other != mine for other in scored)
        state = "failed" if failed else "dominated" if dominated else "front"
        quality = (math.nan, None, math.inf)[index % 3] if failed else mine[0]
        livs, feature, featurizer = sample.genome(index)
        backbone = BackboneDrawing(
            livs,
            feature,
            featurizer,
            text=" ".join(liv.segment for liv in livs),
            words=[f"{len(livs)} LIVs; {len(feature)} borrow feature groups and {len(featurizer)} share a featurizer."],
        )
        individuals.append(
            ReportedIndividual(
                node.id,
                node.generation,
                state,  # type: ignore[arg-type]
                {"quality": quality, "cache": mine[1], "parameters": mine[2]},
                {"quality": (mine[0] - 0.02, mine[0] + 0.015)} if state == "front" else {},
                node.operation,
                node.parents,
                REASONS[index % 4] if failed else "",
                "Traceback (most recent call last):\n  File …\nRuntimeError: loss is nan at step 12" if failed else "",
                42.0,
                backbone,
                sample.curve(index, diverges=failed),
                "diverged" if failed else "stable",
                backbone.text,
            )
        )
    front = [individual for individual in individuals if individual.state == "front"]
    plain = BackboneDrawing(
        [
            sample.LivMark("SA-1" if i % 2 == 0 else "GMemless", "attention" if i % 2 == 0 else "memoryless")
            for i in range(24)
        ]
    )
    return EvolutionReport(
        run=RunFacts(
            "r0123456789ab",
            "backbone.small",
            "evodevo evolve backbone.small --objective quality --objective cache --population 10 --generations 6",
            "finished",
            7,
            "2026-05-04 10:12",
            "2026-05-04 11:02",
            "50 min",
            "2 cores, 8 GB, no GPU",
            {"evodevo": "0.1.0", "torch": "2.11.0"},
            {"population": size, "generations": generations, "space": {"depth": 24, "width": 64}},
        ),
        objectives=OBJECTIVES,
        individuals=individuals,
        baselines=[
            ReportedBaseline(
                "transformer++",
                {"quality": 1.79, "cache": 150994944, "parameters": 84934656},
                {"quality": (1.77, 1.82)},
                3,
                plain,
            ),
            ReportedBaseline(
                "striped-mamba",
                {"quality": 1.93, "cache": 25657344, "parameters": 79.7e6},
                {"quality": (1.91, 1.95)},
                3,
            ),
        ],
        reference=Reference(
            "The byte bigram (add-α, α = 0.01)",
            1.92,
            results=[
                ReferenceResult("transformer++", 1.79),
                ReferenceResult("striped-mamba", 1.93),
                *(
                    ReferenceResult(i.id, i.scores["quality"], "no token mixer in its second half" if n == 1 else "")
                    for n, i in enumerate(front)
                ),
            ],
        ),
        hypervolume=[(g, 0.5 + 0.3 * (1 - math.exp(-g / 2))) for g in range(generations)],
        hypervolume_others=[
            Series("random search", [(g, 0.5 + 0.2 * (1 - math.exp(-g / 2))) for g in range(generations)])
        ],
        reference_point={"quality": 2.4, "cache": 160e6},
        picks={"knee": front[-1].id},
        notes=["All candidates were trained on 170 thousand bytes."],
    )
