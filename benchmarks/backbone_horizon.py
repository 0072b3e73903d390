"""After how many FLOPs an edit of a growing backbone is worth what it will be worth in the end.

Run: python benchmarks/backbone_horizon.py DATA [--budget 1] [--at 0.1] [--seeds 0 1 2]

A transformer of 2 LIVs and width 32 with windows of 64 tokens, the start of ``backbone.growth_proof``'s ladder, is
trained with each of ``EDITS`` at a share of the budget, and without any. A row for each edit: its validation loss minus
that without an edit, in nats, mean over seeds, after so many FLOPs from the edit on; below 0 it is better. A fork that
is as long as the column decides by this number. One thread.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np
import torch

from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Trial
from evodevo.growth.backbone.arms import WIDER, WINDOW, GrowingBackbone
from evodevo.growth.backbone.insert import InsertEdit
from evodevo.growth.backbone.lengthen import LengthenEdit
from evodevo.growth.backbone.spec import Edit
from evodevo.growth.backbone.stack import StackEdit
from evodevo.growth.backbone.widen import WidenEdit
from evodevo.runs.resolve import resolve
from evodevo.settings import merge, validate
from measuring import print_table

NONE = "none"
LENGTHS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.89)
"""FLOPs from the edit on, as shares of the budget."""


def edits_at(share: float) -> dict[str, tuple[Edit, ...]]:
    """The edits by name, each made at this share of the budget."""
    made: tuple[Edit, ...] = (
        InsertEdit(at=share, liv="Rec-1", place=1),
        InsertEdit(at=share, liv="GConv-1", place=1),
        InsertEdit(at=share, liv="SA-1"),
        LengthenEdit(at=share, tokens=WINDOW),
        StackEdit(at=share),
        WidenEdit(at=share),
    )
    return {NONE: (), **{edit.words(): (edit,) for edit in made}}


def settings_of(data: str, tera: float) -> NetworkEvaluationSettings:
    """Those of the recipe, with a curve of many points on many windows."""
    resolved = resolve("backbone.growing", size="quick", driver="grow", overrides={})
    more = {
        "task_settings": {"data": data},
        "training": {"budget": {"flops": tera * 1e12}},
        "curve_points": 100,
        "curve_samples": 435,
    }
    values = merge(resolved.evaluation.model_dump(mode="json"), more)
    return validate(NetworkEvaluationSettings, values, what="settings")


def curve(settings: NetworkEvaluationSettings, edits: tuple[Edit, ...], seed: int) -> tuple[list[float], list[float]]:
    """FLOPs and validation losses of one training."""
    start = GrowingBackbone(width=32, classes=WIDER, edits=edits, starts=())
    variant = start.grown()
    arm = Trial(
        name=variant.name,
        network=variant.network,
        learning_rate=3e-3,
        procedure=variant.procedure,
        options=variant.options,
    )
    problem = NetworkProblem(lambda one: one, settings, None, arms=(arm,))
    outcome = problem.read(evaluate_network(problem.payload(arm, seed, None), lambda message: None))
    if outcome.reason is not None:
        raise SystemExit(f"{variant.name}: {outcome.detail}")
    return [value for _, value in outcome.series["flops"]], [value for _, value in outcome.series["validation_loss"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--budget", type=float, default=1.0, help="TFLOPs of a training")
    parser.add_argument("--at", type=float, default=0.1, help="share of the budget before the edit")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    torch.set_num_threads(1)
    settings, budget = settings_of(given.data, given.budget), given.budget * 1e12
    after = [length for length in LENGTHS if given.at + length < 1]
    places = [(given.at + length) * budget for length in after]
    found: dict[str, list[list[float]]] = {}
    for seed in given.seeds:
        plain: list[float] = []
        for name, edits in edits_at(given.at).items():
            losses = [float(loss) for loss in np.interp(places, *curve(settings, edits, seed))]
            plain = losses if name == NONE else plain
            found.setdefault(name, []).append([one - other for one, other in zip(losses, plain, strict=True)])
            print(f"seed {seed}, {name}: {' '.join(f'{loss:.3f}' for loss in losses)}", flush=True)
    rows = []
    for name, differences in found.items():
        means = [statistics.fmean(column) for column in zip(*differences, strict=True)]
        told = {
            f"{length * given.budget * 1000:g} GFLOP": f"{mean:+.3f}" for length, mean in zip(after, means, strict=True)
        }
        rows.append({"edit": name, **told})
    print_table([row for row in rows if row["edit"] != NONE])


if __name__ == "__main__":
    main()
