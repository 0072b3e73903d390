"""What growing costs beside training: probes, decisions, building, distillation, replay.

Run: python benchmarks/growth_overhead.py [--json PATH] [--width 32 --batch 64 --steps 400 --rounds 3]

Whole trainings of a zoo of six families on questions about images of digits, in turns in one process:
``fixed`` has no event; ``looking`` has all events, probes, looks and rewards, and a strategist that may change nothing,
so that it trains the very same zoo and all that it takes longer is growth; ``random`` and ``ppo`` change it. Of these
the zoo is another one after the first event, so that their whole time says little: what their growth took is measured
where it happens (fact ``growth.overhead`` of an evaluation). FLOPs of growth hold replay too, whose seconds are those
of training steps. CPU time of one thread for whole trainings; seconds by the clock for shares.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Trial
from evodevo.module_zoo.named import zoo_structure
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.search.problem import Outcome
from measuring import Report, Spread, arguments, ratio, take_turns

MOST = 0.10
"""Most that growth may cost, as a share of training."""
KINDS: dict[str, dict[str, Any]] = {
    "fixed": {"strategist": "fixed", "events": {"count": 0}},
    "looking": {"strategist": "fixed"},
    "random": {"strategist": "random"},
    "ppo": {"strategist": "ppo"},
}


def problem(steps: int, batch: int, blobs: Path) -> NetworkProblem:
    """Training and next to nothing else: what is measured at the end is the same for all."""
    settings = {
        "task": "digits_questions",
        "training": {"budget": {"steps": steps}, "batch_size": batch, "device": "cpu"},
        "validation_samples": 64,
        "test_samples": 64,
        "curve_points": 1,
        "curve_samples": 64,
        "trace_samples": 0,
    }
    return NetworkProblem(lambda arm: arm, NetworkEvaluationSettings.model_validate(settings), blobs)


def arm(kind: str, width: int) -> Trial:
    """One training."""
    structure = zoo_structure({"width": width, "extractor": {"blocks": 1}})
    return Trial(
        name=kind,
        network=ModuleZooNetwork(structure=structure),
        learning_rate=2e-3,
        procedure="grow",
        options=KINDS[kind],
    )


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, width=32, batch=64, steps=400, rounds=3)
    found: dict[str, list[Outcome]] = {kind: [] for kind in KINDS}

    def train(kind: str, given: NetworkProblem) -> Callable[[], None]:
        def once() -> None:
            payload = evaluate_network(given.payload(arm(kind, options.width), 0), lambda message: None)
            outcome = given.read(payload)
            if outcome.reason is not None:
                raise SystemExit(f"{kind} failed: {outcome.reason}: {outcome.detail}")
            found[kind].append(outcome)

        return once

    with tempfile.TemporaryDirectory() as folder:
        given = problem(options.steps, options.batch, Path(folder))
        seconds = take_turns({kind: train(kind, given) for kind in KINDS}, options.rounds, settle=False)
    report = Report(
        "What growing costs beside training",
        settings={"zoo": f"six families, d={options.width}, B={options.batch}, {options.steps} steps, float32"},
    )
    for kind, times in seconds.items():
        growths = [one.extra["growth"] for one in found[kind][1:]]
        shares = Spread.of([one["overhead"]["seconds_share"] for one in growths])
        flops = max(one["overhead"]["flops_share"] for one in growths)
        whole = ratio(times, seconds["fixed"])
        last = growths[-1]
        report.rows.append(
            {
                "what": kind,
                "CPU s": Spread.of(times).show(),
                "whole training, of fixed": whole.show(),
                "seconds of growth, of training": shares.show(),
                "FLOPs of growth, of training": f"{flops:.3g}",
                "born / gone": " / ".join(
                    str(sum(len(at[key]) for at in last["timeline"])) for key in ("born", "gone")
                ),
                "samples, steps of distillation": "{samples}, {distil_steps}".format(**last["overhead"]),
            }
        )
        if kind == "looking":
            report.at_most("whole training with all probes, of that without", whole.median, 1 + MOST)
        if kind != "fixed":
            report.at_most(f"seconds of growth as a share of training, {kind}", shares.median, MOST)
            report.at_most(f"FLOPs of growth as a share of training, {kind}", flops, MOST)
    report.finish(options.json)


if __name__ == "__main__":
    main()
